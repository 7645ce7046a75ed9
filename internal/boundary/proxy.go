package boundary

import (
	"net/http"
	"net/url"
)

// secureProxy is proxy for https only: a proxy sees the credential of a plain
// http request.
func secureProxy(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme != "https" {
			return nil, nil
		}
		return proxy(r)
	}
}
