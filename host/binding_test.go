package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// hooked is a store that a test can act in and answer for.
type hooked struct {
	registry.Store
	// reads is called before each reading of a connection, with its number.
	reads func(n int)
	// connection changes what is read; may be nil.
	connection func(registry.Connection) registry.Connection
	// update replaces UpdateCredentials; may be nil.
	update func(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error

	mu sync.Mutex
	n  int
}

func (h *hooked) Connection(ctx context.Context, key string) (registry.Connection, error) {
	h.mu.Lock()
	h.n++
	n := h.n
	h.mu.Unlock()
	if h.reads != nil {
		h.reads(n)
	}
	connection, err := h.Store.Connection(ctx, key)
	if h.connection != nil {
		connection = h.connection(connection)
	}
	return connection, err
}

func (h *hooked) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	if h.update != nil {
		return h.update(ctx, key, update)
	}
	return h.Store.UpdateCredentials(ctx, key, update)
}

func TestInspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.hub.Snapshot()
	observed, err := w.transport.InspectInvocation(t.Context(), w.original)
	if err != nil {
		t.Fatal(err)
	}
	if observed.Progress() != receipt.ProgressExecuted || observed.InvocationID != w.original.InvocationID {
		t.Errorf("%+v", observed)
	}
	if diff := cmp.Diff([]string{"capabilities", "receipt"}, w.wire.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if after := w.hub.Snapshot(); after != before {
		t.Errorf("inspecting changed the Hub:\n%s", cmp.Diff(before, after))
	}
}

// What differs from the original at entry sends nothing.
func TestAnotherBindingAtEntrySendsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*host.Original){
		"hub":     func(o *host.Original) { o.ExpectedBinding.HubURL = "https://hub.example.org" },
		"port":    func(o *host.Original) { o.ExpectedBinding.HubURL += ":8443" },
		"prefix":  func(o *host.Original) { o.ExpectedBinding.HubURL += "/other" },
		"client":  func(o *host.Original) { o.ExpectedBinding.ClientAppID = "other-host" },
		"session": func(o *host.Original) { o.ExpectedBinding.SessionID = "99999999-9999-4999-8999-999999999999" },
		"letter case of the session": func(o *host.Original) {
			o.ExpectedBinding.SessionID = strings.ToUpper(o.ExpectedBinding.SessionID)
		},
		"workspace": func(o *host.Original) { o.Workspace, o.ExpectedBinding.Workspace = "other", "other" },
		"key":       func(o *host.Original) { o.ConnectionKey = "conn_" + strings.Repeat("0", 32) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// What is current or default plays no part.
			w.must(w.store.SetCurrent(t.Context(), w.connection.Key))
			change(&w.original)
			failure := w.refused(feedback.CodeAgentBindingChanged)
			if failure.Feedback.Dispatch != feedback.DispatchNotDispatched || failure.Feedback.InvocationID != w.original.InvocationID {
				t.Errorf("%+v", failure.Feedback)
			}
			if isMissing := strings.Contains(failure.Feedback.Message, "no connection of this key"); isMissing != (name == "key") {
				t.Errorf("%s", failure.Feedback.Message)
			}
			if sent := w.wire.requests(); len(sent) != 0 {
				t.Errorf("sent: %v", sent)
			}
		})
	}
}

// The spelling of a Hub URL does not matter, its normal form does.
func TestBindingComparesNormalForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.original.ExpectedBinding.HubURL = "HTTPS://Hub.Example.COM:443//"
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Error(err)
	}
}

func TestAnotherCurrentConnectionChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, err := w.store.Register(t.Context(), registry.Descriptor{HubURL: "https://hub.example.org", ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}, registry.WithAlias("default"))
	w.must(err)
	w.must(w.store.SetCurrent(t.Context(), other.Key))
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Error(err)
	}
}

// changes are the ways in which a connection stops being the original one.
var changes = map[string]func(*world){
	"session replaced":   func(w *world) { w.login(w.hub.Login(hubtest.Grant{})) },
	"connection removed": func(w *world) { w.must(w.store.Remove(context.Background(), w.connection.Key)) },
	"login removed":      func(w *world) { w.must(w.store.DeleteCredentials(context.Background(), w.connection.Key)) },
}

