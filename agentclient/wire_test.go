package agentclient_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// rawHub is a server that is told, connection by connection and byte by byte,
// what to do. Nothing of package net/http is in it.
type rawHub struct {
	url   string
	roots *x509.CertPool // of its certificate

	mu       sync.Mutex
	conns    []net.Conn
	receipts int      // requests for a receipt that came, whole
	faults   []string // what is wrong with the requests
}

// newRawHub serves each connection in a goroutine of its own, over TLS where
// there is a protocol to negotiate.
func newRawHub(t *testing.T, protocol string, serve func(*rawHub, net.Conn)) *rawHub {
	t.Helper()
	hub := &rawHub{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub.url = "http://" + listener.Addr().String()
	if protocol != "" {
		template := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
		template.Close()
		hub.url, hub.roots = "https://"+listener.Addr().String(), x509.NewCertPool()
		hub.roots.AddCert(template.Certificate())
		listener = tls.NewListener(listener, &tls.Config{Certificates: template.TLS.Certificates, NextProtos: []string{protocol}})
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			hub.mu.Lock()
			hub.conns = append(hub.conns, conn)
			hub.mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				serve(hub, conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		hub.mu.Lock()
		for _, conn := range hub.conns {
			conn.Close()
		}
		hub.mu.Unlock()
		serving.Wait()
	})
	return hub
}

func (h *rawHub) note(format string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, format)
}

// came counts a request and gives its number; only those for a receipt count.
func (h *rawHub) came(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if path == receiptPath {
		h.receipts++
	}
	return h.receipts
}

func (h *rawHub) seen() (receipts, conns int, faults []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.receipts, len(h.conns), slices.Clone(h.faults)
}

// client asks the hub through a transport of net/http that the caller owns.
func (h *rawHub) client(t *testing.T, opts ...agentclient.Option) *agentclient.BailingHubAgentClient {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: h.roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return h.clientOver(t, transport, opts...)
}

func (h *rawHub) clientOver(t *testing.T, transport http.RoundTripper, opts ...agentclient.Option) *agentclient.BailingHubAgentClient {
	t.Helper()
	client, err := agentclient.New(agentclient.Config{HubURL: h.url, Workspace: workspace, TokenSource: static(canary)},
		append([]agentclient.Option{agentclient.WithHTTPClient(&http.Client{Transport: transport})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// http1 serves HTTP/1.1: the negotiation as a Hub does, and a receipt as answer
// says, which gets the number of the request and whether to go on.
func http1(answer func(conn net.Conn, n int) bool) func(*rawHub, net.Conn) {
	return func(hub *rawHub, conn net.Conn) {
		reader := bufio.NewReader(conn)
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			path, _, _ := strings.Cut(strings.TrimPrefix(line, "GET "), " ")
			var names []string
			for {
				header, err := reader.ReadString('\n')
				if err != nil {
					return
				}
				if header == "\r\n" {
					break
				}
				name, _, _ := strings.Cut(header, ":")
				names = append(names, name)
			}
			for _, name := range names {
				if strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding") || strings.EqualFold(name, "Expect") {
					hub.note("a GET with " + name)
				}
			}
			n := hub.came(path)
			if path == capabilitiesPath {
				if _, err := io.WriteString(conn, whole(capabilitiesBody)); err != nil {
					return
				}
				continue
			}
			if !answer(conn, n) {
				return
			}
		}
	}
}

// whole is an answer over HTTP/1.1.
func whole(body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body) + chunk("")
}

func chunk(text string) string {
	const digits = "0123456789abcdef"
	size := len(text)
	hex := ""
	for ok := true; ok; ok = size > 0 {
		hex = digits[size%16:size%16+1] + hex
		size /= 16
	}
	return hex + "\r\n" + text + "\r\n"
}

// http2Stream is what a server over HTTP/2 may do with a request.
type http2Stream struct {
	*http2.Framer
	conn net.Conn
	id   uint32
	mu   *sync.Mutex // for those who answer later, beside the server's own frames
}

// head writes the headers of an answer, body all that is left of it.
func (s http2Stream) head(status string) {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true})
}

