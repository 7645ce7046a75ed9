package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"runtime"
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
	"github.com/bailinghub/bailinghub-go/registry"
)

// operations submits n more operations and gives their originals.
func (w *world) operations(n int) []host.Original {
	w.t.Helper()
	var originals []host.Original
	for range n {
		id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
		w.must(err)
		original := w.original
		original.InvocationID = id
		originals = append(originals, original)
	}
	return originals
}

// codes counts the observations by code; "" for a receipt.
func codes(observations []host.Observation) map[feedback.Code]int {
	counts := map[feedback.Code]int{}
	for _, o := range observations {
		counts[feedback.CodeOf(o.Err)]++
	}
	return counts
}

// eachOnce holds the observations against the list that was asked about.
func eachOnce(t *testing.T, originals []host.Original, observations []host.Observation) {
	t.Helper()
	left := map[host.Original]int{}
	for _, original := range originals {
		left[original]++
	}
	for _, o := range observations {
		left[o.Original]--
		if (o.Receipt == nil) == (o.Err == nil) {
			t.Errorf("not exactly one of receipt and error: %+v", o)
		}
		if o.Receipt != nil && o.Receipt.InvocationID != o.Original.InvocationID {
			t.Errorf("the receipt of %s for %s", o.Receipt.InvocationID, o.Original.InvocationID)
		}
	}
	for original, n := range left {
		if n != 0 {
			t.Errorf("%s: answered %d times too few", original.InvocationID, n)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := append(w.operations(200), w.original, w.original)
		bad, missing, other := w.original, w.original, w.original
		bad.InvocationID = "not one"
		missing.InvocationID = strings.Repeat("b", 64)
		other.Tool = hubtest.ReadTool
		originals = slices.Insert(originals, 100, bad, missing, other)
		before := w.hub.Snapshot()

		observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals))
		eachOnce(t, originals, observations)
		want := map[feedback.Code]int{"": 202, feedback.CodeInvalidRequest: 1, feedback.CodeInvocationNotFound: 1, feedback.CodeAgentInvalidResponse: 1}
		if diff := cmp.Diff(want, codes(observations)); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
		// Once for the binding, and again after each of the two failures: those
		// that were on their way by then ask for themselves.
		if n := w.wire.count("capabilities"); n < 2 || n > 1+2*8 {
			t.Errorf("%d negotiations", n)
		}
		if n := w.wire.count("receipt"); n != 204 {
			t.Errorf("%d receipts", n)
		}
		if w.hub.Snapshot() != before {
			t.Error("a batch changed the Hub")
		}
	})
}

func TestBatchNegotiatesOncePerBinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	originals := w.operations(300)
	observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(64)))
	eachOnce(t, originals, observations)
	if n := w.wire.count("capabilities"); n != 1 {
		t.Errorf("%d negotiations", n)
	}
	// The transport itself remembers none of it.
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil || w.wire.count("capabilities") != 2 {
		t.Errorf("%v, %d negotiations", err, w.wire.count("capabilities"))
	}
}

func TestBatchNegotiatesAgainAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Latency: time.Second, Times: -1})
		originals := w.operations(130)
		observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(1)))
		eachOnce(t, originals, observations)
		if n := w.wire.count("capabilities"); n != 3 {
			t.Errorf("%d negotiations in %d seconds", n, 130)
		}
	})
}

func TestBatchIsBounded(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{0, 1, 8, 20} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Latency: time.Second, Times: -1})
			originals := w.operations(80)
			var now, most atomic.Int64
			w.wire.before = func(string) {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
			}
			w.wire.after = func(string) { now.Add(-1) }
			var opts []host.BatchOption
			if concurrency > 0 {
				opts = append(opts, host.WithConcurrency(concurrency))
			}
			want := max(concurrency, 0)
			if concurrency == 0 {
				want = 8
			}
			start := time.Now()
			eachOnce(t, originals, slices.Collect(w.transport.InspectInvocations(t.Context(), originals, opts...)))
			if most.Load() != int64(want) {
				t.Errorf("%d at once, want %d", most.Load(), want)
			}
			if took := time.Since(start).Round(time.Second); took != time.Duration(80/want)*time.Second {
				t.Errorf("with %d at once it took %v", want, took)
			}
		})
	}
}

func TestBatchArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	originals := []host.Original{w.original, w.original}
	var none context.Context
	for name, observations := range map[string][]host.Observation{
		"concurrency 0":    slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(0))),
		"concurrency 2000": slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(2000))),
		"nil option":       slices.Collect(w.transport.InspectInvocations(t.Context(), originals, nil)),
		"nil context":      slices.Collect(w.transport.InspectInvocations(none, originals)),
	} {
		eachOnce(t, originals, observations)
		if n := codes(observations)[feedback.CodeInvalidRequest]; n != 2 {
			t.Errorf("%s: %v", name, codes(observations))
		}
	}
	for range w.transport.InspectInvocations(t.Context(), nil) {
		t.Error("an observation of nothing")
	}
	for range w.transport.InspectInvocations(t.Context(), []host.Original{{}, {}}) {
		break
	}
	if sent := w.wire.requests(); len(sent) != 0 {
		t.Errorf("sent: %v", sent)
	}
}

// Leaving the loop stops the work at once, however it is left.
func TestBatchStops(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*world, []host.Original){
		"break": func(w *world, originals []host.Original) {
			for range w.transport.InspectInvocations(w.t.Context(), originals) {
				break
			}
		},
		"panic": func(w *world, originals []host.Original) {
			defer func() {
				if recover() != "mine" {
					w.t.Error("the panic is lost")
				}
			}()
			for range w.transport.InspectInvocations(w.t.Context(), originals) {
				panic("mine")
			}
		},
		"iter.Pull": func(w *world, originals []host.Original) {
			next, stop := iter.Pull(w.transport.InspectInvocations(w.t.Context(), originals))
			next()
			stop()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.t = t
			w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Skip: 1, Latency: 10 * time.Second, Times: -1})
			originals := w.operations(50)
			start := time.Now()
			leave(w, originals)
			took := time.Since(start)
			synctest.Wait() // what was on the wire by then has arrived
			sent := w.hub.Requests().Total()
			if took > 0 || sent > 1+1+8 {
				t.Errorf("%s: left after %v and %d requests", name, took, sent)
			}
			time.Sleep(time.Minute)
			if later := w.hub.Requests().Total(); later != sent {
				t.Errorf("%s: %d requests after the loop was left", name, later-sent)
			}
		})
	}
}

func TestBatchContextEnds(t *testing.T) {
	t.Parallel()
	cause := errors.New("shutting down")
	for name, test := range map[string]struct {
		context func(context.Context) (context.Context, context.CancelFunc)
		code    feedback.Code
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(3*time.Second, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, feedback.CodeAgentRequestCancelled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 3*time.Second, cause)
		}, feedback.CodeAgentRequestTimeout},
	} {
		for _, at := range []string{"requests", "a pause"} {
			if name == "deadline" && at == "a pause" {
				continue // no such pause is begun: TestBatchWaitsForNoDeadline
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fault := hubtest.Fault{On: hubtest.ReceiptRequest, Latency: 2 * time.Second, Times: -1}
				if at == "a pause" {
					fault = hubtest.Fault{On: hubtest.ReceiptRequest, Status: 503, Header: http.Header{"Retry-After": {"20"}}, Times: -1}
				}
				w.hub.Inject(fault)
				originals := w.operations(40)
				ctx, cancel := test.context(t.Context())
				defer cancel()
				start := time.Now()
				observations := slices.Collect(w.transport.InspectInvocations(ctx, originals))
				if took := time.Since(start); took != 3*time.Second {
					t.Errorf("%s in %s: took %v", name, at, took)
				}
				eachOnce(t, originals, observations)
				for _, o := range observations {
					if o.Err != nil && (feedback.CodeOf(o.Err) != test.code || !errors.Is(o.Err, cause)) {
						t.Errorf("%s in %s: %v", name, at, o.Err)
					}
				}
			})
		}
	}
}

