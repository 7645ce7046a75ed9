package host_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestToken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		idle time.Duration
		sent []string
	}{
		"as it is stored":      {0, nil},
		"half a minute left":   {15*time.Minute - 30*time.Second, nil},
		"less than that":       {15*time.Minute - 30*time.Second + time.Millisecond, []string{"refresh"}},
		"idle for a quarter":   {15 * time.Minute, []string{"refresh"}},
		"idle for a long time": {20 * 24 * time.Hour, []string{"refresh"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				time.Sleep(test.idle)
				token, err := w.transport.Token(t.Context(), w.original)
				w.must(err)
				if diff := cmp.Diff(test.sent, w.wire.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				stored := w.stored()
				if token.AccessToken != stored.AccessToken.Reveal() || !token.Expiry.Equal(stored.AccessExpiresAt) || token.Type() != "Bearer" || token.RefreshToken != "" || !token.Valid() {
					t.Errorf("a token that runs out at %v, and %v is stored", token.Expiry, stored.AccessExpiresAt)
				}
				// The Hub takes it.
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hubURL+"/agent-api/v1/tool-invocations",
					strings.NewReader(`{"route":"`+hubtest.DefaultRoute+`","tool":"`+hubtest.WriteTool+`"}`))
				w.must(err)
				token.SetAuthHeader(request)
				request.Header.Set("Content-Type", "application/json")
				response, err := w.hub.Transport().RoundTrip(request)
				w.must(err)
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("status %d", response.StatusCode)
				}
			})
		})
	}
}

// Many that want the token of one session after an idle time share one refresh.
func TestTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(time.Hour)
		source := w.transport.TokenSource(w.original)
		if _, ok := source.(agentclient.ContextTokenSource); !ok {
			t.Error("the source does not obey a context")
		}
		tokens := make([]string, 64)
		var all sync.WaitGroup
		for i := range tokens {
			all.Go(func() {
				token, err := source.Token()
				if err != nil {
					t.Error(err)
					return
				}
				tokens[i] = token.AccessToken
			})
		}
		all.Wait()
		for _, token := range tokens {
			if token != w.stored().AccessToken.Reveal() {
				t.Error("a token that is not the stored one")
			}
		}
		if diff := cmp.Diff([]string{"refresh"}, w.wire.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		// A login that takes the place of the original one is never used.
		w.login(w.hub.Login(hubtest.Grant{}))
		if token, err := source.Token(); token != nil || feedback.CodeOf(err) != feedback.CodeAgentBindingChanged {
			t.Errorf("%v", err)
		}
	})
}

