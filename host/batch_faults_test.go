package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
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

const otherHubURL = "https://b.example.com"

// atOtherHub gives the originals as those of a connection to another Hub, to
// which the session is known too.
func (w *world) atOtherHub(originals []host.Original) []host.Original {
	w.t.Helper()
	connection, err := w.store.Register(context.Background(), registry.Descriptor{HubURL: otherHubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})
	w.must(err)
	login := credentialsOf(w.session)
	login.HubURL = otherHubURL
	w.must(w.store.SaveCredentials(context.Background(), connection.Key, login))
	others := make([]host.Original, len(originals))
	for n, original := range originals {
		others[n], err = w.transport.Capture(context.Background(), connection.Key, original.InvocationID)
		w.must(err)
	}
	return others
}

func status(code int, header ...string) *http.Response {
	answer := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
	for n := 0; n < len(header); n += 2 {
		answer.Header.Set(header[n], header[n+1])
	}
	return answer
}

// What one Hub says is the answer for no operation of another.
func TestBatchKeepsHubsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		healthy, throttled := w.operations(100), w.atOtherHub(w.operations(3))
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "b.example.com" {
				return status(429, "Retry-After", "30"), nil
			}
			time.Sleep(10 * time.Millisecond)
			return base.RoundTrip(r)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		originals := slices.Concat(throttled, healthy)
		observations := slices.Collect(w.transport.InspectInvocations(ctx, originals))
		eachOnce(t, originals, observations)
		for _, o := range observations {
			isThrottled := o.Original.ExpectedBinding.HubURL == otherHubURL
			if failure, failed := errors.AsType[*feedback.Error](o.Err); failed != isThrottled || failed && failure.StatusCode != 429 {
				t.Errorf("%s: %v", o.Original.ExpectedBinding.HubURL, o.Err)
			}
		}
	})
}

// A Retry-After beside another status than 429 and 503 is kept to by the entry,
// or said.
func TestBatchKeepsToRetryAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		on       hubtest.RequestKind
		after    string
		again    bool
		requests int
	}{
		{hubtest.ReceiptRequest, "4", true, 4}, // with a negotiation after the failure
		{hubtest.ReceiptRequest, "7", false, 2},
		{hubtest.ReceiptRequest, "3600", false, 2},
		{hubtest.CapabilitiesRequest, "4", true, 3},
		{hubtest.CapabilitiesRequest, "7", false, 1},
		{hubtest.CapabilitiesRequest, "3600", false, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.hub.Inject(hubtest.Fault{On: test.on, Status: 502, Header: http.Header{"Retry-After": {test.after}}})
			start := time.Now()
			for o := range w.transport.InspectInvocations(t.Context(), []host.Original{w.original}) {
				took := time.Since(start)
				if (o.Err == nil) != test.again || test.again && took < 4*time.Second || !test.again && took > 0 {
					t.Errorf("%+v: %v after %v", test, o.Err, took)
				}
			}
			if sent := w.wire.requests(); len(sent) != test.requests {
				t.Errorf("%+v: %v", test, sent)
			}
		})
	}
}

// Answers to what was asked at once are one push, not one for each.
func TestBatchPausesOnceForWhatWasAskedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Latency: 10 * time.Millisecond, Status: 503, Times: 8})
		originals := w.operations(100)
		start := time.Now()
		observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals))
		if took := time.Since(start); took < time.Second || took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		if n := codes(observations)[""]; n != 100 {
			t.Errorf("%v", codes(observations))
		}
	})
}

// A damaged record is a 503 too, and holds up nobody.
func TestBatchIsNotSlowedDownByADamagedRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: 503, Body: []byte(`{"error":"invocation_record_invalid"}`), Times: 5})
		originals := w.operations(20)
		start := time.Now()
		observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals))
		if diff := cmp.Diff(map[feedback.Code]int{"": 15, feedback.CodeInvocationRecordInvalid: 5}, codes(observations)); diff != "" || time.Since(start) > 0 {
			t.Errorf("after %v (-want +got):\n%s", time.Since(start), diff)
		}
	})
}

// A Hub that throttles the negotiation too is waited for.
func TestBatchWaitsForAThrottledNegotiation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := w.operations(50)
		w.hub.Inject(hubtest.Fault{Status: 429, Header: http.Header{"Retry-After": {"2"}}, Times: -1})
		time.AfterFunc(7*time.Second, w.hub.ClearFaults)
		if n := codes(slices.Collect(w.transport.InspectInvocations(t.Context(), originals))); n[""] != 50 {
			t.Errorf("%v", n)
		}
		if n := w.wire.count("capabilities"); n != 5 {
			t.Errorf("%d negotiations", n)
		}
	})
}

