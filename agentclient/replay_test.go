package agentclient_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// net/http sends a request without a body again by itself where a used
// connection fails. That would be past the token source, the log and the limit
// of repeats.
func TestNetHTTPRepeatsNothing(t *testing.T) {
	t.Parallel()
	const atOnce = 32
	var bad atomic.Bool
	var first, gets atomic.Int64
	var together sync.WaitGroup
	together.Add(atOnce)
	hub := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if bad.Load() {
			gets.Add(1)
			connection, _, _ := http.NewResponseController(rw).Hijack()
			connection.Close()
			return
		}
		if first.Add(1) <= atOnce { // so that there are as many connections
			together.Done()
			together.Wait()
		}
		answer, _ := good(r)
		_, _ = io.Copy(rw, answer.Body)
	}))
	t.Cleanup(hub.Close)
	client, err := agentclient.New(agentclient.Config{HubURL: hub.URL, Workspace: workspace, TokenSource: static(canary)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	bad.Store(true)
	_, err = client.InspectInvocation(t.Context(), invocationID)
	if failureOf(t, err).Feedback.Code != feedback.CodeAgentTransportUnavailable || gets.Load() != 3 {
		t.Errorf("%d requests, %v", gets.Load(), err)
	}
}

// Nor over HTTP/2, where a server may refuse a stream or go away.
func TestHTTP2RepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*http2.Framer, uint32) error{
		"refused stream": func(f *http2.Framer, id uint32) error { return f.WriteRSTStream(id, http2.ErrCodeRefusedStream) },
		"going away": func(f *http2.Framer, id uint32) error {
			_ = f.WriteGoAway(id-2, http2.ErrCodeNo, nil)
			return io.EOF
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
			template.Close()
			listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: template.TLS.Certificates, NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			var receipts atomic.Int64
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					connection, err := listener.Accept()
					if err != nil {
						return
					}
					serving.Go(func() { serveHTTP2(connection, &receipts, refuse) })
				}
			})
			transport := template.Client().Transport.(*http.Transport).Clone()
			transport.ForceAttemptHTTP2 = true
			client, err := agentclient.New(agentclient.Config{HubURL: "https://" + listener.Addr().String(), Workspace: workspace, TokenSource: static(canary)},
				agentclient.WithHTTPClient(&http.Client{Transport: transport}))
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.InspectInvocation(t.Context(), invocationID)
			if failureOf(t, err).Feedback.Code != feedback.CodeAgentTransportUnavailable || receipts.Load() != 3 {
				t.Errorf("%d requests, %v", receipts.Load(), err)
			}
			transport.CloseIdleConnections()
			listener.Close()
			serving.Wait()
		})
	}
}

// serveHTTP2 answers the negotiation and refuses what comes after it.
func serveHTTP2(connection net.Conn, receipts *atomic.Int64, refuse func(*http2.Framer, uint32) error) {
	defer connection.Close()
	if _, err := io.ReadFull(connection, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(connection, connection)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			if f.PseudoValue("path") == capabilitiesPath {
				var block bytes.Buffer
				_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: block.Bytes(), EndHeaders: true})
				_ = framer.WriteData(f.StreamID, true, []byte(capabilitiesBody))
				continue
			}
			receipts.Add(1)
			if err := refuse(framer, f.StreamID); err != nil {
				return
			}
		}
	}
}

// The requests say nothing of a body to a server of net/http.
func TestRequestsHaveNoBodyOnTheWire(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*httptest.Server){"HTTP/1.1": (*httptest.Server).Start, "HTTP/2": func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }} {
		hub := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if len(body) > 0 || err != nil || r.ContentLength > 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Content-Length") != "" {
				t.Errorf("%s: a body of %d bytes, length %d, encoding %v, %v", name, len(body), r.ContentLength, r.TransferEncoding, err)
			}
			answer, _ := good(r)
			_, _ = io.Copy(rw, answer.Body)
		}))
		start(hub)
		client, err := agentclient.New(agentclient.Config{HubURL: hub.URL, Workspace: workspace, TokenSource: static(canary)}, agentclient.WithHTTPClient(hub.Client()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		hub.Close()
	}
}