func (s http2Stream) body(text string) { _ = s.WriteData(s.id, true, []byte(text)) }

// http2Frames serves HTTP/2 as http1 does HTTP/1.1.
func http2Frames(answer func(s http2Stream, n int) bool) func(*rawHub, net.Conn) {
	return func(hub *rawHub, conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		framer := http2.NewFramer(conn, conn)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = framer.WriteSettings()
		var mu sync.Mutex
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					mu.Lock()
					_ = framer.WriteSettingsAck()
					mu.Unlock()
				}
			case *http2.PingFrame:
				if !f.IsAck() {
					mu.Lock()
					_ = framer.WritePing(true, f.Data)
					mu.Unlock()
				}
			case *http2.DataFrame:
				hub.note("a DATA frame of a GET")
			case *http2.MetaHeadersFrame:
				if !f.StreamEnded() {
					hub.note("HEADERS of a GET without END_STREAM")
				}
				for _, field := range f.RegularFields() {
					if field.Name == "content-length" || field.Name == "transfer-encoding" {
						hub.note("a GET with " + field.Name)
					}
				}
				path := f.PseudoValue("path")
				n := hub.came(path)
				s := http2Stream{framer, conn, f.StreamID, &mu}
				mu.Lock()
				goOn := true
				if path == capabilitiesPath {
					s.head("200")
					s.body(capabilitiesBody)
				} else {
					goOn = answer(s, n)
				}
				mu.Unlock()
				if !goOn {
					return
				}
			}
		}
	}
}

// reset closes a connection with RST instead of FIN.
func reset(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// closeWrite ends what is sent, and goes on reading.
func closeWrite(conn net.Conn) {
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	_, _ = io.Copy(io.Discard, conn)
}

// A GET has no trace of a body, over HTTP/1.1 and HTTP/2, whoever brings the
// transport.
func TestGETsHaveNoBodyOnTheWire(t *testing.T) {
	t.Parallel()
	over1 := http1(func(conn net.Conn, _ int) bool { _, err := io.WriteString(conn, whole(receiptBody)); return err == nil })
	over2 := http2Frames(func(s http2Stream, _ int) bool { s.head("200"); s.body(receiptBody); return true })
	prior := &http.Protocols{}
	prior.SetUnencryptedHTTP2(true)
	for name, test := range map[string]struct {
		protocol  string
		serve     func(*rawHub, net.Conn)
		transport func(*tls.Config) http.RoundTripper // nil for the client's own
	}{
		"HTTP/1.1":                    {serve: over1},
		"HTTP/1.1, borrowed":          {serve: over1, transport: func(*tls.Config) http.RoundTripper { return &http.Transport{} }},
		"HTTP/1.1 over TLS, borrowed": {"http/1.1", over1, func(c *tls.Config) http.RoundTripper { return &http.Transport{TLSClientConfig: c} }},
		"HTTP/2, borrowed": {"h2", over2, func(c *tls.Config) http.RoundTripper {
			return &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
		}},
		//lint:ignore SA1019 programs have it
		"HTTP/2 of x/net":    {"h2", over2, func(c *tls.Config) http.RoundTripper { return &http2.Transport{TLSClientConfig: c} }},
		"HTTP/2 without TLS": {serve: over2, transport: func(*tls.Config) http.RoundTripper { return &http.Transport{Protocols: prior} }},
		"HTTP/2 with a wrapper": {"h2", over2, func(c *tls.Config) http.RoundTripper {
			return cloning{&http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newRawHub(t, test.protocol, test.serve)
			var opts []agentclient.Option
			if test.transport != nil {
				transport := test.transport(&tls.Config{RootCAs: hub.roots})
				opts = append(opts, agentclient.WithHTTPClient(&http.Client{Transport: transport}))
				t.Cleanup(transport.(interface{ CloseIdleConnections() }).CloseIdleConnections)
			}
			client, err := agentclient.New(agentclient.Config{HubURL: hub.url, Workspace: workspace, TokenSource: static(canary)}, opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.CloseIdleConnections)
			for range 3 { // on a new connection and on a used one
				if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
					t.Fatal(err)
				}
			}
			if receipts, conns, faults := hub.seen(); receipts != 3 || conns != 1 || len(faults) > 0 {
				t.Errorf("%d requests on %d connections: %q", receipts, conns, faults)
			}
		})
	}
}

// cloning is a transport around another one, which passes on copies, as those
// that write spans do.
type cloning struct{ *http.Transport }

func (c cloning) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.Transport.RoundTrip(r.Clone(r.Context()))
}