// A Hub that never answers anything else is given up after 8 pauses, however
// many entries there are.
func TestBatchGivesUpOnAHub(t *testing.T) {
	t.Parallel()
	for _, on := range []hubtest.RequestKind{hubtest.ReceiptRequest, hubtest.CapabilitiesRequest} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			originals := w.operations(500)
			w.hub.Inject(hubtest.Fault{On: on, Status: 503, Header: http.Header{"Retry-After": {"60"}}, Times: -1})
			start := time.Now()
			observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals))
			eachOnce(t, originals, observations)
			if n := codes(observations)[feedback.CodeAgentTransportUnavailable]; n != 500 {
				t.Errorf("%v", codes(observations))
			}
			if took := time.Since(start); took < 8*30*time.Second || took > 8*31*time.Second {
				t.Errorf("took %v", took)
			}
			// Each time 8 ask; some that begin after the first failure negotiate.
			if n := len(w.wire.requests()); n > 9*(1+2*8) {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// Requests for one entry of a binding are requests for all of them.
func TestBatchSaysWhatLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault hubtest.Fault
		code  feedback.Code
		end   time.Duration
	}{
		"an old Hub":            {hubtest.Fault{On: hubtest.CapabilitiesRequest, Status: 404, Times: -1}, feedback.CodeAgentSchemaUnsupported, 0},
		"away":                  {hubtest.Fault{Drop: hubtest.DropRequest, Times: -1}, feedback.CodeAgentTransportUnavailable, 0},
		"cancelled in a pause":  {hubtest.Fault{On: hubtest.ReceiptRequest, Status: 503, Header: http.Header{"Retry-After": {"20"}}, Times: -1}, feedback.CodeAgentRequestCancelled, 5 * time.Second},
		"cancelled at a silent": {hubtest.Fault{On: hubtest.CapabilitiesRequest, Latency: time.Hour, Times: -1}, feedback.CodeAgentRequestCancelled, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.hub.Inject(test.fault)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.end > 0 {
				time.AfterFunc(test.end, cancel)
			}
			for o := range w.transport.InspectInvocations(ctx, w.operations(20)) {
				if failure := w.failure(o.Err, test.code); failure.Feedback.Dispatch != feedback.DispatchAttempted {
					t.Errorf("%s: %+v", name, failure.Feedback)
				}
			}
		})
	}
}

// slowStore is a store whose reads of a connection take their time, and fail
// when bad says so.
type slowStore struct {
	registry.Store
	time time.Duration
	bad  func() bool
}

func (s *slowStore) Connection(ctx context.Context, key string) (registry.Connection, error) {
	time.Sleep(s.time)
	if s.bad != nil && s.bad() {
		return registry.Connection{}, errors.New("bad")
	}
	return s.Store.Connection(ctx, key)
}

// A store that fails costs the entry that it failed for.
func TestBatchSurvivesAStoreFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := w.operations(50)
		var reads atomic.Int64
		store := &slowStore{Store: w.store, bad: func() bool { return reads.Add(1) == 1 }}
		observations := slices.Collect(w.newTransport(store).InspectInvocations(t.Context(), originals))
		eachOnce(t, originals, observations)
		if diff := cmp.Diff(map[feedback.Code]int{"": 49, feedback.CodeUnknownFailure: 1}, codes(observations)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// How long a negotiation counts does not depend on when the host takes its
// answers.
func TestBatchOfASlowLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := append(w.atOtherHub(w.operations(100)), w.original)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Latency: time.Second, Times: -1})
		var negotiations atomic.Int64
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "b.example.com" && nameOf(r) == "capabilities" {
				negotiations.Add(1)
				time.Sleep(3 * time.Second)
			}
			return base.RoundTrip(r)
		})
		busy := sync.OnceFunc(func() { time.Sleep(61 * time.Second) })
		for range w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(64)) {
			busy()
		}
		if n := negotiations.Load(); n > 2 {
			t.Errorf("%d negotiations", n)
		}
	})
}

