package boundary

import "net/http"

// Own is the transport of our own; nil for a borrowed one.
func (t *Transport) Own() *http.Transport { return t.own }