// What would be waited for until the deadline of the context is answered at once
// with what the Hub said, the wait that it asked for included.
func TestBatchWaitsForNoDeadline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault    hubtest.Fault
		deadline time.Duration
		took     time.Duration // at most
		receipts int           // that were asked for
		code     feedback.Code
		status   int
		after    time.Duration // that the failures ask for
	}{
		"429 at a receipt":         {hubtest.Fault{On: hubtest.ReceiptRequest, Status: 429, Header: http.Header{"Retry-After": {"20"}}, Times: -1}, 10 * time.Second, 0, 8, feedback.CodeAgentTransportUnavailable, 429, 20 * time.Second},
		"429 beyond the cap":       {hubtest.Fault{On: hubtest.ReceiptRequest, Status: 429, Header: http.Header{"Retry-After": {"3600"}}, Times: -1}, 40 * time.Second, 31 * time.Second, 16, feedback.CodeAgentTransportUnavailable, 429, time.Hour},
		"503 at the negotiation":   {hubtest.Fault{On: hubtest.CapabilitiesRequest, Status: 503, Header: http.Header{"Retry-After": {"20"}}, Times: -1}, 10 * time.Second, 0, 0, feedback.CodeAgentTransportUnavailable, 503, 20 * time.Second},
		"lost at the negotiation":  {hubtest.Fault{On: hubtest.CapabilitiesRequest, Drop: hubtest.DropRequest, Times: -1}, 50 * time.Millisecond, 0, 0, feedback.CodeAgentTransportUnavailable, 0, 0},
		"500 at a receipt":         {hubtest.Fault{On: hubtest.ReceiptRequest, Status: 500, Times: -1}, 50 * time.Millisecond, 0, 40, feedback.CodeAgentTransportUnavailable, 500, 0},
		"no such wait, 0.2 s each": {hubtest.Fault{On: hubtest.ReceiptRequest, Status: 500}, 10 * time.Second, time.Second, 41, "", 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.hub.Inject(test.fault)
			originals := w.operations(40)
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			start := time.Now()
			observations := slices.Collect(w.transport.InspectInvocations(ctx, originals))
			if took := time.Since(start); took > test.took {
				t.Errorf("%s: took %v", name, took)
			}
			eachOnce(t, originals, observations)
			for _, o := range observations {
				if failure, ok := errors.AsType[*feedback.Error](o.Err); feedback.CodeOf(o.Err) != test.code ||
					ok && (failure.StatusCode != test.status || failure.RetryAfter != test.after || failure.Feedback.InvocationID != o.Original.InvocationID) {
					t.Errorf("%s: %+v", name, o.Err)
				}
			}
			if n := w.wire.count("receipt"); n > test.receipts {
				t.Errorf("%s: %d receipts were asked for", name, n)
			}
		})
	}
}