// A refresh token that was refused is not sent again, however many sessions
// there are.
func TestBatchOfManySessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.ExpireAccess(w.session.ID)
	w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Status: 400, Times: -1})
	originals := []host.Original{w.original}
	for n := range 3000 {
		original := w.original
		original.ExpectedBinding.SessionID = fmt.Sprintf("%08x-3333-4333-8333-333333333333", n)
		originals = append(originals, original)
	}
	eachOnce(t, originals, slices.Collect(w.transport.InspectInvocations(t.Context(), originals)))
	w.refused(feedback.CodeAgentAuthorizationUnavailable)
	if n := w.wire.count("refresh"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

// What was on its way when a binding was given up is not a reason to begin
// again.
func TestBatchGivesUpForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		base := w.wire.base
		var receipts, negotiations atomic.Int64
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if nameOf(r) != "capabilities" {
				time.Sleep(time.Duration(receipts.Add(1)) * time.Second)
				return status(500), nil
			}
			if negotiations.Add(1) > 1 {
				return status(404), nil
			}
			return base.RoundTrip(r)
		})
		originals := w.operations(20)
		eachOnce(t, originals, slices.Collect(w.transport.InspectInvocations(t.Context(), originals)))
		if n := negotiations.Load(); n != 2 {
			t.Errorf("%d negotiations", n)
		}
	})
}

// An answer that would have been asked for again is none once the context has
// ended, though the loop takes it later.
func TestBatchContextEndsInTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Skip: 1, Latency: 100 * time.Millisecond, Status: 503, Times: -1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		originals := w.operations(8)
		var observations []host.Observation
		for o := range w.transport.InspectInvocations(ctx, originals) {
			if observations = append(observations, o); o.Err != nil {
				w.failure(o.Err, feedback.CodeAgentRequestCancelled)
			}
			time.Sleep(time.Second)
			cancel()
		}
		eachOnce(t, originals, observations)
	})
}

// The list belongs to the caller again as soon as something is yielded.
func TestBatchKeepsItsList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := w.original
	bad.InvocationID = "not one"
	originals := append([]host.Original{bad}, w.operations(20)...)
	kept := slices.Clone(originals)
	var observations []host.Observation
	for o := range w.transport.InspectInvocations(t.Context(), originals) {
		clear(originals)
		observations = append(observations, o)
	}
	eachOnce(t, kept, observations)
}

// There is a log record for every repeat, that of a negotiation too.
func TestBatchLogsRepeats(t *testing.T) {
	t.Parallel()
	for _, fault := range []hubtest.Fault{
		{Drop: hubtest.DropRequest, Times: -1},
		{On: hubtest.CapabilitiesRequest, Status: 503, Times: 3},
		{On: hubtest.ReceiptRequest, Status: 500, Times: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var text bytes.Buffer
			w.transport = w.newTransport(w.store, agentclient.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
			w.hub.Inject(fault)
			for range w.transport.InspectInvocations(t.Context(), []host.Original{w.original}) {
			}
			want := max(fault.Times, 2)
			if got := strings.Count(text.String(), "repeats"); got != want {
				t.Errorf("%+v: %d records of repeats, want %d:\n%s", fault, got, want, &text)
			}
		})
	}
}

// A push that comes behind other answers is heard before anything else is
// asked, though the loop takes its time.
func TestBatchPausesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		base := w.wire.base
		var asked, tooSoon atomic.Int64
		var pushed atomic.Pointer[time.Time]
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if nameOf(r) != "receipt" {
				return base.RoundTrip(r)
			}
			if at := pushed.Load(); at != nil && time.Since(*at) < 20*time.Second {
				tooSoon.Add(1)
			}
			n := asked.Add(1)
			time.Sleep(time.Duration(n) * time.Millisecond)
			if n == 8 {
				pushed.Store(new(time.Now()))
				return status(429, "Retry-After", "20"), nil
			}
			return base.RoundTrip(r)
		})
		for range w.transport.InspectInvocations(t.Context(), w.operations(40)) {
			time.Sleep(100 * time.Millisecond)
		}
		if n := tooSoon.Load(); n > 0 {
			t.Errorf("%d receipts were asked for in the pause", n)
		}
	})
}

// How long a pause is does not depend on when the loop hears of it.
func TestBatchPauseOfASlowLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		base := w.wire.base
		var n atomic.Int64
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if nameOf(r) == "receipt" && n.Add(1) == 2 {
				time.Sleep(time.Millisecond)
				return status(429, "Retry-After", "5"), nil
			}
			return base.RoundTrip(r)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
		defer cancel()
		busy := sync.OnceFunc(func() { time.Sleep(10 * time.Second) }) // the 5 s are over then
		for o := range w.transport.InspectInvocations(ctx, w.operations(3), host.WithConcurrency(2)) {
			w.must(o.Err)
			busy()
		}
	})
}

