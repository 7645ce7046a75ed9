package hubtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"time"
)

// A Server is a Hub that listens on 127.0.0.1. Closing it closes the Hub.
type Server struct {
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
	return h.start(h.newServer(), &http.Transport{}, "http")
}

// StartTLS is Start over TLS, with HTTP/2 for those who want it.
// [Server.Client] trusts its certificate.
func (h *Hub) StartTLS() *Server {
	cert, pool := certificate()
	srv := h.newServer()
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	return h.start(srv, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}, "https")
}

// Client returns an HTTP client that reaches the server and trusts its
// certificate. Closing the Hub closes its idle connections.
func (s *Server) Client() *http.Client { return s.client }

func (h *Hub) start(srv *http.Server, t *http.Transport, scheme string) *Server {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic("hubtest: no port to listen on: " + err.Error())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		l.Close()
		panic("hubtest: Start on a closed Hub")
	}
	h.servers = append(h.servers, srv)
	h.active.Go(func() {
		if srv.TLSConfig != nil {
			_ = srv.ServeTLS(l, "", "")
		} else {
			_ = srv.Serve(l)
		}
	})
	return &Server{Hub: h, URL: scheme + "://" + l.Addr().String() + h.prefix, client: &http.Client{Transport: t}}
}

// Transport returns a round tripper that reaches the Hub within the process,
// whatever host the URL names, http and https alike. Behind it is the real
// HTTP of net/http over pipes, one connection for each request: what a fault
// does to a connection is what a network would do to it.
//
// It works in a bubble of testing/synctest, given a Hub that was made there.
func (h *Hub) Transport() http.RoundTripper {
	srv := h.newServer()
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		// Serve returns after the one connection is accepted.
		if err := srv.Serve(&pipeListener{conn: far}); err != io.EOF {
			near.Close()
			far.Close()
			return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errRefused}
		}
		return near, nil
	}
	t := &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = append(h.servers, srv)
	return t
}

var errRefused = errors.New("connection refused")

// newServer returns an HTTP server whose connections Close waits for.
func (h *Hub) newServer() *http.Server {
	return &http.Server{
		Handler:                      h,
		ConnState:                    h.track,
		DisableGeneralOptionsHandler: true,
	}
}

// track follows the connections of a server.
func (h *Hub) track(c net.Conn, state http.ConnState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case state == http.StateNew && h.closed:
		c.Close()
	case state == http.StateNew:
		h.conns[c] = true
		h.active.Add(1)
	case (state == http.StateClosed || state == http.StateHijacked) && h.conns[c]:
		delete(h.conns, c)
		h.active.Done()
	}
}

// pipeListener accepts one connection.
type pipeListener struct{ conn net.Conn }

func (l *pipeListener) Accept() (net.Conn, error) {
	c := l.conn
	l.conn = nil
	if c == nil {
		return nil, io.EOF
	}
	return c, nil
}

func (l *pipeListener) Close() error   { return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "hubtest", Net: "pipe"} }

// certificate makes a key and a certificate for 127.0.0.1 and localhost.
func certificate() (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("hubtest: " + err.Error())
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "hubtest"},
		NotBefore:             time.Unix(0, 0),
		NotAfter:              time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic("hubtest: " + err.Error())
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic("hubtest: " + err.Error())
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