// A change at any point of an inspection ends it with agent_binding_changed,
// whatever the Hub answered, and no later request leaves.
func TestChangeAtAnyPoint(t *testing.T) {
	t.Parallel()
	answers := map[string]func(*world){
		"perfect receipt": func(*world) {},
		"not found":       func(w *world) { w.hub.RemoveRecord(w.original.InvocationID) },
		"revoked":         func(w *world) { w.hub.Revoke(w.session.ID) },
		"bad receipt": func(w *world) {
			w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: 200, Body: []byte("{}")})
		},
		"connection lost": func(w *world) {
			w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Drop: hubtest.DropMidBody, Times: -1})
		},
		"503, then good": func(w *world) {
			w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: 503, Body: []byte(`{"error":"hub_paused"}`)})
		},
	}
	points := map[string]func(*world, func()){
		"before negotiation":     func(w *world, act func()) { w.wire.before = on("capabilities", act) },
		"negotiation's headers":  func(w *world, act func()) { w.wire.after = on("capabilities", act) },
		"negotiation's body":     func(w *world, act func()) { w.wire.body = on("capabilities", act) },
		"before the receipt":     func(w *world, act func()) { w.wire.before = on("receipt", act) },
		"the receipt's headers":  func(w *world, act func()) { w.wire.after = on("receipt", act) },
		"the receipt's body":     func(w *world, act func()) { w.wire.body = on("receipt", act) },
		"entry":                  func(w *world, act func()) { w.hook(1, act) },
		"check of the receipt":   func(w *world, act func()) { w.hook(2, act) },
		"check after the answer": func(w *world, act func()) { w.hook(3, act) },
	}
	for change, replace := range changes {
		for answer, arrange := range answers {
			for point, at := range points {
				t.Run(change+"/"+answer+"/"+point, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						arrange(w)
						var sentThen int
						changed := false
						at(w, sync.OnceFunc(func() {
							replace(w)
							changed, sentThen = true, len(w.wire.requests())
						}))
						_, err := w.transport.InspectInvocation(t.Context(), w.original)
						if !changed { // this answer never gets to that point
							if err == nil && answer != "503, then good" {
								t.Error("the point was not reached")
							}
							return
						}
						if change == "login removed" && point == "entry" {
							w.failure(err, feedback.CodeAgentAuthorizationUnavailable)
						} else {
							w.failure(err, feedback.CodeAgentBindingChanged)
						}
						if later := w.wire.requests()[sentThen:]; len(later) > 0 {
							t.Errorf("sent after the change: %v", later)
						}
						w.onlyOriginalTokens()
					})
				})
			}
		}
	}
}

// on calls act at the requests of this name.
func on(name string, act func()) func(string) {
	return func(at string) {
		if at == name {
			act()
		}
	}
}

// hook has the transport's store call act before its nth reading.
func (w *world) hook(n int, act func()) {
	w.transport = w.newTransport(&hooked{Store: w.store, reads: func(at int) {
		if at == n {
			act()
		}
	}})
}

// onlyOriginalTokens holds every token on the wire against the one session
// that may be there.
func (w *world) onlyOriginalTokens() {
	w.t.Helper()
	session, _ := w.hub.Session(w.session.ID)
	own := []string{"", "Bearer " + w.session.AccessToken, "Bearer " + session.AccessToken}
	for i, auth := range w.wire.auth {
		if !slices.Contains(own, auth) {
			w.t.Errorf("request %d carries another session's token", i)
		}
	}
}

// While a repeat is waited for, and while a refresh is on its way, the binding
// may change as well.
func TestChangeDuringWaits(t *testing.T) {
	t.Parallel()
	waits := map[string]struct {
		arrange  func(*world)
		when     func(*world, func())
		requests []string
	}{
		"retry sleep": {
			func(w *world) {
				w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: 503, Header: map[string][]string{"Retry-After": {"4"}}})
			},
			func(w *world, act func()) {
				w.wire.after = on("receipt", func() { time.AfterFunc(2*time.Second, act) })
			},
			[]string{"capabilities", "receipt"},
		},
		"before the refresh": {
			func(w *world) { w.hub.ExpireAccess(w.session.ID) },
			func(w *world, act func()) { w.wire.before = on("refresh", act) },
			[]string{"capabilities", "refresh"},
		},
		"during the refresh": {
			func(w *world) { w.hub.ExpireAccess(w.session.ID) },
			func(w *world, act func()) { w.wire.after = on("refresh", act) },
			[]string{"capabilities", "refresh"},
		},
		"after the 401": {
			func(w *world) { w.hub.ExpireAccess(w.session.ID) },
			func(w *world, act func()) { w.wire.after = on("capabilities", act) },
			[]string{"capabilities"},
		},
		"lock wait": {
			func(w *world) {
				w.hub.ExpireAccess(w.session.ID)
				w.transport = w.newTransport(&hooked{Store: w.store, update: func(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
					time.Sleep(2 * time.Second)
					return w.store.UpdateCredentials(ctx, key, update)
				}})
			},
			func(w *world, act func()) {
				w.wire.after = on("capabilities", func() { time.AfterFunc(time.Second, act) })
			},
			[]string{"capabilities"},
		},
	}
	for change, replace := range changes {
		for wait, test := range waits {
			t.Run(change+"/"+wait, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					test.arrange(w)
					test.when(w, sync.OnceFunc(func() { replace(w) }))
					w.refused(feedback.CodeAgentBindingChanged)
					if diff := cmp.Diff(test.requests, w.wire.requests()); diff != "" {
						t.Errorf("requests (-want +got):\n%s", diff)
					}
					w.onlyOriginalTokens()
				})
			})
		}
	}
}

