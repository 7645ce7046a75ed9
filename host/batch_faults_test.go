package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// oneBadRead fails at its first read.
type oneBadRead struct {
	registry.Store
	reads atomic.Int64
}

func (s *oneBadRead) Connection(ctx context.Context, key string) (registry.Connection, error) {
	if s.reads.Add(1) == 1 {
		return registry.Connection{}, errors.New("once")
	}
	return s.Store.Connection(ctx, key)
}

// A store that fails costs the entry that it failed for.
func TestBatchSurvivesAStoreFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := w.operations(50)
		observations := slices.Collect(w.newTransport(&oneBadRead{Store: w.store}).InspectInvocations(t.Context(), originals))
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