// warm makes so many used connections to a hub that answers well.
func warm(t *testing.T, client *agentclient.BailingHubAgentClient, atOnce int) {
	t.Helper()
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A server that fails a used connection gets each request once, whatever it
// does to the connection and when. There are other connections that net/http
// could go on with.
func TestHTTP1SendsNothingTwice(t *testing.T) {
	t.Parallel()
	const atOnce, times = 16, 12
	for name, fail := range map[string]func(net.Conn) bool{
		"closes":                         func(net.Conn) bool { return false },
		"resets":                         func(c net.Conn) bool { reset(c); return false },
		"stops sending and goes on":      func(c net.Conn) bool { closeWrite(c); return false },
		"closes after half a head":       func(c net.Conn) bool { _, _ = io.WriteString(c, "HTTP/1.1 20"); return false },
		"closes after an interim answer": func(c net.Conn) bool { _, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n"); return false },
		"closes after the head":          func(c net.Conn) bool { _, _ = io.WriteString(c, whole(receiptBody)[:90]); return false },
		"closes in the body":             func(c net.Conn) bool { _, _ = io.WriteString(c, whole(receiptBody)[:200]); return false },
		"resets in the body": func(c net.Conn) bool {
			_, _ = io.WriteString(c, whole(receiptBody)[:200])
			reset(c)
			return false
		},
		"answers something else": func(c net.Conn) bool { _, _ = io.WriteString(c, "SSH-2.0-synthetic\r\n"); return false },
	} {
		for _, protocol := range []string{"", "http/1.1"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				var together sync.WaitGroup
				together.Add(atOnce)
				hub := newRawHub(t, protocol, http1(func(conn net.Conn, n int) bool {
					if n > atOnce {
						return fail(conn)
					}
					together.Done() // so that there are as many connections
					together.Wait()
					_, err := io.WriteString(conn, whole(receiptBody))
					return err == nil
				}))
				client := hub.client(t, agentclient.WithMaxRetries(0))
				warm(t, client, atOnce)
				for range times {
					_, err := client.InspectInvocation(t.Context(), invocationID)
					if failureOf(t, err).Feedback.Code != feedback.CodeAgentTransportUnavailable {
						t.Error(err)
					}
				}
				if receipts, _, faults := hub.seen(); receipts != atOnce+times || len(faults) > 0 {
					t.Errorf("%d requests for %d inspections: %q", receipts-atOnce, times, faults)
				}
			})
		}
	}
}