// A session that is gone is asked once, not once for each entry.
func TestBatchOfASessionThatIsGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrange  func(*world)
		code     feedback.Code
		requests []string
	}{
		"revoked":         {func(w *world) { w.hub.Revoke(w.session.ID) }, feedback.CodeAgentAuthorizationUnavailable, []string{"capabilities", "refresh"}},
		"logged out":      {func(w *world) { w.must(w.store.DeleteCredentials(context.Background(), w.connection.Key)) }, feedback.CodeAgentAuthorizationUnavailable, nil},
		"another session": {func(w *world) { w.login(w.hub.Login(hubtest.Grant{})) }, feedback.CodeAgentBindingChanged, nil},
		"old Hub":         {func(w *world) { w.hub.SetInspection(hubtest.InspectionAbsent) }, feedback.CodeAgentSchemaUnsupported, []string{"capabilities"}},
		"refresh not now": {func(w *world) {
			w.expiring(0)
			w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Status: 503, Times: -1})
		}, feedback.CodeAgentTransportUnavailable, []string{"refresh"}},
		"Hub away": {func(w *world) { w.hub.Inject(hubtest.Fault{Drop: hubtest.DropRequest, Times: -1}) }, feedback.CodeAgentTransportUnavailable, slices.Repeat([]string{"capabilities"}, 3)},
		"refused":  {func(w *world) { w.hub.Inject(hubtest.Fault{On: hubtest.CapabilitiesRequest, Status: 403, Times: -1}) }, feedback.CodeAgentAuthorizationUnavailable, []string{"capabilities"}},
		"silent": {func(w *world) {
			w.hub.Inject(hubtest.Fault{On: hubtest.CapabilitiesRequest, Latency: time.Hour, Times: -1})
		}, feedback.CodeAgentRequestTimeout, []string{"capabilities"}},
		"client disabled":  {func(w *world) { w.hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.Disabled = true }) }, feedback.CodeAgentAuthorizationUnavailable, []string{"capabilities", "refresh"}},
		"store out of use": {func(w *world) { w.transport = w.newTransport(failing{errors.New("down")}) }, feedback.CodeUnknownFailure, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				originals := w.operations(500)
				test.arrange(w)
				observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(64)))
				eachOnce(t, originals, observations)
				if n := codes(observations)[test.code]; n != 500 {
					t.Errorf("%v", codes(observations))
				}
				for _, o := range observations {
					if failure := w.failure(o.Err, test.code); failure.Feedback.InvocationID != o.Original.InvocationID {
						t.Fatalf("the error of %s speaks of %s", o.Original.InvocationID, failure.Feedback.InvocationID)
					}
				}
				if diff := cmp.Diff(test.requests, w.wire.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A Hub that pushes back slows the whole batch down, and is obeyed.
func TestBatchIsSlowedDown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault    hubtest.Fault
		opts     []agentclient.Option
		min, max time.Duration
		receipts int
		code     feedback.Code
		failed   int
	}{
		"429 once":             {fault: hubtest.Fault{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, min: 7 * time.Second, max: 7300 * time.Millisecond, receipts: 101},
		"longer than the cap":  {fault: hubtest.Fault{Status: 503, Header: http.Header{"Retry-After": {"3600"}}}, min: 30 * time.Second, max: 30300 * time.Millisecond, receipts: 101},
		"without Retry-After":  {fault: hubtest.Fault{Status: 503}, min: time.Second, max: 1300 * time.Millisecond, receipts: 101},
		"three times in a row": {fault: hubtest.Fault{Status: 503, Times: 3}, min: 7 * time.Second, max: 8 * time.Second, receipts: 103},
		"no repeats wanted":    {fault: hubtest.Fault{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, opts: []agentclient.Option{agentclient.WithMaxRetries(0)}, min: 7 * time.Second, max: 7300 * time.Millisecond, receipts: 100, code: feedback.CodeAgentTransportUnavailable, failed: 1},
		"500 does not":         {fault: hubtest.Fault{Status: 500}, max: 400 * time.Millisecond, receipts: 101},
		"lost does not":        {fault: hubtest.Fault{Drop: hubtest.DropMidBody}, max: 400 * time.Millisecond, receipts: 101},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.transport = w.newTransport(w.store, test.opts...)
				originals := w.operations(100)
				test.fault.On, test.fault.Skip = hubtest.ReceiptRequest, 10
				w.hub.Inject(test.fault)
				start := time.Now()
				observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(1)))
				if took := time.Since(start); took < test.min || took > test.max {
					t.Errorf("took %v, want %v to %v", took, test.min, test.max)
				}
				eachOnce(t, originals, observations)
				if n := codes(observations)[test.code]; test.failed > 0 && n != test.failed {
					t.Errorf("%v", codes(observations))
				}
				if n := codes(observations)[""]; n != 100-test.failed {
					t.Errorf("%v", codes(observations))
				}
				if n := w.wire.count("receipt"); n != test.receipts {
					t.Errorf("%d receipts, want %d", n, test.receipts)
				}
			})
		})
	}
}

// An entry is given up on after its repeats; the others go on.
func TestBatchGivesUpOnAnEntry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status   int
		requests int
	}{"500": {500, 3}, "429": {429, 9}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			originals := w.operations(20)
			bad := "/" + originals[7].InvocationID + "/"
			asked := 0
			base := w.wire.base
			w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, bad) {
					asked++
					return &http.Response{StatusCode: test.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
				}
				return base.RoundTrip(r)
			})
			observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(1)))
			eachOnce(t, originals, observations)
			if diff := cmp.Diff(map[feedback.Code]int{"": 19, feedback.CodeAgentTransportUnavailable: 1}, codes(observations)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if asked != test.requests {
				t.Errorf("%s: asked %d times, want %d", name, asked, test.requests)
			}
		})
	}
}

