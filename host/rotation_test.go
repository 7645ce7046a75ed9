package host_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// Whatever is no good rotation counts for a minute. Then the same transport goes
// on by itself, and what did not come from a Hub is told apart.
func TestRefusedRefreshCountsForAMinute(t *testing.T) {
	t.Parallel()
	page := []byte("<html><body>synthetic-page</body></html>")
	for name, test := range map[string]struct {
		status int
		body   []byte
		says   string
	}{
		"client app disabled":    {400, []byte(`{"error":"invalid_grant"}`), "refused"},
		"unauthorized":           {401, []byte(`{"error":"unauthorized"}`), "refused"},
		"firewall":               {403, page, "in front of it"},
		"gateway":                {403, []byte(`{"message":"forbidden"}`), "in front of it"},
		"proxy":                  {404, page, "in front of it"},
		"redirect":               {302, nil, "in front of it"},
		"too large":              {413, page, "in front of it"},
		"misdirected":            {421, nil, "in front of it"},
		"for legal reasons":      {451, page, "in front of it"},
		"start page":             {200, page, "in front of it"},
		"an object, no grant":    {200, []byte(`{"status":"ok"}`), "not one that a Hub gives"},
		"created, whatever":      {201, []byte(`{}`), "in front of it"},
		"null instead of a page": {200, []byte(`null`), "in front of it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.expiring(0)
				w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Status: test.status, Body: test.body})
				for _, pause := range []time.Duration{0, time.Second, 58 * time.Second} {
					time.Sleep(pause)
					failure := w.refused(feedback.CodeAgentAuthorizationUnavailable)
					if failure.StatusCode != test.status || !strings.Contains(failure.Error(), test.says) || !strings.Contains(failure.Error(), "in a minute") {
						t.Errorf("status %d: %s", failure.StatusCode, failure)
					}
				}
				if n := w.wire.count("refresh"); n != 1 {
					t.Errorf("%d refreshes", n)
				}
				time.Sleep(time.Second)
				if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
					t.Error(err)
				}
				w.wantStored(1)
				if n := w.wire.count("refresh"); n != 2 {
					t.Errorf("%d refreshes", n)
				}
			})
		})
	}
}

// A refresh token that was exchanged is never sent again, though the store shows
// it again.
func TestExchangedTokenIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expiring(0)
		before := w.stored()
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		w.expiring(0)
		_, err = w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		w.must(w.store.SaveCredentials(t.Context(), w.connection.Key, before)) // as from a backup
		for range 3 {
			if failure := w.refused(feedback.CodeAgentAuthorizationUnavailable); !strings.Contains(failure.Error(), "exchanged already") {
				t.Error(failure)
			}
			time.Sleep(10 * time.Minute)
		}
		if n := w.wire.count("refresh"); n != 2 {
			t.Errorf("%d refreshes", n)
		}
	})
}

// In the last half minute of a session its tokens are used until they have run
// out, by whoever reads them: a renewal could bring nothing longer.
func TestLastHalfMinuteOfASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		credentials := w.stored()
		credentials.RefreshExpiresAt = time.Now().Add(40 * time.Second)
		credentials.AccessExpiresAt = time.Now().Add(5 * time.Second)
		w.must(w.store.SaveCredentials(t.Context(), w.connection.Key, credentials))
		left := regexp.MustCompile(`"refresh_expires_in":\d+`)
		w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Times: -1, Rewrite: func(body []byte) []byte {
			return left.ReplaceAll(body, fmt.Appendf(nil, `"refresh_expires_in":%d`, int(time.Until(credentials.RefreshExpiresAt).Seconds())))
		}})
		others := []*host.Transport{w.transport, w.newTransport(w.store)}
		for n := range 35 {
			if _, err := others[n%2].InspectInvocation(t.Context(), w.original); err != nil {
				t.Errorf("after %d s: %v", n, err)
			}
			if _, err := w.newTransport(w.store).InspectInvocation(t.Context(), w.original); err != nil { // a process of its own
				t.Errorf("after %d s: %v", n, err)
			}
			time.Sleep(time.Second)
		}
		if n := w.wire.count("refresh"); n != 1 {
			t.Errorf("%d refreshes", n)
		}
	})
}

// A token that was inside the margin when it came is used until it has run out.
func TestShortTokenIsNotRenewedEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hubtest.WithLifetimes(10*time.Second, time.Hour))
		for range 30 {
			if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		if n := w.wire.count("refresh"); n < 3 || n > 4 {
			t.Errorf("%d refreshes", n)
		}
	})
}

