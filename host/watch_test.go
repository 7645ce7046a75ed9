package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// governed submits an operation that waits for approval, as the original.
func (w *world) governed() {
	w.t.Helper()
	id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.GovernedTool})
	w.must(err)
	w.original.InvocationID = id
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.governed()
		id := w.original.InvocationID
		w.hub.Plan(hubtest.Hanging())
		for after, act := range map[time.Duration]func() error{
			time.Minute:      func() error { return w.hub.Approve(id) },
			5 * time.Minute:  func() error { return w.hub.Resume(id) },
			10 * time.Minute: func() error { return w.hub.Finish(id, hubtest.Executed("done")) },
		} {
			time.AfterFunc(after, func() { w.must(act()) })
		}
		start := time.Now()
		var progress []receipt.Progress
		for observed, err := range w.transport.WatchInvocation(t.Context(), w.original) {
			w.must(err)
			progress = append(progress, observed.Progress())
		}
		want := []receipt.Progress{receipt.ProgressAwaitingApproval, receipt.ProgressApprovedNotDispatched, receipt.ProgressInFlight, receipt.ProgressExecuted}
		if diff := cmp.Diff(want, progress); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if took := time.Since(start); took < 10*time.Minute || took > 10*time.Minute+30*time.Second {
			t.Errorf("took %v", took)
		}
		if n := w.wire.count("receipt"); n < 20 || n > 60 {
			t.Errorf("looked %d times in ten minutes", n)
		}
		if n := w.hub.Requests().Resume; n != 0 {
			t.Errorf("%d resumes were sent", n)
		}
	})
}

func TestWatchIntervals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts           []host.WatchOption
		first, longest time.Duration
	}{
		"default": {nil, time.Second, 30 * time.Second},
		"given":   {[]host.WatchOption{host.WithInterval(2*time.Second, 5*time.Second)}, 2 * time.Second, 5 * time.Second},
		"huge":    {[]host.WatchOption{host.WithInterval(time.Second, 1<<62)}, time.Second, 1 << 62},
		"largest": {[]host.WatchOption{host.WithInterval(time.Second, math.MaxInt64)}, time.Second, math.MaxInt64},
		"odd":     {[]host.WatchOption{host.WithInterval(time.Minute, 7*time.Minute+1)}, time.Minute, 7*time.Minute + 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.governed()
			var looks []time.Time
			w.wire.before = on("receipt", func() { looks = append(looks, time.Now()) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			last := error(nil)
			for _, err := range w.transport.WatchInvocation(ctx, w.original, test.opts...) {
				last = err
			}
			if !errors.Is(last, context.DeadlineExceeded) || feedback.CodeOf(last) != feedback.CodeAgentRequestTimeout {
				t.Errorf("%s: the last thing is %v", name, last)
			}
			interval := test.first
			for n := 1; n < len(looks); n++ {
				waited := looks[n].Sub(looks[n-1])
				if waited < max(interval/2, test.first) || waited > min(interval+interval/2, test.longest) {
					t.Errorf("%s: wait %d was %v, about %v is due", name, n, waited, interval)
				}
				interval = min(2*interval, test.longest)
			}
			if len(looks) < 5 {
				t.Errorf("%s: %d looks", name, len(looks))
			}
		})
	}
}

func TestWatchAsOftenAsCanBe(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.governed()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			looks := 0
			w.wire.before = on("receipt", func() {
				if looks++; looks == 5 {
					cancel()
				}
			})
			for range w.transport.WatchInvocation(ctx, w.original, host.WithInterval(1, longest)) {
			}
			if looks != 5 {
				t.Errorf("%d looks", looks)
			}
		})
	}
}

func TestWatchWaitsOutTransportFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault    hubtest.Fault
		opts     []host.WatchOption
		within   time.Duration // the deadline of the context
		code     feedback.Code
		min, max time.Duration
	}{
		"a minute of 503":     {fault: hubtest.Fault{Status: 503}, max: 2 * time.Minute},
		"lost for a minute":   {fault: hubtest.Fault{Drop: hubtest.DropRequest}, max: 2 * time.Minute},
		"a silent minute":     {fault: hubtest.Fault{Latency: time.Hour}, max: 2 * time.Minute},
		"no patience":         {fault: hubtest.Fault{Status: 503}, opts: []host.WatchOption{host.WithPatience(0)}, code: feedback.CodeAgentTransportUnavailable, max: 2 * time.Second},
		"little patience":     {fault: hubtest.Fault{Status: 503}, opts: []host.WatchOption{host.WithPatience(20 * time.Second)}, code: feedback.CodeAgentTransportUnavailable, min: 20 * time.Second, max: 50 * time.Second},
		"seldom, impatient":   {fault: hubtest.Fault{Status: 503}, opts: []host.WatchOption{host.WithInterval(time.Hour, time.Hour), host.WithPatience(20 * time.Second)}, code: feedback.CodeAgentTransportUnavailable, min: 20 * time.Second, max: 25 * time.Second},
		"a long Retry-After":  {fault: hubtest.Fault{Status: 503, Header: http.Header{"Retry-After": {"45"}}}, max: 3 * time.Minute, min: time.Minute},
		"longer than it has":  {fault: hubtest.Fault{Status: 503, Header: http.Header{"Retry-After": {"3600"}}}, code: feedback.CodeAgentTransportUnavailable, max: 2 * time.Second},
		"no time for another": {fault: hubtest.Fault{Status: 503, Header: http.Header{"Retry-After": {"45"}}}, within: 40 * time.Second, code: feedback.CodeAgentTransportUnavailable, max: time.Second},
		"down to the end":     {fault: hubtest.Fault{Drop: hubtest.DropRequest}, within: 20 * time.Second, code: feedback.CodeAgentTransportUnavailable, max: 20 * time.Second},
		"not a transport one": {fault: hubtest.Fault{Status: 404, Body: []byte(`{"error":"invocation_not_found"}`)}, code: feedback.CodeInvocationNotFound, max: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				test.fault.On, test.fault.Times = hubtest.ReceiptRequest, -1
				w.hub.Inject(test.fault)
				time.AfterFunc(time.Minute, w.hub.ClearFaults)
				ctx := t.Context()
				if test.within > 0 {
					limited, cancel := context.WithTimeout(ctx, test.within)
					defer cancel()
					ctx = limited
				}
				start := time.Now()
				observations, last := 0, error(nil)
				for observed, err := range w.transport.WatchInvocation(ctx, w.original, test.opts...) {
					if last != nil {
						t.Error("something came after an error")
					}
					if last = err; err == nil && observed.Settled() {
						observations++
					}
				}
				if feedback.CodeOf(last) != test.code || (test.code == "") != (observations == 1) {
					t.Errorf("%d observations, then %v", observations, last)
				}
				if took := time.Since(start); took < test.min || took > test.max {
					t.Errorf("took %v, want %v to %v", took, test.min, test.max)
				}
			})
		})
	}
}

// Of answers that come in the wrong order, the older one is no news, nor the
// end.
func TestWatchIgnoresOlderObservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answer := func(second int, result, source, dispatch, journal string) string {
			return w.receipt(time.Date(2026, 9, 15, 12, 0, second, 0, time.UTC), result, source, dispatch, journal)
		}
		executed := w.executed()
		answers := []string{
			answer(10, "null", "none", "unknown", "absent"),
			answer(5, executed, "journal", "attempted", "completed"),     // older, and settled
			answer(11, "null", "none", "unknown", "absent"),              // the same
			answer(12, "null", "none", "attempted", "dispatching"),       // news
			answer(12, "null", "none", "attempted", "response_recorded"), // news of the same moment
			answer(11, "null", "none", "unknown", "absent"),              // older
			answer(13, executed, "journal", "attempted", "completed"),
		}
		n := 0
		base := w.wire.base
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if nameOf(r) != "receipt" {
				return base.RoundTrip(r)
			}
			n++
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answers[n-1]))}, nil
		})
		var journals []receipt.JournalState
		for observed, err := range w.transport.WatchInvocation(t.Context(), w.original) {
			w.must(err)
			journals = append(journals, observed.JournalState)
		}
		want := []receipt.JournalState{receipt.JournalAbsent, receipt.JournalDispatching, receipt.JournalResponseRecorded, receipt.JournalCompleted}
		if diff := cmp.Diff(want, journals); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n != len(answers) {
			t.Errorf("%d looks", n)
		}
	})
}

// A clock of the Hub that was set back, or a node that ran ahead and answered
// once, does not blind a watch.
func TestWatchOfAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	const (
		flying  = receipt.JournalDispatching
		written = receipt.JournalResponseRecorded
		done    = receipt.JournalCompleted // settled
	)
	type look struct {
		minute, second int
		journal        receipt.JournalState
	}
	for name, test := range map[string]struct {
		looks []look
		want  []receipt.JournalState
	}{
		"set back by an hour":                {[]look{{60, 0, flying}, {0, 1, flying}, {0, 2, written}, {0, 3, done}}, []receipt.JournalState{flying, written, done}},
		"a node ran ahead":                   {[]look{{60, 0, flying}, {0, 1, done}, {0, 2, done}}, []receipt.JournalState{flying, done}},
		"set back and stopped":               {[]look{{60, 0, flying}, {0, 1, written}, {0, 1, done}, {0, 1, done}}, []receipt.JournalState{flying, done}},
		"settled by the node that is behind": {[]look{{60, 0, flying}, {0, 2, done}, {60, 3, flying}, {0, 1, done}}, []receipt.JournalState{flying, done}},
		"only the order is wrong":            {[]look{{0, 9, flying}, {0, 5, written}, {0, 4, flying}, {0, 10, flying}, {0, 8, written}, {0, 11, flying}, {0, 9, written}, {0, 12, done}}, []receipt.JournalState{flying, done}},
		"settled once, in the wrong order":   {[]look{{0, 9, flying}, {0, 5, done}, {0, 10, written}, {0, 11, done}}, []receipt.JournalState{flying, written, done}},
		"set back twice":                     {[]look{{60, 0, flying}, {30, 1, written}, {30, 2, written}, {0, 1, flying}, {0, 2, done}}, []receipt.JournalState{flying, written, done}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				n := 0
				base := w.wire.base
				w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
					if nameOf(r) != "receipt" {
						return base.RoundTrip(r)
					}
					if n == len(test.looks) || t.Failed() {
						t.Error("the watch does not end")
						return nil, io.ErrClosedPipe
					}
					look := test.looks[n]
					n++
					result, source := "null", "none"
					if look.journal == done {
						result, source = w.executed(), "journal"
					}
					at := time.Date(2026, 9, 15, 12, look.minute, look.second, 0, time.UTC)
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(w.receipt(at, result, source, "attempted", string(look.journal))))}, nil
				})
				var journals []receipt.JournalState
				for observed, err := range w.transport.WatchInvocation(t.Context(), w.original) {
					w.must(err)
					journals = append(journals, observed.JournalState)
				}
				if diff := cmp.Diff(test.want, journals); diff != "" || n != len(test.looks) {
					t.Errorf("%d looks of %d (-want +got):\n%s", n, len(test.looks), diff)
				}
			})
		})
	}
}