// The same over HTTP/2, where one stream can fail and the connection go on.
func TestHTTP2SendsNothingTwice(t *testing.T) {
	t.Parallel()
	const times = 4
	for name, fail := range map[string]func(http2Stream) bool{
		"refuses the stream": func(s http2Stream) bool { return s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) == nil },
		"refuses the stream after an interim answer": func(s http2Stream) bool {
			s.head("103")
			return s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) == nil
		},
		"refuses the stream and closes":  func(s http2Stream) bool { _ = s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream); return false },
		"cancels the stream":             func(s http2Stream) bool { return s.WriteRSTStream(s.id, http2.ErrCodeCancel) == nil },
		"wants HTTP/1.1":                 func(s http2Stream) bool { return s.WriteRSTStream(s.id, http2.ErrCodeHTTP11Required) == nil },
		"has a protocol error":           func(s http2Stream) bool { return s.WriteRSTStream(s.id, http2.ErrCodeProtocol) == nil },
		"goes away without it":           func(s http2Stream) bool { _ = s.WriteGoAway(s.id-2, http2.ErrCodeNo, nil); return false },
		"goes away without it and stays": func(s http2Stream) bool { return s.WriteGoAway(s.id-2, http2.ErrCodeNo, nil) == nil },
		"goes away from all of it":       func(s http2Stream) bool { _ = s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil); return false },
		"goes away with it":              func(s http2Stream) bool { _ = s.WriteGoAway(s.id, http2.ErrCodeNo, nil); return false },
		"goes away some time": func(s http2Stream) bool {
			_ = s.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)
			return s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) == nil
		},
		"goes away in the answer": func(s http2Stream) bool {
			s.head("200")
			_ = s.WriteGoAway(s.id-2, http2.ErrCodeNo, nil)
			return false
		},
		"refuses the stream in the answer": func(s http2Stream) bool {
			s.head("200")
			return s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) == nil
		},
		"closes":             func(http2Stream) bool { return false },
		"resets":             func(s http2Stream) bool { reset(s.conn); return false },
		"closes in the body": func(s http2Stream) bool { s.head("200"); _ = s.WriteData(s.id, false, []byte("{")); return false },
		"breaks the frames":  func(s http2Stream) bool { _, _ = io.WriteString(s.conn, strings.Repeat("\xff", 64)); return false },
	} {
		for _, of := range []string{"net/http", "x/net"} {
			t.Run(name+", "+of, func(t *testing.T) {
				t.Parallel()
				var failing atomic.Bool
				hub := newRawHub(t, "h2", http2Frames(func(s http2Stream, _ int) bool {
					if failing.CompareAndSwap(true, false) { // so that a second one would be answered
						return fail(s)
					}
					s.head("200")
					s.body(receiptBody)
					return true
				}))
				client := hub.client(t, agentclient.WithMaxRetries(0))
				if of == "x/net" {
					//lint:ignore SA1019 programs have it
					transport := &http2.Transport{TLSClientConfig: &tls.Config{RootCAs: hub.roots}}
					//lint:ignore SA1019 as above
					t.Cleanup(transport.CloseIdleConnections)
					client = hub.clientOver(t, transport, agentclient.WithMaxRetries(0))
				}
				for n := range times {
					warm(t, client, 1)
					failing.Store(true)
					_, err := client.InspectInvocation(t.Context(), invocationID)
					if failureOf(t, err).Feedback.Code != feedback.CodeAgentTransportUnavailable {
						t.Error(err)
					}
					if receipts, _, faults := hub.seen(); receipts != 2*(n+1) || len(faults) > 0 {
						t.Fatalf("%d requests for %d inspections: %q", receipts, 2*(n+1), faults)
					}
				}
			})
		}
	}
}

// A connection that went away while nobody used it costs nothing: nothing was
// sent on it, so another one may be looked for.
func TestAnIdleConnectionThatWentAwayCostsNothing(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t, "h2", http2Frames(func(s http2Stream, _ int) bool {
		s.head("200")
		_ = s.WriteGoAway(s.id, http2.ErrCodeNo, nil) // the client has read it when it has the body
		s.body(receiptBody)
		return true
	}))
	client := hub.client(t, agentclient.WithMaxRetries(0))
	for n := range 4 {
		if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
			t.Fatalf("inspection %d: %v", n+1, err)
		}
	}
	if receipts, conns, _ := hub.seen(); receipts != 4 || conns < 2 {
		t.Errorf("%d requests on %d connections", receipts, conns)
	}
}

// A transport around another one may send requests of its own within the
// context of the SDK's, for a token of its own say. They are not the SDK's.
func TestRequestsOfTheCallersTransportAreItsOwn(t *testing.T) {
	t.Parallel()
	var own atomic.Int64
	others := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { own.Add(1) }))
	t.Cleanup(others.Close)
	hub := newRawHub(t, "", http1(func(conn net.Conn, _ int) bool { _, err := io.WriteString(conn, whole(receiptBody)); return err == nil }))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := hub.clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		for range 2 {
			ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, others.URL, nil)
			if err != nil {
				return nil, err
			}
			answer, err := transport.RoundTrip(ask)
			if err != nil {
				return nil, err
			}
			answer.Body.Close()
		}
		return transport.RoundTrip(r)
	}), agentclient.WithMaxRetries(0))
	if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
		t.Error(err)
	}
	if own.Load() != 4 {
		t.Errorf("%d requests of its own", own.Load())
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