// A Hub is given up without repeats, too.
func TestBatchWithoutRepeatsGivesUpOnAHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.transport = w.newTransport(w.store, agentclient.WithMaxRetries(0))
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: 503, Times: -1})
		originals := w.operations(100)
		start := time.Now()
		eachOnce(t, originals, slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(1))))
		if n, took := w.wire.count("receipt"), time.Since(start); n != 9 || took > 3*time.Minute {
			t.Errorf("%d receipts, %v", n, took)
		}
	})
}

// A store failure ends no wait that the Hub asked for.
func TestBatchStoreFailureEndsNoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := w.operations(2)
		var asked []time.Time
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, originals[0].InvocationID) {
				if asked = append(asked, time.Now()); len(asked) == 1 {
					return status(502, "Retry-After", "4"), nil
				}
			}
			return base.RoundTrip(r)
		})
		reads := 0 // the fifth is that of the second negotiation
		store := &slowStore{Store: w.store, bad: func() bool { reads++; return reads == 5 }}
		eachOnce(t, originals, slices.Collect(w.newTransport(store).InspectInvocations(t.Context(), originals, host.WithConcurrency(1))))
		if len(asked) != 2 || asked[1].Sub(asked[0]) < 4*time.Second {
			t.Errorf("asked at %v", asked)
		}
	})
}

// atOtherClient gives the original as that of another client at the same Hub.
func (w *world) atOtherClient(live time.Duration) host.Original {
	w.t.Helper()
	connection, err := w.store.Register(context.Background(), registry.Descriptor{HubURL: hubURL, ClientAppID: "other-app", Workspace: hubtest.DefaultRoute})
	w.must(err)
	login := credentialsOf(w.session)
	login.ClientAppID, login.AccessExpiresAt = "other-app", time.Now().Add(live)
	w.must(w.store.SaveCredentials(context.Background(), connection.Key, login))
	other, err := w.transport.Capture(context.Background(), connection.Key, w.original.InvocationID)
	w.must(err)
	return other
}

// What a binding's negotiation may have sent is told, while it is on its way.
func TestBatchSaysWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := []host.Original{w.original, w.atOtherClient(time.Hour)}
		var n atomic.Int64
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if n.Add(1) == 1 {
				time.Sleep(time.Millisecond)
				return status(429, "Retry-After", "30"), nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for o := range w.transport.InspectInvocations(ctx, originals) {
			if failure := w.failure(o.Err, feedback.CodeAgentTransportUnavailable); failure.Feedback.Dispatch != feedback.DispatchAttempted {
				t.Errorf("%s: %+v", o.Original.ExpectedBinding.ClientAppID, failure.Feedback)
			}
		}
	})
}

// A failed renewal is told of its own session alone.
func TestBatchKeepsSessionsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := []host.Original{w.atOtherClient(time.Second), w.original}
		w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Status: 503, Header: http.Header{"Retry-After": {"30"}}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		observations := slices.Collect(w.transport.InspectInvocations(ctx, originals, host.WithConcurrency(1)))
		eachOnce(t, originals, observations)
		for _, o := range observations {
			if (o.Err == nil) != (o.Original == w.original) {
				t.Errorf("%s: %v", o.Original.ExpectedBinding.ClientAppID, o.Err)
			}
		}
	})
}

// Each Hub has a backoff of its own.
func TestBatchBacksOffByHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := slices.Concat(w.atOtherHub(w.operations(1)), w.operations(300))
		base := w.wire.base
		start := time.Now()
		var last time.Duration
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "b.example.com" {
				last = time.Since(start)
				return status(503), nil
			}
			time.Sleep(500 * time.Millisecond)
			return base.RoundTrip(r)
		})
		eachOnce(t, originals, slices.Collect(w.transport.InspectInvocations(t.Context(), originals)))
		if want := (1 + 2 + 4 + 8 + 16 + 3*30) * time.Second; last < want || last > want+10*time.Second {
			t.Errorf("given up after %v, want about %v", last, want)
		}
	})
}