// receipt is the JSON of a receipt of the original.
func (w *world) receipt(at time.Time, result, source, dispatch, journal string) string {
	return fmt.Sprintf(`{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,"invocation_id":"%s",`+
		`"agent_run_id":"33333333-3333-4333-8333-333333333333","route":"%s","tool":"t","observed_at":"%s","result":%s,"result_source":"%s",`+
		`"dispatch_state":"%s","approval":{"status":"none"},"journal_state":"%s"}`, w.original.InvocationID, hubtest.DefaultRoute, at.Format(time.RFC3339), result, source, dispatch, journal)
}

// executed is the result of an original that was executed.
func (w *world) executed() string {
	return `{"schema_version":"bailing.agent-tool-invocation.v1","invocation_id":"` + w.original.InvocationID + `","route":"` + hubtest.DefaultRoute + `","tool":"t","state":"executed","ok":true,"auto_retry_allowed":false,"text":""}`
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.governed()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		start := time.Now()
		var last error
		for _, err := range w.transport.WatchInvocation(ctx, w.original) {
			last = err
		}
		failure := w.failure(last, feedback.CodeAgentRequestCancelled)
		if time.Since(start) != 10*time.Second || failure.Feedback.InvocationID != w.original.InvocationID ||
			!strings.Contains(failure.Feedback.Message, "saw last") {
			t.Errorf("%v after %v", failure.Feedback, time.Since(start))
		}
		for range w.transport.WatchInvocation(t.Context(), w.original) {
			break
		}
		sent := len(w.wire.requests())
		time.Sleep(time.Hour)
		if len(w.wire.requests()) != sent {
			t.Error("it looks after the loop was left")
		}
	})
}

func TestWatchArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var none context.Context
	bad := w.original
	bad.Workspace = ""
	for name, seq := range map[string]func(func(*receipt.Receipt, error) bool){
		"nil option":        w.transport.WatchInvocation(t.Context(), w.original, nil),
		"interval 0":        w.transport.WatchInvocation(t.Context(), w.original, host.WithInterval(0, time.Second)),
		"wrong order":       w.transport.WatchInvocation(t.Context(), w.original, host.WithInterval(2, 1)),
		"negative patience": w.transport.WatchInvocation(t.Context(), w.original, host.WithPatience(-1)),
		"nil context":       w.transport.WatchInvocation(none, w.original),
		"bad original":      w.transport.WatchInvocation(t.Context(), bad),
	} {
		n := 0
		for observed, err := range seq {
			n++
			if observed != nil || !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("%s: %v, %v", name, observed, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d things were yielded", name, n)
		}
	}
	if sent := w.wire.requests(); len(sent) != 0 {
		t.Errorf("sent: %v", sent)
	}
}

func ExampleTransport_WatchInvocation() {
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	store, key := loggedIn(ctx, "https://hub.example.com", session)
	transport, err := host.New(store, agentclient.WithHTTPClient(&http.Client{Transport: hub.Transport()}))
	if err != nil {
		panic(err)
	}
	id, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.GovernedTool})
	if err != nil {
		panic(err)
	}
	original, err := transport.Capture(ctx, key, id)
	if err != nil {
		panic(err)
	}

	tell := func(sentence string) {
		fmt.Println(sentence)
		_ = hub.Deny(id) // a person says no, meanwhile
	}
	if err := follow(ctx, transport, original, tell, host.WithInterval(time.Millisecond, time.Millisecond)); err != nil {
		panic(err)
	}
	// Output:
	// The operation waits for a person's approval; by the evidence it has not been dispatched.
	// Approval of the operation was denied; by the evidence it stopped before it was dispatched.
}

// follow tells of an operation until it is settled, or for ten minutes.
func follow(ctx context.Context, transport *host.Transport, original host.Original, tell func(string), opts ...host.WatchOption) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for observed, err := range transport.WatchInvocation(ctx, original, opts...) {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil // what was told last stands; look again another time
		}
		if err != nil {
			return err
		}
		tell(observed.Progress().Sentence())
	}
	return nil // it is settled
}