// A token that has run out again before the receipt is asked for is not renewed a
// second time in one inspection.
func TestTokenThatRunsOutWithinAnInspection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hubtest.WithLifetimes(2*time.Second, time.Hour))
		time.Sleep(3 * time.Second)
		w.wire.after = func(name string) {
			if name == "capabilities" {
				time.Sleep(3 * time.Second)
			}
		}
		w.refused(feedback.CodeAgentAuthorizationUnavailable)
		if diff := cmp.Diff([]string{"refresh", "capabilities", "receipt"}, w.wire.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// A store that shows another token after each refusal does not keep an inspection
// asking: after the second new token the refusal stands, and nothing is renewed.
func TestRefusalStandsAfterTwoNewTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := 0
	another := func(string) {
		number++
		credentials := w.stored()
		credentials.AccessToken = registry.NewSecret(fmt.Sprint("synthetic-another-", number))
		w.must(w.store.SaveCredentials(context.Background(), w.connection.Key, credentials))
	}
	another("")
	w.wire.before = another
	w.refused(feedback.CodeAgentAuthorizationUnavailable)
	if diff := cmp.Diff([]string{"capabilities", "capabilities", "capabilities"}, w.wire.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A 401 that meets a rotation under way, in this process or another, waits for
// it and goes on with what it brings, though the inspection had its own refresh.
func TestA401WaitsForARotationUnderWay(t *testing.T) {
	t.Parallel()
	for name, otherOf := range map[string]func(*world) *host.Transport{
		"in this process":    func(w *world) *host.Transport { return w.transport },
		"in another process": func(w *world) *host.Transport { return w.newTransport(w.store) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.expiring(0)
				other := otherOf(w)
				var group sync.WaitGroup
				base := w.wire.base
				var receipts atomic.Int64
				w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
					if nameOf(r) == "receipt" && receipts.Add(1) == 1 {
						// The Hub has taken the next refresh token, and its answer is slow.
						w.expiring(0)
						w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: 0, Rewrite: func(body []byte) []byte { time.Sleep(2 * time.Second); return body }})
						group.Go(func() {
							if _, err := other.InspectInvocation(t.Context(), w.original); err != nil {
								t.Errorf("the other: %v", err)
							}
						})
						time.Sleep(time.Second)
						return status(401), nil
					}
					return base.RoundTrip(r)
				})
				if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
					t.Error(err)
				}
				group.Wait()
				w.wantSaved(2)
			})
		})
	}
}

// Tokens that live for 10, 25 and 31 seconds serve 64 at once, over memory and a
// folder, in one process and in two, one by one and in batches: nobody fails.
func TestShortTokensServeEverybody(t *testing.T) {
	t.Parallel()
	for _, lifetime := range []time.Duration{10 * time.Second, 25 * time.Second, 31 * time.Second} {
		for _, stores := range []string{"memory", "folder"} {
			for _, processes := range []int{1, 2} {
				t.Run(fmt.Sprintf("%v, %s, %d", lifetime, stores, processes), func(t *testing.T) {
					t.Parallel()
					path := lockport.Quiet(t.TempDir(), "registry", connectionKeyOf(t))
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, hubtest.WithLifetimes(lifetime, time.Hour))
						w.hub.Inject(hubtest.Fault{Latency: 100 * time.Millisecond, Times: -1})
						var transports []*host.Transport
						for range processes {
							store := registry.Store(w.store)
							if stores == "folder" {
								folder := openFolder(t, path)
								_, err := folder.Register(t.Context(), registry.Descriptor{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})
								w.must(err)
								if len(transports) == 0 {
									w.must(folder.SaveCredentials(t.Context(), w.connection.Key, credentialsOf(w.session)))
								}
								store = folder
							}
							transports = append(transports, w.newTransport(store))
						}
						start := time.Now()
						for round := range 5 {
							var group sync.WaitGroup
							for n := range 64 {
								group.Go(func() {
									for range 2 {
										if _, err := transports[n%processes].InspectInvocation(t.Context(), w.original); err != nil {
											t.Errorf("round %d, %v: %v", round, time.Since(start), err)
										}
										time.Sleep(time.Duration(n%7) * 300 * time.Millisecond)
									}
								})
							}
							group.Wait()
							time.Sleep(lifetime / 3)
						}
						originals := w.operations(200)
						var group sync.WaitGroup
						for _, transport := range transports {
							group.Go(func() {
								for o := range transport.InspectInvocations(t.Context(), originals) {
									if o.Err != nil {
										t.Errorf("batch, %v: %v", time.Since(start), o.Err)
									}
								}
							})
						}
						group.Wait()
						if hub, _ := w.hub.Session(w.session.ID); hub.Revoked {
							t.Error("the session is over")
						}
					})
				})
			}
		}
	}
}

func connectionKeyOf(t testing.TB) string {
	t.Helper()
	key, err := (registry.Descriptor{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}).ConnectionKey()
	must(t, err)
	return key
}