// A push whose answer was withheld is one.
func TestBatchHearsAWithheldPush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := w.operations(20)
		var bad atomic.Bool
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, originals[0].InvocationID) {
				bad.Store(true)
				return status(429, "Retry-After", "20"), nil
			}
			return base.RoundTrip(r)
		})
		store := &slowStore{Store: w.store, bad: func() bool { return bad.CompareAndSwap(true, false) }}
		start := time.Now()
		observations := slices.Collect(w.newTransport(store).InspectInvocations(t.Context(), originals, host.WithConcurrency(1)))
		if diff := cmp.Diff(map[feedback.Code]int{"": 19, feedback.CodeUnknownFailure: 1}, codes(observations)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if took := time.Since(start); took < 20*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A Hub that is not asked any more holds up nobody.
func TestBatchPausesForNoHubThatIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := slices.Concat(w.atOtherHub(w.operations(2)), w.operations(100))
		base := w.wire.base
		var n atomic.Int64
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			switch {
			case nameOf(r) == "refresh":
				return status(400), nil
			case r.URL.Host == "b.example.com" && nameOf(r) == "receipt":
				if n.Add(1) == 1 {
					return status(401), nil
				}
				time.Sleep(time.Second)
				return status(429, "Retry-After", "30"), nil
			case r.URL.Host != "b.example.com":
				time.Sleep(400 * time.Millisecond)
			}
			return base.RoundTrip(r)
		})
		start := time.Now()
		eachOnce(t, originals, slices.Collect(w.transport.InspectInvocations(t.Context(), originals)))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// With a store that takes its time there is one negotiation a minute, still.
func TestBatchNegotiatesOnceWithASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			time.Sleep(rand.N(time.Second))
			return base.RoundTrip(r)
		})
		originals := w.operations(4500)
		for range w.newTransport(&slowStore{Store: w.store, time: 250 * time.Millisecond}).InspectInvocations(t.Context(), originals, host.WithConcurrency(64)) {
		}
		if n := w.wire.count("capabilities"); n > 2 {
			t.Errorf("%d negotiations", n)
		}
	})
}

// Failures with a push between them are not in a row.
func TestBatchCountsFailuresInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := 0
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			switch n++; {
			case n > 5:
				return base.RoundTrip(r)
			case n%2 == 1:
				return status(500), nil
			}
			return status(429, "Retry-After", "1"), nil
		})
		for o := range w.transport.InspectInvocations(t.Context(), []host.Original{w.original}) {
			w.must(o.Err)
		}
	})
}

// What is pushed back now and then is not given up.
func TestBatchCountsPushesInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		base := w.wire.base
		n := 0
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if nameOf(r) == "receipt" {
				if n++; n%2 == 1 {
					return status(503), nil
				}
			}
			return base.RoundTrip(r)
		})
		originals := w.operations(30)
		observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(1)))
		eachOnce(t, originals, observations)
		if got := codes(observations)[""]; got != 30 {
			t.Errorf("%v", codes(observations))
		}
	})
}

// Neither is a Hub whose negotiation fails now and then.
func TestBatchCountsNegotiationsInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		base := w.wire.base
		negotiations, seen := 0, map[string]bool{}
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			switch {
			case nameOf(r) == "capabilities":
				if negotiations++; negotiations%2 == 1 {
					return status(500), nil
				}
			case !seen[r.URL.Path]:
				seen[r.URL.Path] = true
				return status(500), nil // so the next one negotiates again
			}
			return base.RoundTrip(r)
		})
		originals := w.operations(10)
		observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(1)))
		eachOnce(t, originals, observations)
		if got := codes(observations)[""]; got != 10 || negotiations < 2*3 {
			t.Errorf("%v, %d negotiations", codes(observations), negotiations)
		}
	})
}

// A 403 may be one tool's, and is the answer to its entry alone.
func TestBatchOfAToolThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: 403})
		originals := w.operations(20)
		observations := slices.Collect(w.transport.InspectInvocations(t.Context(), originals, host.WithConcurrency(1)))
		eachOnce(t, originals, observations)
		if diff := cmp.Diff(map[feedback.Code]int{"": 19, feedback.CodeAgentAuthorizationUnavailable: 1}, codes(observations)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Sessions that nothing is under way with are forgotten.
func TestSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	originals := make([]host.Original, 2*host.MaxSessions)
	for n := range originals {
		originals[n] = w.original
		originals[n].ExpectedBinding.SessionID = fmt.Sprintf("%08x-3333-4333-8333-333333333333", n/2)
	}
	for _, original := range originals {
		w.original = original
		w.refused(feedback.CodeAgentBindingChanged)
	}
	for range w.transport.InspectInvocations(t.Context(), originals) {
	}
	for n := range 2 * host.MaxSessions {
		w.original.ExpectedBinding.SessionID = fmt.Sprintf("%08x-4444-4444-8444-444444444444", n)
		w.refused(feedback.CodeAgentBindingChanged)
	}
	if n := w.transport.Sessions(); n > host.MaxSessions {
		t.Errorf("%d sessions are remembered", n)
	}
}
