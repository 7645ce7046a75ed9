package boundary

import "net/http"

// Own is the transport of our own that the next request goes through; nil for a
// borrowed one.
func (t *Transport) Own() *http.Transport {
	if t.own == nil {
		return nil
	}
	return t.own.Transport
}
