package boundary_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
)

// What net/http does when it sends a request again depends on which of two
// things it sees first. Here it is played: the hooks are called as it calls
// them, up to where it would write.
func TestSecondConnections(t *testing.T) {
	t.Parallel()
	const canary = "synthetic-canary-token"
	plain := func(t *testing.T) net.Conn { return new(noticing) }
	for name, test := range map[string]struct {
		wroteName, wroteValue string
		conn                  func(*testing.T) net.Conn
		ended, closed         bool
	}{
		"nothing was written":              {conn: plain},
		"another request was written":      {"Authorization", "Bearer synthetic-other", plain, false, false},
		"another header was written":       {"X-Request-Id", "Bearer " + canary, plain, false, false},
		"over HTTP/1":                      {"Authorization", "Bearer " + canary, plain, true, true},
		"over HTTP/2":                      {"authorization", "Bearer " + canary, plain, true, false},
		"over HTTP/2, then over HTTP/1":    {"authorization", "Bearer " + canary, negotiated(""), true, true},
		"over HTTP/1, then over HTTP/2":    {"Authorization", "Bearer " + canary, negotiated("h2"), true, false},
		"over HTTP/2 with TLS, both times": {"authorization", "Bearer " + canary, negotiated("h2"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := boundary.NewTransport(boundary.Settings{HTTPClient: &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(r.Context())
				trace.GetConn("hub.example.com:443")
				trace.GotConn(httptrace.GotConnInfo{Conn: plain(t)})
				if test.wroteName != "" {
					trace.WroteHeaderField(test.wroteName, []string{test.wroteValue})
				}
				if r.Context().Err() != nil {
					t.Error("ended in the first attempt")
				}
				conn := test.conn(t)
				trace.GotConn(httptrace.GotConnInfo{Conn: conn, Reused: true}) // without GetConn, which is not always called
				if ended := r.Context().Err() != nil; ended != test.ended {
					t.Errorf("ended: %v", ended)
				}
				if secure, ok := conn.(*tls.Conn); ok {
					conn = secure.NetConn()
				}
				if closed := conn.(*noticing).closed; closed != test.closed {
					t.Errorf("closed: %v", closed)
				}
				return nil, errors.New("the end")
			})}})
			client, err := boundary.NewClient(transport, base, boundary.HubRequests)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Do(t.Context(), boundary.Request{Method: http.MethodGet, Path: boundary.CapabilitiesPath,
				Bearer: func(context.Context) (string, error) { return canary, nil }})
			if _, lost := errors.AsType[*boundary.LostError](err); !lost {
				t.Error(err)
			}
		})
	}
}

// noticing is a connection that notes whether it was closed.
type noticing struct {
	net.Conn
	closed bool
}

func (n *noticing) Close() error { n.closed = true; return nil }

// negotiated gives a connection over TLS on which this protocol was agreed.
func negotiated(protocol string) func(*testing.T) net.Conn {
	return func(t *testing.T) net.Conn {
		t.Helper()
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close(); far.Close() })
		config := &tls.Config{Certificates: certificates(), InsecureSkipVerify: true}
		if protocol != "" {
			config.NextProtos = []string{protocol}
		}
		server := make(chan error, 1)
		go func() { server <- tls.Server(far, config).HandshakeContext(t.Context()) }()
		conn := tls.Client(&noticing{Conn: near}, config)
		if err := errors.Join(conn.HandshakeContext(t.Context()), <-server); err != nil {
			t.Fatal(err)
		}
		go func() { // what closing it says
			_, _ = far.Read(make([]byte, 1<<10))
		}()
		return conn
	}
}
