package host_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// inspectAt logs in to a Hub at this URL and looks at one executed operation,
// with a refresh on the way.
func inspectAt(ctx context.Context, hub *hubtest.Hub, d registry.Descriptor, opts ...agentclient.Option) error {
	session := hub.Login(hubtest.Grant{})
	id, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	if err != nil {
		return err
	}
	d.ClientAppID, d.Workspace = session.ClientID, hubtest.DefaultRoute
	store := registry.NewMemory()
	connection, err := store.Register(ctx, d)
	if err != nil {
		return err
	}
	login := credentialsOf(session)
	login.HubURL = d.HubURL
	if err := store.SaveCredentials(ctx, connection.Key, login); err != nil {
		return err
	}
	transport, err := host.New(store, opts...)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	original, err := transport.Capture(ctx, connection.Key, id)
	if err != nil {
		return err
	}
	hub.ExpireAccess(session.ID)
	observed, err := transport.InspectInvocation(ctx, original)
	if err == nil && observed.Progress() != receipt.ProgressExecuted {
		err = fmt.Errorf("progress %s", observed.Progress())
	}
	return err
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	t.Run("HTTP/1.1", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.NewServer(t)
		if err := inspectAt(t.Context(), hub.Hub, registry.Descriptor{HubURL: hub.URL}); err != nil {
			t.Error(err)
		}
	})
	t.Run("HTTP/1.1 without keep-alive", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.NewServer(t)
		transport := &http.Transport{DisableKeepAlives: true}
		if err := inspectAt(t.Context(), hub.Hub, registry.Descriptor{HubURL: hub.URL}, agentclient.WithHTTPClient(&http.Client{Transport: transport})); err != nil {
			t.Error(err)
		}
	})
	t.Run("HTTP/2 over TLS", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.New()
		t.Cleanup(hub.Close)
		server := hub.StartTLS()
		base, old := server.Client().Transport, atomic.Int64{}
		client := &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
			answer, err := base.RoundTrip(r)
			if err == nil && answer.ProtoMajor != 2 {
				old.Add(1)
			}
			return answer, err
		})}
		if err := inspectAt(t.Context(), hub, registry.Descriptor{HubURL: server.URL}, agentclient.WithHTTPClient(client)); err != nil || old.Load() > 0 {
			t.Errorf("%v; %d answers were not HTTP/2", err, old.Load())
		}
	})
	t.Run("a path prefix", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.NewServer(t, hubtest.WithPathPrefix("/bailing/hub"))
		if !strings.HasSuffix(hub.URL, "/bailing/hub") {
			t.Fatal(hub.URL)
		}
		if err := inspectAt(t.Context(), hub.Hub, registry.Descriptor{HubURL: hub.URL + "/"}); err != nil {
			t.Error(err)
		}
	})
	t.Run("IPv6 loopback", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.New()
		t.Cleanup(hub.Close)
		listener, err := net.Listen("tcp6", "[::1]:0")
		if err != nil {
			t.Fatalf("this machine has no IPv6 loopback, which the test needs: %v", err)
		}
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: hub}}
		server.Start()
		t.Cleanup(server.Close)
		if err := inspectAt(t.Context(), hub, registry.Descriptor{HubURL: server.URL}); err != nil || !strings.Contains(server.URL, "[::1]") {
			t.Errorf("%s: %v", server.URL, err)
		}
	})
	t.Run("gzip", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.New()
		t.Cleanup(hub.Close)
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			recorded := httptest.NewRecorder()
			hub.ServeHTTP(recorded, r)
			if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				t.Error("gzip was not asked for")
			}
			rw.Header().Set("Content-Encoding", "gzip")
			rw.WriteHeader(recorded.Code)
			packer := gzip.NewWriter(rw)
			_, _ = packer.Write(recorded.Body.Bytes())
			_ = packer.Close()
		}))
		t.Cleanup(server.Close)
		if err := inspectAt(t.Context(), hub, registry.Descriptor{HubURL: server.URL}); err != nil {
			t.Error(err)
		}
	})
}

// A batch opens no more connections than it asks at once, and the next one goes
// on with them.
func TestBatchConnections(t *testing.T) {
	t.Parallel()
	const atOnce, batches = 6, 3
	hub := hubtest.New()
	t.Cleanup(hub.Close)
	var opened, closed atomic.Int64
	allClosed := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(hub)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			if closed.Add(1) == opened.Load() {
				select {
				case allClosed <- struct{}{}:
				default:
				}
			}
		}
	}
	server.Start()
	t.Cleanup(server.Close)

	w := newWorld(t)
	session := hub.Login(hubtest.Grant{})
	connection, err := w.store.Register(t.Context(), registry.Descriptor{HubURL: server.URL, ClientAppID: session.ClientID, Workspace: hubtest.DefaultRoute})
	w.must(err)
	login := credentialsOf(session)
	login.HubURL = server.URL
	w.must(w.store.SaveCredentials(t.Context(), connection.Key, login))
	transport, err := host.New(w.store)
	w.must(err)
	var originals []host.Original
	for range 100 {
		id, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
		w.must(err)
		original, err := transport.Capture(t.Context(), connection.Key, id)
		w.must(err)
		originals = append(originals, original)
	}
	for range batches {
		for o := range transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(atOnce)) {
			w.must(o.Err)
		}
		if n := opened.Load(); n > atOnce || closed.Load() > 0 {
			t.Fatalf("%d connections opened, %d closed", n, closed.Load())
		}
	}
	transport.CloseIdleConnections()
	<-allClosed

	// Idle connections are closed while a batch runs, too.
	for range transport.InspectInvocations(t.Context(), originals[:1]) {
		transport.CloseIdleConnections()
		<-allClosed
	}

	// Two at once share none, and no more are kept than one batch needs.
	for range transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(atOnce)) {
		for o := range transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(atOnce)) {
			w.must(o.Err)
		}
		break
	}
	transport.CloseIdleConnections()
	<-allClosed
}