func TestTokenFailures(t *testing.T) {
	t.Parallel()
	var none context.Context
	bad := func(change func(*host.Original)) func(*world) { return func(w *world) { change(&w.original) } }
	for name, test := range map[string]struct {
		before func(*world)
		ctx    func(context.Context) context.Context
		code   feedback.Code
		cause  error
		says   string
	}{
		"nil context":        {ctx: func(context.Context) context.Context { return none }, code: feedback.CodeInvalidRequest, says: "The context is nil."},
		"no transport":       {before: func(w *world) { w.transport = &host.Transport{} }, code: feedback.CodeInvalidRequest, says: "not made by New"},
		"closed":             {before: func(w *world) { w.must(w.transport.Close(context.Background())) }, code: feedback.CodeInvalidRequest, says: "closed"},
		"bad workspace":      {before: bad(func(o *host.Original) { o.Workspace = "auto" }), code: feedback.CodeInvalidRequest, says: "workspace"},
		"bad connection key": {before: bad(func(o *host.Original) { o.ConnectionKey = "shop" }), code: feedback.CodeInvalidRequest, says: "connection_key"},
		"another session": {before: bad(func(o *host.Original) { o.ExpectedBinding.SessionID = "11111111-1111-4111-8111-111111111111" }),
			code: feedback.CodeAgentBindingChanged},
		"no login": {before: func(w *world) { w.must(w.store.DeleteCredentials(context.Background(), w.connection.Key)) },
			code: feedback.CodeAgentAuthorizationUnavailable, cause: registry.ErrNotLoggedIn},
		"no connection": {before: func(w *world) { w.must(w.store.Remove(context.Background(), w.connection.Key)) },
			code: feedback.CodeAgentBindingChanged, cause: registry.ErrNotFound},
		"a revoked session": {before: func(w *world) { w.hub.Revoke(w.session.ID); w.expiring(0) }, code: feedback.CodeAgentAuthorizationUnavailable},
		"a Hub that is down": {before: func(w *world) {
			w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Drop: hubtest.DropRequest, Times: -1})
			w.expiring(0)
		}, code: feedback.CodeAgentTransportUnavailable},
		"cancelled": {ctx: func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("synthetic cause"))
			return ctx
		}, code: feedback.CodeAgentRequestCancelled, cause: context.Canceled},
		"a store that does not answer": {before: func(w *world) { w.transport = w.newTransport(silent{w.store, w.t.Context()}) },
			code: feedback.CodeAgentRequestTimeout, cause: context.DeadlineExceeded, says: "while it waited for the connection store."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if test.before != nil {
					test.before(w)
				}
				ctx := t.Context()
				if test.ctx != nil {
					ctx = test.ctx(ctx)
				}
				token, err := w.transport.Token(ctx, w.original)
				failure := w.failure(err, test.code)
				if token != nil || failure.Feedback.InvocationID != w.original.InvocationID || failure.Feedback.Dispatch != feedback.DispatchNotDispatched {
					t.Errorf("%v %+v", token, failure.Feedback)
				}
				if test.cause != nil && !errors.Is(err, test.cause) || !strings.Contains(failure.Feedback.Message, test.says) {
					t.Errorf("%v does not say what it should", err)
				}
				if n := w.wire.count("capabilities") + w.wire.count("receipt"); n != 0 {
					t.Errorf("%d questions were asked", n)
				}
			})
		})
	}
}

// silent is a store whose reads ignore their context, until the end of the test.
type silent struct {
	registry.Store
	end context.Context
}

func (s silent) Connection(context.Context, string) (registry.Connection, error) {
	<-s.end.Done()
	return registry.Connection{}, registry.ErrNotFound
}

func ExampleTransport_Token() {
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	store, key := loggedIn(ctx, "https://hub.example.com", hub.Login(hubtest.Grant{}))
	client := &http.Client{Transport: hub.Transport()}
	transport, err := host.New(store, agentclient.WithHTTPClient(client))
	if err != nil {
		panic(err)
	}
	original, err := transport.Capture(ctx, key, strings.Repeat("a", 64))
	if err != nil {
		panic(err)
	}
	// Here the host keeps the original. After that it sends the operation, once.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, original.ExpectedBinding.HubURL+"/agent-api/v1/tool-invocations",
		strings.NewReader(`{"invocation_id":"`+original.InvocationID+`","route":"`+original.Workspace+`","tool":"`+hubtest.WriteTool+`"}`))
	if err != nil {
		panic(err)
	}
	token, err := transport.Token(ctx, original)
	if err != nil {
		panic(err) // it was not sent
	}
	token.SetAuthHeader(request)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		panic(err) // what became of it is not known: ask about the original
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
	// Output: 200
}

func ExampleTransport_TokenSource() {
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	store, key := loggedIn(ctx, "https://hub.example.com", hub.Login(hubtest.Grant{}))
	transport, err := host.New(store, agentclient.WithHTTPClient(&http.Client{Transport: hub.Transport()}))
	if err != nil {
		panic(err)
	}
	original, err := transport.Capture(ctx, key, strings.Repeat("a", 64))
	if err != nil {
		panic(err)
	}
	source := transport.TokenSource(original) // asked before each request
	token, err := source.Token()
	if err != nil {
		panic(err)
	}
	fmt.Println(token.Type(), token.Valid())
	// Output: Bearer true
}

func ExampleNewInvocationID() {
	id := host.NewInvocationID() // the operation is captured, kept and sent under it
	fmt.Println(len(id), id != host.NewInvocationID())
	// Output: 64 true
}
