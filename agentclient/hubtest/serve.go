package hubtest

import "net/http"

// A Server is a Hub that listens on 127.0.0.1. Closing it closes the Hub.
type Server struct {
	// Hub that is served; never nil.
	*Hub
	// URL of the Hub, its path prefix included, without a slash at the end.
	URL    string
	client *http.Client
}

// TB is the part of [testing.TB] that NewServer needs.
type TB interface {
	Helper()
	Cleanup(func())
}

// NewServer starts a new Hub for a test and closes it when the test is over.
func NewServer(tb TB, opts ...Option) *Server {
	tb.Helper()
	s := New(opts...).Start()
	tb.Cleanup(s.Close)
	return s
}

// Start serves the Hub over plain HTTP on a port of its own. It panics when
// there is none, and when the Hub is closed.
func (h *Hub) Start() *Server {
	url, client := h.net.Start()
	return &Server{Hub: h, URL: url + h.prefix, client: client}
}

// StartTLS is Start over TLS, with HTTP/2 for those who want it.
// [Server.Client] trusts its certificate.
func (h *Hub) StartTLS() *Server {
	url, client := h.net.StartTLS()
	return &Server{Hub: h, URL: url + h.prefix, client: client}
}

// Client returns an HTTP client that reaches the server and trusts its
// certificate. Closing the Hub closes its idle connections.
func (s *Server) Client() *http.Client { return s.client }

// Transport returns a round tripper that reaches the Hub within the process,
// whatever host the URL names, http and https alike. Behind it is the real
// HTTP of net/http over pipes, one connection for each request: what a fault
// does to a connection is what a network would do to it.
//
// It works in a bubble of testing/synctest, given a Hub that was made there.
func (h *Hub) Transport() http.RoundTripper { return h.net.Transport() }