// A time-out or a cancellation says what was waited for.
func TestEndNamesWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	stuck := func(h *hooked, from int) {
		h.reads = func(n int) {
			if n >= from {
				time.Sleep(time.Hour)
			}
		}
	}
	for name, test := range map[string]struct {
		arrange func(*world, *hooked)
		says    string
	}{
		"the store at entry":   {func(_ *world, h *hooked) { stuck(h, 1) }, "the connection store."},
		"the store later":      {func(_ *world, h *hooked) { stuck(h, 2) }, "the connection store."},
		"the store in the end": {func(_ *world, h *hooked) { stuck(h, 3) }, "the connection store."},
		"the lock": {func(w *world, h *hooked) {
			w.expiring(0)
			h.update = func(ctx context.Context, _ string, _ update) error { <-ctx.Done(); return ctx.Err() }
		}, "exclusion of other updates"},
		"the store in a flight": {func(w *world, h *hooked) { w.expiring(0); stuck(h, 2) }, "the connection store."},
		"the refresh": {func(w *world, _ *hooked) {
			w.expiring(0)
			w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: time.Minute})
		}, "the Hub's answer to the renewal"},
		"the save": {func(w *world, h *hooked) {
			w.expiring(0)
			h.update = func(ctx context.Context, key string, u update) error {
				return w.store.UpdateCredentials(ctx, key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
					next, err := u(ctx, c)
					time.Sleep(20 * time.Second)
					return next, err
				})
			}
		}, "to save the renewed session"},
	} {
		for _, how := range []string{"ran out of time", "was cancelled"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					store := &hooked{Store: w.store}
					test.arrange(w, store)
					w.transport = w.newTransport(store)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if how == "was cancelled" {
						time.AfterFunc(time.Second, cancel)
					}
					_, err := w.transport.InspectInvocation(ctx, w.original)
					code := feedback.CodeOf(err)
					if code != feedback.CodeAgentRequestTimeout && code != feedback.CodeAgentRequestCancelled || !strings.Contains(err.Error(), how) || !strings.Contains(err.Error(), test.says) {
						t.Error(err)
					}
					time.Sleep(2 * time.Hour)
				})
			})
		}
	}
}

// With the lock of the folder held elsewhere, its port is named, though the
// inspection ends before the folder gives up.
func TestEndNamesTheLockOfTheFolder(t *testing.T) {
	t.Parallel()
	path := lockport.Quiet(t.TempDir(), "registry", connectionKeyOf(t))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		folder, other := openFolder(t, path), openFolder(t, path)
		_, err := folder.Register(t.Context(), registry.Descriptor{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})
		w.must(err)
		expired := credentialsOf(w.session)
		expired.AccessExpiresAt = time.Now()
		w.must(folder.SaveCredentials(t.Context(), w.connection.Key, expired))
		go func() {
			_ = other.UpdateCredentials(context.Background(), w.connection.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				time.Sleep(time.Minute)
				return c, nil
			})
		}()
		synctest.Wait()
		w.transport = w.newTransport(folder)
		failure := w.refused(feedback.CodeAgentRequestTimeout)
		if !strings.Contains(failure.Error(), folder.UpdateLock(w.connection.Key)) || !strings.Contains(failure.Error(), "port ") {
			t.Error(failure)
		}
		time.Sleep(time.Hour)
	})
}

func TestCaptureNamesTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.transport = w.newTransport(&hooked{Store: w.store, reads: func(int) { time.Sleep(time.Minute) }})
		_, err := w.transport.Capture(t.Context(), w.connection.Key, w.original.InvocationID)
		if failure := w.failure(err, feedback.CodeAgentRequestTimeout); !strings.Contains(failure.Error(), "the connection store") {
			t.Error(failure)
		}
		time.Sleep(time.Hour)
	})
}

// What a batch did not get to is told why: the Hub asked for a pause, or its
// turn did not come.
func TestBatchEndNamesWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Skip: 1, Status: 503, Header: http.Header{"Retry-After": {"20"}}, Times: -1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(5*time.Second, cancel)
		for o := range w.transport.InspectInvocations(ctx, w.operations(10)) {
			if o.Err != nil && !strings.Contains(o.Err.Error(), "a pause that the Hub asked for") {
				t.Error(o.Err)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Latency: 10 * time.Second, Times: -1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(5*time.Second, cancel)
		turns := 0
		for o := range w.transport.InspectInvocations(ctx, w.operations(10), host.WithConcurrency(2)) {
			if strings.Contains(o.Err.Error(), "its turn in the batch") {
				turns++
			}
		}
		if turns != 8 {
			t.Errorf("%d had no turn", turns)
		}
	})
}

// A failure that speaks of one invocation leaves the negotiation of a batch
// good; any other one does not.
func TestBatchKeepsItsNegotiationAfterAnUnknownID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	originals := w.operations(500)
	for n := range originals {
		if n%2 == 0 {
			originals[n].InvocationID = fmt.Sprintf("%064x", n)
		}
	}
	observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals))
	want := map[feedback.Code]int{"": 250, feedback.CodeInvocationNotFound: 250}
	if diff := cmp.Diff(want, codes(observations)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := w.wire.count("capabilities"); n != 1 {
		t.Errorf("%d negotiations", n)
	}
	w = newWorld(t)
	w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: 200, Body: []byte("{}")})
	for range w.transport.InspectInvocations(t.Context(), w.operations(20), host.WithConcurrency(1)) {
	}
	if n := w.wire.count("capabilities"); n != 2 {
		t.Errorf("%d negotiations after an answer that is no receipt", n)
	}
}
