// Package mocknet makes a mock server reachable, for packages hubtest and
// hermestest: on a port of this machine, with or without TLS, or through pipes
// within the process.
package mocknet

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
	"sync"
	"time"
)

// Net serves one handler. Its methods are safe for concurrent use.
type Net struct {
	name    string
	handler http.Handler
	idle    time.Duration
	active  sync.WaitGroup // servers and connections

	mu      sync.Mutex
	closed  bool
	servers []*http.Server
	conns   map[net.Conn]bool
}

// New gives a net for handler that serves nothing yet. The text of its panics
// begins with name. It closes connections that are idle for longer than idle; 0
// keeps them.
func New(name string, handler http.Handler, idle time.Duration) *Net {
	return &Net{name: name, handler: handler, idle: idle, conns: map[net.Conn]bool{}}
}

// Start serves over plain HTTP on a port of 127.0.0.1 and gives the URL of the
// server, without a slash at the end, and a client for it. It panics when there
// is no port, and on a closed net.
func (n *Net) Start() (url string, client *http.Client) {
	return n.start(n.newServer(), &http.Transport{}, "http")
}

// StartTLS does what Start does over TLS, with HTTP/2 for clients that ask for
// it. The client that it gives trusts the certificate.
func (n *Net) StartTLS() (url string, client *http.Client) {
	cert, pool := certificate()
	srv := n.newServer()
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	return n.start(srv, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}, "https")
}

func (n *Net) start(srv *http.Server, t *http.Transport, scheme string) (string, *http.Client) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(n.name + ": no port to listen on: " + err.Error())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		l.Close()
		panic(n.name + ": a server was started after it was closed")
	}
	n.servers = append(n.servers, srv)
	n.active.Go(func() {
		if srv.TLSConfig != nil {
			_ = srv.ServeTLS(l, "", "")
		} else {
			_ = srv.Serve(l)
		}
	})
	return scheme + "://" + l.Addr().String(), &http.Client{Transport: t}
}

// Transport returns a round tripper that sends every request to the handler
// within the process, whatever scheme and host its URL has. It uses the real HTTP
// of net/http over pipes, with one connection for each request. It works in a
// bubble of testing/synctest.
func (n *Net) Transport() http.RoundTripper {
	srv := n.newServer()
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		// The listener has this one connection only, so that Serve returns after
		// accepting it.
		if err := srv.Serve(&pipeListener{conn: far}); err != io.EOF {
			near.Close()
			far.Close()
			return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errRefused}
		}
		return near, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers = append(n.servers, srv)
	return &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true}
}

var errRefused = errors.New("connection refused")

// Close stops every server and connection and waits until all have ended.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	servers := n.servers
	n.mu.Unlock()
	for _, s := range servers {
		s.Close()
	}
	n.active.Wait()
}

// newServer returns an HTTP server whose connections Close waits for.
func (n *Net) newServer() *http.Server {
	return &http.Server{
		Handler:                      n.handler,
		IdleTimeout:                  n.idle,
		ConnState:                    n.track,
		DisableGeneralOptionsHandler: true,
	}
}

// track follows the connections of a server.
func (n *Net) track(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case state == http.StateNew && n.closed:
		c.Close()
	case state == http.StateNew:
		n.conns[c] = true
		n.active.Add(1)
	case (state == http.StateClosed || state == http.StateHijacked) && n.conns[c]:
		delete(n.conns, c)
		n.active.Done()
	}
}

// Lose closes the connection of a request in the middle of its answer, behind the
// first letters of the status line. Without those letters, a client of net/http
// whose connection had been used before would silently send its GET again, and
// the caller would never see the loss.
func Lose(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = conn.Write([]byte("HTTP/"))
	conn.Close()
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
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "mocknet", Net: "pipe"} }

// certificate makes a key and a certificate for 127.0.0.1 and localhost.
func certificate() (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("mocknet: " + err.Error())
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "mocknet"},
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
		panic("mocknet: " + err.Error())
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic("mocknet: " + err.Error())
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