// An entry or a login that turns into one of another Hub, client or workspace
// is another binding, at every reading.
func TestReboundEntry(t *testing.T) {
	t.Parallel()
	for name, rebind := range map[string]func(*registry.Connection){
		"hub":       func(c *registry.Connection) { c.HubURL = "https://hub.example.org" },
		"not a URL": func(c *registry.Connection) { c.HubURL = "" },
		"client":    func(c *registry.Connection) { c.ClientAppID = "other-host" },
		"workspace": func(c *registry.Connection) { c.Workspace = "other" },
		"key":       func(c *registry.Connection) { c.Key = "conn_" + strings.Repeat("0", 32) },
	} {
		for at := 1; at <= 3; at++ {
			w := newWorld(t)
			store := &hooked{Store: w.store}
			rebound := false
			store.reads = func(n int) { rebound = n >= at }
			store.connection = func(c registry.Connection) registry.Connection {
				if rebound {
					rebind(&c)
				}
				return c
			}
			w.transport = w.newTransport(store)
			w.refused(feedback.CodeAgentBindingChanged)
			if sent := len(w.wire.requests()); sent != at-1 {
				t.Errorf("%s at reading %d: %d requests", name, at, sent)
			}
		}
	}
}

// Plain http needs the consent of the connection at every check, too.
func TestInsecureHTTPNeedsTheConnectionsConsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const plain = "http://hub.internal:8787"
	store := &hooked{Store: w.store, connection: func(c registry.Connection) registry.Connection {
		c.HubURL, c.AllowInsecureHTTP = plain, true
		return c
	}}
	w.transport = w.newTransport(rewritten{store, plain})
	w.original.ExpectedBinding.HubURL = plain
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Errorf("with consent: %v", err)
	}
	store.connection = func(c registry.Connection) registry.Connection {
		c.HubURL = plain
		return c
	}
	before := len(w.wire.requests())
	w.refused(feedback.CodeAgentBindingChanged)
	if sent := w.wire.requests()[before:]; len(sent) != 0 {
		t.Errorf("without consent, sent: %v", sent)
	}
}

// rewritten gives credentials of another Hub URL.
type rewritten struct {
	registry.Store
	hubURL string
}

func (r rewritten) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	credentials, err := r.Store.Credentials(ctx, key)
	credentials.HubURL = r.hubURL
	return credentials, err
}

func TestCaptureOfADisagreeingStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	transport := w.newTransport(rewritten{w.store, "https://hub.example.org"})
	_, err := transport.Capture(t.Context(), w.connection.Key, w.original.InvocationID)
	if failure := w.failure(err, feedback.CodeUnknownFailure); !errors.Is(failure, registry.ErrDamaged) {
		t.Errorf("%v", failure)
	}
}

// A session that is there between two checks and gone again leaves no trace on
// the wire.
func TestSwapAndBackNeverSendsTheOthersToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.hub.Login(hubtest.Grant{})
	w.wire.before = func(string) { w.login(other) }
	w.wire.after = func(string) { w.login(w.session) }
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Errorf("the binding was the original one at every check: %v", err)
	}
	w.onlyOriginalTokens()

	// And at random, from another goroutine, against many inspections.
	w.wire.before, w.wire.after = nil, nil
	ctx, cancel := context.WithCancel(t.Context())
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for ctx.Err() == nil {
			w.login(other)
			w.login(w.session)
		}
	})
	for range 200 {
		_, err := w.transport.InspectInvocation(ctx, w.original)
		if err != nil && !errors.Is(err, feedback.CodeAgentBindingChanged) {
			t.Errorf("%v", err)
		}
	}
	cancel()
	swapper.Wait()
	w.onlyOriginalTokens()
}

func TestOriginalIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(*host.Original){
		"invocation_id":                  func(o *host.Original) { o.InvocationID = strings.ToUpper(o.InvocationID) + "\n" },
		"connection_key":                 func(o *host.Original) { o.ConnectionKey = "" },
		"workspace":                      func(o *host.Original) { o.Workspace, o.ExpectedBinding.Workspace = "auto", "auto" },
		"expected_binding.hub_url":       func(o *host.Original) { o.ExpectedBinding.HubURL = "" },
		"expected_binding.workspace":     func(o *host.Original) { o.ExpectedBinding.Workspace = "other" },
		"expected_binding.client_app_id": func(o *host.Original) { o.ExpectedBinding.ClientAppID = "" },
		"expected_binding.session_id":    func(o *host.Original) { o.ExpectedBinding.SessionID = "secret-looking" },
		"tool":                           func(o *host.Original) { o.Tool = "rm -rf" },
		"agent_run_id":                   func(o *host.Original) { o.AgentRunID = "run" },
	} {
		original := w.original
		change(&original)
		observed, err := w.transport.InspectInvocation(t.Context(), original)
		failure := w.failure(err, feedback.CodeInvalidRequest)
		if observed != nil || !strings.HasPrefix(failure.Feedback.Message, name+" ") {
			t.Errorf("%s: %s", name, failure)
		}
		for _, value := range []string{"secret-looking", "rm -rf"} {
			if strings.Contains(failure.Error(), value) {
				t.Errorf("%s: the value is repeated: %s", name, failure)
			}
		}
	}
	var none context.Context
	if _, err := w.transport.InspectInvocation(none, w.original); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("nil context: %v", err)
	}
	if sent := w.wire.requests(); len(sent) != 0 {
		t.Errorf("sent: %v", sent)
	}
}

func TestRecordedToolAndRunMustMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	observed, err := w.transport.InspectInvocation(t.Context(), w.original)
	w.must(err)
	w.original.Tool, w.original.AgentRunID = observed.Tool, observed.AgentRunID
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Errorf("the same tool and run: %v", err)
	}
	w.original.Tool = hubtest.ReadTool
	failure := w.refused(feedback.CodeAgentInvalidResponse)
	if failure.StatusCode != 200 || failure.Feedback.Dispatch != feedback.DispatchAttempted || failure.Feedback.Origin != feedback.OriginSDK {
		t.Errorf("%+v", failure)
	}
	w.original.Tool, w.original.AgentRunID = "", "99999999-9999-4999-8999-999999999999"
	w.refused(feedback.CodeAgentInvalidResponse)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		store registry.Store
		opts  []agentclient.Option
	}{
		"no store":   {nil, nil},
		"nil option": {registry.NewMemory(), []agentclient.Option{nil}},
		"bad option": {registry.NewMemory(), []agentclient.Option{agentclient.WithMaxRetries(9)}},
	} {
		if transport, err := host.New(test.store, test.opts...); transport != nil || !errors.Is(err, feedback.CodeInvalidRequest) {
			t.Errorf("%s: %v, %v", name, transport, err)
		}
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := host.Original{
		InvocationID: w.original.InvocationID, ConnectionKey: w.connection.Key, Workspace: hubtest.DefaultRoute,
		ExpectedBinding: registry.Binding{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute, SessionID: w.session.ID},
		SessionEnds:     w.session.RefreshExpiresAt.UTC().Truncate(time.Millisecond),
	}
	if diff := cmp.Diff(want, w.original); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	capture := func(key, id string, code feedback.Code, is error) {
		t.Helper()
		original, err := w.transport.Capture(t.Context(), key, id)
		w.failure(err, code)
		if original != (host.Original{}) || is != nil && !errors.Is(err, is) {
			t.Errorf("%+v, %v", original, err)
		}
	}
	capture("conn_", w.original.InvocationID, feedback.CodeInvalidRequest, nil)
	capture(w.connection.Key, "a", feedback.CodeInvalidRequest, nil)
	capture("conn_"+strings.Repeat("0", 32), w.original.InvocationID, feedback.CodeAgentAuthorizationUnavailable, registry.ErrNotFound)
	w.must(w.store.DeleteCredentials(t.Context(), w.connection.Key))
	capture(w.connection.Key, w.original.InvocationID, feedback.CodeAgentAuthorizationUnavailable, registry.ErrNotLoggedIn)

	var none context.Context
	if _, err := w.transport.Capture(none, w.connection.Key, w.original.InvocationID); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("nil context: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.transport.Capture(ctx, w.connection.Key, w.original.InvocationID); !errors.Is(err, feedback.CodeAgentRequestCancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

// failing is a store of somebody else's that is down.
type failing struct{ err error }

func (f failing) Connection(context.Context, string) (registry.Connection, error) {
	return registry.Connection{}, f.err
}

func (f failing) Credentials(context.Context, string) (registry.Credentials, error) {
	return registry.Credentials{}, f.err
}

func (f failing) UpdateCredentials(context.Context, string, func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	return f.err
}

func TestStoreFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const secret = "synthetic-secret-in-a-query"
	for name, test := range map[string]struct {
		err error
		is  error
	}{
		"somebody else's": {errors.New("query failed: " + secret), nil},
		"damaged":         {fmt.Errorf("row of %s: %w", secret, registry.ErrDamaged), registry.ErrDamaged},
		"its own limit":   {fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), nil},
		"joined":          {errors.Join(errors.New(secret), io.ErrUnexpectedEOF), nil},
	} {
		transport := w.newTransport(failing{test.err})
		_, err := transport.InspectInvocation(t.Context(), w.original)
		failure := w.failure(err, feedback.CodeUnknownFailure)
		if failure.Feedback.Dispatch != feedback.DispatchNotDispatched || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v is not found", name, test.is)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the caller's deadline has not passed", name)
		}
		_, err = transport.Capture(t.Context(), w.connection.Key, w.original.InvocationID)
		w.failure(err, feedback.CodeUnknownFailure)
	}
	// It withholds an answer that was already there.
	var broken registry.Store
	store := &hooked{Store: w.store}
	store.reads = func(n int) {
		if n == 3 {
			store.Store = failing{errors.New("disk full")}
		}
	}
	broken = store
	w.transport = w.newTransport(broken)
	if failure := w.refused(feedback.CodeUnknownFailure); failure.Feedback.Dispatch != feedback.DispatchAttempted {
		t.Errorf("%+v", failure.Feedback)
	}
}

func TestOriginalCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.original.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*host.Original){
		"no id":             func(o *host.Original) { o.InvocationID = "" },
		"no key":            func(o *host.Original) { o.ConnectionKey = "" },
		"another workspace": func(o *host.Original) { o.Workspace = "another" },
		"no Hub":            func(o *host.Original) { o.ExpectedBinding.HubURL = "" },
		"no session":        func(o *host.Original) { o.ExpectedBinding.SessionID = "" },
		"a bad tool":        func(o *host.Original) { o.Tool = "no tool" },
	} {
		o := w.original
		change(&o)
		w.failure(o.Check(), feedback.CodeInvalidRequest)
		if o.Check() == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestNewInvocationID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := host.NewInvocationID(), host.NewInvocationID()
	if one == other {
		t.Error("twice the same")
	}
	if _, err := w.transport.Capture(t.Context(), w.connection.Key, one); err != nil {
		t.Error(err)
	}
}

// A store that reads a connection and its login at once is asked once for each
// check.
func TestReadsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &oneRead{Memory: w.store}
	w.transport = w.newTransport(store)
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Fatal(err)
	}
	if at, single := store.atOnce.Load(), store.single.Load(); at != 3 || single != 0 {
		t.Errorf("%d readings at once, %d others", at, single)
	}
	w.login(w.hub.Login(hubtest.Grant{}))
	w.refused(feedback.CodeAgentBindingChanged)
}

type oneRead struct {
	*registry.Memory
	atOnce, single atomic.Int64
}

func (s *oneRead) Connection(ctx context.Context, key string) (registry.Connection, error) {
	s.single.Add(1)
	return s.Memory.Connection(ctx, key)
}

func (s *oneRead) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	s.single.Add(1)
	return s.Memory.Credentials(ctx, key)
}

func (s *oneRead) ConnectionCredentials(ctx context.Context, key string) (registry.Connection, registry.Credentials, error) {
	s.atOnce.Add(1)
	return s.Memory.ConnectionCredentials(ctx, key)
}