// 64 requests that hang hold nobody else up.
func TestHangingRequestsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	const atOnce = 64
	release := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(atOnce)
	var n atomic.Int64
	hub := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= atOnce {
			arrived.Done()
			<-release
		}
		answer, _ := good(r)
		_, _ = io.Copy(rw, answer.Body)
	}))
	t.Cleanup(hub.Close)
	client, err := agentclient.New(agentclient.Config{HubURL: hub.URL, Workspace: workspace, TokenSource: static(canary)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() { _, _ = client.InspectInvocation(t.Context(), invocationID) })
	}
	arrived.Wait()
	if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
		t.Error(err)
	}
	close(release)
	all.Wait()
}

// A borrowed transport may not know the context, in no part of what it does.
func TestTransportsThatIgnoreTheContext(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(release chan struct{}) (*http.Response, error){
		"round trip": func(release chan struct{}) (*http.Response, error) { <-release; return nil, errors.New("late") },
		"body": func(release chan struct{}) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(stuckReader{release})}, nil
		},
		"body that ends when it is closed": func(release chan struct{}) (*http.Response, error) {
			answer := respond(200, "")
			answer.Body = &endsWhenClosed{closed: make(chan struct{})}
			return answer, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			w := &wire{answer: func(*http.Request) (*http.Response, error) { return answer(release) }}
			start := time.Now()
			_, err := newClient(t, w, agentclient.WithTimeout(time.Second)).InspectInvocation(t.Context(), invocationID)
			if failureOf(t, err).Feedback.Code != feedback.CodeAgentRequestTimeout || time.Since(start) != time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
			close(release)
		})
	}
}

type stuckReader struct{ release chan struct{} }

func (s stuckReader) Read([]byte) (int, error) { <-s.release; return 0, io.ErrUnexpectedEOF }

type endsWhenClosed struct {
	once   sync.Once
	closed chan struct{}
}

func (e *endsWhenClosed) Read([]byte) (int, error) { <-e.closed; return 0, io.EOF }

func (e *endsWhenClosed) Close() error { e.once.Do(func() { close(e.closed) }); return nil }

// A body that gives nothing, for ever, is a lost one.
func TestBodyWithoutProgress(t *testing.T) {
	t.Parallel()
	for _, code := range []int{200, 302} {
		w := &wire{answer: then(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(emptyReader{})}, nil
		})}
		_, err := newClient(t, w, agentclient.WithMaxRetries(0)).InspectInvocation(t.Context(), invocationID)
		want := feedback.CodeAgentTransportUnavailable
		if code == 302 {
			want = feedback.CodeAgentInvalidResponse
		}
		if failureOf(t, err).Feedback.Code != want {
			t.Errorf("%d: %v", code, err)
		}
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// A token source that is a plain value does not print with the client.
func TestPrintingAClientShowsNoToken(t *testing.T) {
	t.Parallel()
	client := newClientOf(t, valueSource{Secret: canary}, &wire{answer: good})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text := fmt.Sprintf(verb, client) + fmt.Sprintf(verb, []any{client})
		if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
			t.Errorf("%s shows the token", verb)
		}
	}
}

type valueSource struct{ Secret string }

func (s valueSource) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: s.Secret}, nil
}

func TestNilTokenSources(t *testing.T) {
	t.Parallel()
	var source *rotating
	if _, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: source}); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("%v", err)
	}
	var none context.Context
	_, err := newClient(t, &wire{answer: good}).InspectInvocation(none, invocationID)
	if failure := failureOf(t, err); failure.Feedback.InvocationID != invocationID {
		t.Errorf("%+v", failure.Feedback)
	}
}
