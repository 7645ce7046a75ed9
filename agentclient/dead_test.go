package agentclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// ownOver gives a client with a transport of its own, which it clones from
// http.DefaultTransport. Nothing runs beside the tests that replace that.
func ownOver(t *testing.T, standard *http.Transport, hubURL string) *agentclient.BailingHubAgentClient {
	t.Helper()
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = standard
	client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: static(canary)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// deadline is a context whose deadline passes when a test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func newDeadline(t *testing.T) *deadline { return &deadline{t.Context(), make(chan struct{})} }

func (d *deadline) Done() <-chan struct{} { return d.passed }

func (d *deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// dying is a hub whose connections all die without a sign when it is told to:
// what comes on them is taken, and nothing is answered until it is told to.
type dying struct {
	mu      sync.Mutex
	dead    map[net.Conn]bool
	conns   []net.Conn
	arrived chan struct{} // gets a value for each request that nobody answers
	release chan struct{}
}

func newDying() *dying {
	return &dying{dead: map[net.Conn]bool{}, arrived: make(chan struct{}, 64), release: make(chan struct{})}
}

func (s *dying) connected(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, conn)
}

func (s *dying) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		s.dead[conn] = true
	}
}

func (s *dying) isDead(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead[conn]
}

// After a time-out nothing goes over the connection again, nor over those that
// were idle beside it, while what waits there goes on waiting.
func TestADeadConnectionIsNotUsedAgain(t *testing.T) {
	for protocol, atOnce := range map[string]int{"h2": 1, "http/1.1": 4} {
		s := newDying()
		var together sync.WaitGroup
		together.Add(atOnce)
		var n int
		var mu sync.Mutex
		warmUp := func() { // so that there are as many connections
			mu.Lock()
			n++
			wait := n <= atOnce
			mu.Unlock()
			if wait {
				together.Done()
				together.Wait()
			}
		}
		serve := func(hub *rawHub, conn net.Conn) {
			s.connected(conn)
			if protocol == "h2" {
				http2Frames(func(stream http2Stream, _ int) bool {
					warmUp()
					if s.isDead(conn) {
						s.arrived <- struct{}{}
						go func() {
							<-s.release
							stream.mu.Lock()
							defer stream.mu.Unlock()
							stream.head("200")
							stream.body(receiptBody)
						}()
						return true
					}
					stream.head("200")
					stream.body(receiptBody)
					return true
				})(hub, conn)
				return
			}
			http1(func(conn net.Conn, _ int) bool {
				warmUp()
				if s.isDead(conn) {
					s.arrived <- struct{}{}
					<-s.release
				}
				_, err := io.WriteString(conn, whole(receiptBody))
				return err == nil
			})(hub, conn)
		}
		hub := newRawHub(t, protocol, serve)
		client := ownOver(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: hub.roots}, ForceAttemptHTTP2: true}, hub.url)
		warm(t, client, atOnce)
		s.die()

		var others sync.WaitGroup
		others.Go(func() { // it has the time to wait
			if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
				t.Errorf("%s: a request that could wait: %v", protocol, err)
			}
		})
		<-s.arrived
		ctx := newDeadline(t)
		others.Go(func() {
			<-s.arrived
			close(ctx.passed)
		})
		if _, err := client.InspectInvocation(ctx, invocationID); failureOf(t, err).Feedback.Code != feedback.CodeAgentRequestTimeout {
			t.Errorf("%s: %v", protocol, err)
		}
		for range 3 {
			if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
				t.Errorf("%s: after the time-out: %v", protocol, err)
				break
			}
		}
		if len(s.arrived) > 0 {
			t.Errorf("%s: a dead connection was used again", protocol)
		}
		close(s.release)
		others.Wait()
		client.CloseIdleConnections()
	}
}

// A connection over HTTP/2 that is dead is found out while one inspection
// waits, which goes on over another one.
func TestPingsFindADeadConnection(t *testing.T) {
	template := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	template.Close()
	roots := x509.NewCertPool()
	roots.AddCert(template.Certificate())
	synctest.Test(t, func(t *testing.T) {
		var serving sync.WaitGroup
		var hub rawHub
		dials := 0
		standard := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				dials++
				isFirst := dials == 1
				serving.Go(func() {
					defer far.Close()
					conn := tls.Server(newRoomy(far), &tls.Config{Certificates: template.TLS.Certificates, NextProtos: []string{"h2"}})
					http2Frames(func(s http2Stream, n int) bool {
						if isFirst && n > 1 {
							_, _ = io.Copy(io.Discard, conn) // it is read and says nothing
							return false
						}
						s.head("200")
						s.body(receiptBody)
						return true
					})(&hub, conn)
				})
				return near, nil
			},
		}
		client := ownOver(t, standard, "https://example.com")
		for n := range 3 {
			start := time.Now()
			if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
				t.Errorf("inspection %d: %v", n, err)
			}
			if took := time.Since(start); n == 1 && (took < 8*time.Second || took > 9*time.Second) || n != 1 && took > time.Second {
				t.Errorf("inspection %d took %v", n, took)
			}
		}
		if dials != 2 {
			t.Errorf("%d connections", dials)
		}
		client.CloseIdleConnections()
		serving.Wait()
	})
}

// roomy is the end of a pipe that takes what comes before anybody reads it, as
// the buffers of a network do.
type roomy struct {
	net.Conn
	came chan []byte
	rest []byte
}

func newRoomy(conn net.Conn) *roomy {
	r := &roomy{Conn: conn, came: make(chan []byte, 1<<10)}
	go func() {
		defer close(r.came)
		for {
			p := make([]byte, 4<<10)
			n, err := conn.Read(p)
			if err != nil {
				return
			}
			r.came <- p[:n]
		}
	}()
	return r
}

func (r *roomy) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		more, ok := <-r.came
		if !ok {
			return 0, io.EOF
		}
		r.rest = more
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
