package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

type update = func(context.Context, registry.Credentials) (registry.Credentials, error)

// A store that breaks its contract about update does not get a refresh token
// sent twice, nor behind anybody's back.
func TestStoresThatMisuseUpdate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		update func(*world, *sync.WaitGroup, context.Context, string, update) error
		posts  int
	}{
		"again after it failed": {func(w *world, _ *sync.WaitGroup, ctx context.Context, key string, u update) error {
			w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Drop: hubtest.DropAnswer})
			if err := w.store.UpdateCredentials(ctx, key, u); err == nil {
				return nil
			}
			return w.store.UpdateCredentials(ctx, key, u)
		}, 1},
		"twice at once": {func(w *world, _ *sync.WaitGroup, ctx context.Context, _ string, u update) error {
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { _, _ = u(ctx, w.stored()) })
			}
			both.Wait()
			return nil
		}, 1},
		"it returns before update does": {func(w *world, later *sync.WaitGroup, ctx context.Context, key string, u update) error {
			entered := make(chan struct{})
			w.wire.before = on("refresh", func() { close(entered) })
			current := w.stored()
			later.Go(func() {
				if next, err := u(context.WithoutCancel(ctx), current); err == nil {
					w.must(w.store.SaveCredentials(context.Background(), key, next))
				}
			})
			<-entered
			return nil
		}, 1},
		"after it returned": {func(w *world, later *sync.WaitGroup, _ context.Context, _ string, u update) error {
			current := w.stored()
			later.Go(func() {
				time.Sleep(time.Minute)
				_, _ = u(context.Background(), current)
			})
			return errors.New("busy")
		}, 0},
		"changed, and never shows it": {func(*world, *sync.WaitGroup, context.Context, string, update) error { return registry.ErrChanged }, 0},
		"done, and nothing was":       {func(*world, *sync.WaitGroup, context.Context, string, update) error { return nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.t = t
				w.expiring(0)
				var later sync.WaitGroup
				calls := 0
				transport := w.newTransport(&hooked{Store: w.store, update: func(ctx context.Context, key string, u update) error {
					calls++
					return test.update(w, &later, ctx, key, u)
				}})
				start := time.Now()
				_, _ = transport.InspectInvocation(t.Context(), w.original)
				if took := time.Since(start); took > time.Minute || calls > 10 {
					t.Errorf("%d calls in %v", calls, took)
				}
				later.Wait()
				if n := w.wire.count("refresh"); n != test.posts {
					t.Errorf("%d refreshes, want %d", n, test.posts)
				}
				if session, _ := w.hub.Session(w.session.ID); session.Revoked {
					t.Error("the session is over")
				}
			})
		})
	}
}

// A store that never comes back holds up one flight, and not the session for
// ever.
func TestStoreThatNeverReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expiring(0)
		release := make(chan struct{})
		defer close(release)
		var healthy atomic.Bool
		w.transport = w.newTransport(&hooked{Store: w.store, update: func(ctx context.Context, key string, u update) error {
			if !healthy.Load() {
				<-release
				return errors.New("too late")
			}
			return w.store.UpdateCredentials(ctx, key, u)
		}})
		w.refused(feedback.CodeAgentRequestTimeout)
		healthy.Store(true)
		time.Sleep(time.Minute)
		if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
			t.Errorf("after the store came to its senses: %v", err)
		}
	})
}

// The lock may be long in coming; what the Hub then says is saved all the same.
func TestRotationAfterALongLockWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expiring(0)
		w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: 8 * time.Second})
		held := make(chan struct{})
		go func() {
			_ = w.store.UpdateCredentials(context.Background(), w.connection.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				close(held)
				time.Sleep(30 * time.Second)
				return c, nil
			})
		}()
		<-held
		w.refused(feedback.CodeAgentRequestTimeout)
		time.Sleep(time.Minute)
		if session, _ := w.hub.Session(w.session.ID); session.Rotations != 1 || w.stored().RefreshToken.Reveal() != session.RefreshToken {
			t.Errorf("%d rotations, and the last one is not stored", session.Rotations)
		}
	})
}

// Whoever joins a flight late is not told that its own deadline has passed.
func TestLateJoiner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expiring(0)
		held := make(chan struct{})
		go func() {
			_ = w.store.UpdateCredentials(context.Background(), w.connection.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				close(held)
				time.Sleep(36 * time.Second)
				return c, nil
			})
		}()
		<-held
		w.refused(feedback.CodeAgentRequestTimeout) // until 15 s
		time.Sleep(10 * time.Second)
		failure := w.refused(feedback.CodeUnknownFailure) // at 35 s, with 5 s left
		if errors.Is(failure, context.DeadlineExceeded) {
			t.Errorf("%v", failure)
		}
		time.Sleep(time.Minute)
	})
}

func TestLongestTimeLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expiring(0)
	if _, err := w.newTransport(w.store, agentclient.WithTimeout(math.MaxInt64)).InspectInvocation(t.Context(), w.original); err != nil {
		t.Error(err)
	}
}

// Another connection is another binding, whether somebody is logged in there or
// not: nobody should be sent to log in at the wrong Hub.
func TestAnotherConnectionWithoutALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, err := w.store.Register(t.Context(), registry.Descriptor{HubURL: "https://other.example.com", ClientAppID: "another", Workspace: "elsewhere"})
	w.must(err)
	w.original.ConnectionKey = other.Key
	w.refused(feedback.CodeAgentBindingChanged)
}

// A 401 to a token that is not the stored one any more only reads again, and
// leaves the one refresh for a 401 to the stored one.
func TestA401ToAnOldTokenAndThenToTheStoredOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.ExpireAccess(w.session.ID)
	w.wire.after = on("capabilities", sync.OnceFunc(func() {
		other := w.stored()
		other.AccessToken = registry.NewSecret("synthetic-access-of-another-process")
		w.must(w.store.SaveCredentials(t.Context(), w.connection.Key, other))
	}))
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil || w.wire.count("refresh") != 1 {
		t.Errorf("%v after %v", err, w.wire.requests())
	}
}

// net/http sends a GET again by itself where a used connection closes without
// an answer. Nothing may leave past the check of the binding.
func TestNothingIsRepeatedPastTheCheck(t *testing.T) {
	t.Parallel()
	store := registry.NewMemory()
	var key string
	var removed atomic.Bool
	var after atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/receipt") {
			_, _ = io.WriteString(rw, `{"schema_version":"bailing.agent-invocation-inspection-capabilities.v1","receipt_schema":"bailing.agent-invocation-receipt.v1","read_only":true}`)
			return
		}
		if removed.Swap(true) {
			after.Add(1)
		} else if err := store.Remove(context.Background(), key); err != nil {
			t.Error(err)
		}
		connection, _, _ := http.NewResponseController(rw).Hijack()
		connection.Close()
	}))
	t.Cleanup(server.Close)
	hub := hubtest.New()
	t.Cleanup(hub.Close)
	session := hub.Login(hubtest.Grant{})
	store, key = loggedIn(t.Context(), server.URL, session)
	transport, err := host.New(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	original, err := transport.Capture(t.Context(), key, strings.Repeat("a", 64))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.InspectInvocation(t.Context(), original); !errors.Is(err, feedback.CodeAgentBindingChanged) {
		t.Errorf("%v", err)
	}
	if n := after.Load(); n != 0 {
		t.Errorf("%d requests left after the connection was removed", n)
	}
}

func TestBadArgumentsKeepTheInvocationID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.original.InvocationID
	var none context.Context
	bad := w.original
	bad.ConnectionKey = "nope"
	for name, ask := range map[string]func() error{
		"bad key":                  func() error { _, err := w.transport.InspectInvocation(t.Context(), bad); return err },
		"nil context":              func() error { _, err := w.transport.InspectInvocation(none, w.original); return err },
		"capture with a bad key":   func() error { _, err := w.transport.Capture(t.Context(), "nope", id); return err },
		"capture with nil context": func() error { _, err := w.transport.Capture(none, w.connection.Key, id); return err },
	} {
		if failure := w.failure(ask(), feedback.CodeInvalidRequest); failure.Feedback.InvocationID != id {
			t.Errorf("%s: the id is %q", name, failure.Feedback.InvocationID)
		}
	}
}

// What New did not make says so, and does not crash.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var zero host.Transport
	if _, err := zero.InspectInvocation(t.Context(), w.original); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("%v", err)
	}
	if _, err := zero.Capture(t.Context(), w.connection.Key, w.original.InvocationID); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("%v", err)
	}
	for o := range zero.InspectInvocations(t.Context(), []host.Original{w.original}) {
		w.failure(o.Err, feedback.CodeInvalidRequest)
	}
	zero.CloseIdleConnections()
	if _, err := host.New((*registry.Memory)(nil)); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("%v", err)
	}
	var client agentclient.BailingHubAgentClient
	if _, err := client.InspectInvocation(t.Context(), w.original.InvocationID); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("%v", err)
	}
	client.CloseIdleConnections()
}

// A refused refresh token stays refused for its minute, however many other
// sessions come by.
func TestRefusedTokensAreNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Revoke(w.session.ID)
		w.refused(feedback.CodeAgentAuthorizationUnavailable)
		for n := range 10 * host.MaxSessions {
			o := w.original
			o.ExpectedBinding.SessionID = fmt.Sprintf("11111111-1111-4111-8111-%012d", n)
			_, _ = w.transport.InspectInvocation(t.Context(), o)
		}
		w.refused(feedback.CodeAgentAuthorizationUnavailable)
		if n := w.wire.count("refresh"); n != 1 {
			t.Errorf("%d refreshes", n)
		}
	})
}