// A Hub that hangs holds up its own entries and no others.
func TestBatchLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		healthy := w.operations(30)
		stuck := make([]host.Original, 30)
		connection, err := w.store.Register(t.Context(), registry.Descriptor{HubURL: "https://stuck.example.com", ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})
		w.must(err)
		login := credentialsOf(w.session)
		login.HubURL = connection.HubURL
		w.must(w.store.SaveCredentials(t.Context(), connection.Key, login))
		for n := range stuck {
			stuck[n], err = w.transport.Capture(t.Context(), connection.Key, healthy[n].InvocationID)
			w.must(err)
		}
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "stuck.example.com" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return base.RoundTrip(r)
		})
		start := time.Now()
		answered := map[string]time.Duration{}
		for o := range w.transport.InspectInvocations(t.Context(), append(slices.Clone(stuck), healthy...), host.WithConcurrency(2)) {
			answered[o.Original.ExpectedBinding.HubURL] = time.Since(start)
		}
		if took := answered[hubURL]; took > time.Second {
			t.Errorf("the healthy Hub's entries took %v", took)
		}
		if took := answered["https://stuck.example.com"]; took > time.Minute {
			t.Errorf("the stuck Hub's entries took %v", took)
		}
	})
}

// The panic of a store surfaces in the loop, and nothing is left behind.
func TestBatchStorePanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	originals := w.operations(20)
	transport := w.newTransport(&hooked{Store: w.store, reads: func(n int) {
		if n == 20 {
			panic("mine")
		}
	}})
	defer func() {
		if got := recover(); got != "mine" {
			t.Errorf("recovered %v", got)
		}
	}()
	for range transport.InspectInvocations(t.Context(), originals) {
	}
	t.Error("no panic")
}

func TestBatchGoexitOfAStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	originals := w.operations(5)
	transport := w.newTransport(&hooked{Store: w.store, reads: func(int) { runtime.Goexit() }})
	returned := false
	var one sync.WaitGroup
	one.Go(func() {
		for range transport.InspectInvocations(t.Context(), originals) {
			t.Error("an observation")
		}
		returned = true
	})
	one.Wait()
	if returned {
		t.Error("the loop went on")
	}
}

// Refreshes are shared in a batch as everywhere.
func TestBatchRefreshesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	originals := w.operations(100)
	w.hub.ExpireAccess(w.session.ID)
	w.wire.after = on("receipt", sync.OnceFunc(func() { w.hub.ExpireAccess(w.session.ID) }))
	observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(64)))
	eachOnce(t, originals, observations)
	if n := codes(observations)[""]; n != 100 {
		t.Errorf("%v", codes(observations))
	}
	if n := w.wire.count("refresh"); n != 2 {
		t.Errorf("%d refreshes", n)
	}
}

// Cancelling at any point gives a whole receipt or agent_request_cancelled.
func TestCancelAtAnyPoint(t *testing.T) {
	t.Parallel()
	for point := range 500 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.hub.Inject(hubtest.Fault{ByteInterval: time.Millisecond, Times: -1}, hubtest.Fault{})
			w.expiring(time.Duration(point%2) * time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(point*3)*time.Millisecond, cancel)
			observed, err := w.transport.InspectInvocation(ctx, w.original)
			if err == nil && observed.InvocationID != w.original.InvocationID {
				t.Errorf("%+v", observed)
			}
			if err != nil {
				w.failure(err, feedback.CodeAgentRequestCancelled)
			}
			cancel()
		})
	}
}

func ExampleTransport_InspectInvocations() {
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	store, key := loggedIn(ctx, "https://hub.example.com", session)
	transport, err := host.New(store, agentclient.WithHTTPClient(&http.Client{Transport: hub.Transport()}))
	if err != nil {
		panic(err)
	}
	var open []host.Original // what the host kept
	for _, outcome := range []hubtest.Outcome{hubtest.Executed("done"), hubtest.AnswerLost(), hubtest.Hanging()} {
		hub.Plan(outcome)
		id, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
		if err != nil {
			panic(err)
		}
		original, err := transport.Capture(ctx, key, id)
		if err != nil {
			panic(err)
		}
		open = append(open, original)
	}

	known := map[string]int{}
	for o := range transport.InspectInvocations(ctx, open) {
		if o.Err != nil {
			known["no answer"]++
			continue
		}
		known[string(o.Receipt.Progress())]++
	}
	for _, progress := range slices.Sorted(maps.Keys(known)) {
		fmt.Println(progress, known[progress])
	}
	// Output:
	// executed 1
	// in_flight 1
	// unresolved 1
}
