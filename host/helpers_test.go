package host_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestMain(m *testing.M) {
	childtest.Run(children)
	goleak.VerifyTestMain(m, goleak.Cleanup(childtest.Descriptors()))
}

const hubURL = "https://hub.example.com"

// world is a mock Hub with one session, and a host that is logged in to it.
type world struct {
	t          testing.TB
	hub        *hubtest.Hub
	wire       *wire
	store      *registry.Memory
	session    hubtest.Session
	connection registry.Connection
	transport  *host.Transport
	original   host.Original
}

// newWorld has one operation of the write tool, executed.
func newWorld(t testing.TB, opts ...hubtest.Option) *world {
	t.Helper()
	hub := hubtest.New(opts...)
	t.Cleanup(hub.Close)
	w := &world{t: t, hub: hub, wire: &wire{base: hub.Transport()}, store: registry.NewMemory()}
	w.session = hub.Login(hubtest.Grant{})
	connection, err := w.store.Register(context.Background(), registry.Descriptor{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})
	w.must(err)
	w.connection = connection
	w.login(w.session)
	w.transport = w.newTransport(w.store)
	id, err := hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	w.must(err)
	w.original, err = w.transport.Capture(context.Background(), connection.Key, id)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) newTransport(store registry.Store, opts ...agentclient.Option) *host.Transport {
	w.t.Helper()
	transport, err := host.New(store, append([]agentclient.Option{agentclient.WithHTTPClient(&http.Client{Transport: w.wire})}, opts...)...)
	w.must(err)
	return transport
}

// login saves a session of the Hub as the connection's credentials.
func (w *world) login(s hubtest.Session) {
	w.t.Helper()
	w.must(w.store.SaveCredentials(context.Background(), w.connection.Key, credentialsOf(s)))
}

func credentialsOf(s hubtest.Session) registry.Credentials {
	return s.Credentials(hubURL, hubtest.DefaultRoute)
}

// refused inspects and wants this code and no receipt.
func (w *world) refused(code feedback.Code) *feedback.Error {
	w.t.Helper()
	observed, err := w.transport.InspectInvocation(context.Background(), w.original)
	if observed != nil {
		w.t.Errorf("a receipt was given: %+v", observed)
	}
	return w.failure(err, code)
}

func (w *world) failure(err error, code feedback.Code) *feedback.Error {
	w.t.Helper()
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		w.t.Fatalf("not a *feedback.Error: %v", err)
	}
	if failure.Feedback.Code != code {
		w.t.Errorf("%s, want %s", failure, code)
	}
	if strings.Contains(err.Error(), "synthetic-") {
		w.t.Errorf("a token is in the error: %s", err)
	}
	return failure
}

// wire counts what leaves, and lets a test act at any point of a request. No
// test of this package may send anything but the two reads and the refresh.
type wire struct {
	base http.RoundTripper
	// before and after are called around each request with its name.
	before, after func(name string)
	// body is called when the body of an answer is read for the first time.
	body func(name string)

	mu   sync.Mutex
	sent []string
	auth []string
}

func nameOf(r *http.Request) string {
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/inspection-capabilities"):
		return "capabilities"
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/receipt"):
		return "receipt"
	case r.Method == http.MethodPost && r.URL.Path == "/agent-auth/v1/token":
		return "refresh"
	}
	panic("this must never leave: " + r.Method + " " + r.URL.String())
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	name := nameOf(r)
	w.mu.Lock()
	w.sent = append(w.sent, name)
	w.auth = append(w.auth, r.Header.Get("Authorization"))
	w.mu.Unlock()
	if w.before != nil {
		w.before(name)
	}
	response, err := w.base.RoundTrip(r)
	if w.after != nil {
		w.after(name)
	}
	if err == nil && w.body != nil {
		response.Body = &watchedBody{ReadCloser: response.Body, read: sync.OnceFunc(func() { w.body(name) })}
	}
	return response, err
}

type watchedBody struct {
	io.ReadCloser
	read func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.read()
	return b.ReadCloser.Read(p)
}

func (w *wire) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

func (w *wire) count(name string) int {
	n := 0
	for _, sent := range w.requests() {
		if sent == name {
			n++
		}
	}
	return n
}

func openFolder(t testing.TB, path string) *registry.Dir {
	t.Helper()
	dir, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	must(t, err)
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
