package host_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// more submits n operations of a tool and gives their originals.
func (w *world) more(n int, tool string) (originals []host.Original) {
	w.t.Helper()
	for range n {
		id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: tool})
		w.must(err)
		original := w.original
		original.InvocationID = id
		originals = append(originals, original)
	}
	return originals
}

// What is new of any is told, each settled one once, and then it is not asked
// about any more.
func TestWatchMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		waiting := w.more(3, hubtest.GovernedTool)
		originals := append(w.more(2, hubtest.WriteTool), waiting...)
		for i, o := range waiting {
			time.AfterFunc(time.Duration(i+1)*10*time.Minute, func() {
				w.must(errors.Join(w.hub.Approve(o.InvocationID), w.hub.Resume(o.InvocationID)))
			})
		}
		before := w.hub.Requests()
		told := map[string][]receipt.Progress{}
		start := time.Now()
		for o := range w.transport.WatchInvocations(t.Context(), originals) {
			w.must(o.Err)
			if last := told[o.Original.InvocationID]; slices.Contains(last, receipt.ProgressExecuted) {
				t.Errorf("%s is told again", o.Original.InvocationID)
			}
			told[o.Original.InvocationID] = append(told[o.Original.InvocationID], o.Receipt.Progress())
		}
		for i, o := range originals {
			want := []receipt.Progress{receipt.ProgressExecuted}
			if i >= 2 {
				want = []receipt.Progress{receipt.ProgressAwaitingApproval, receipt.ProgressExecuted}
			}
			if diff := cmp.Diff(want, told[o.InvocationID]); diff != "" {
				t.Errorf("%d (-want +got):\n%s", i, diff)
			}
		}
		if took := time.Since(start); took < 30*time.Minute || took > 30*time.Minute+45*time.Second {
			t.Errorf("took %v", took)
		}
		if now := w.hub.Requests(); now.Submit != before.Submit || now.Resume+now.Other != before.Resume+before.Other || now.Receipt-before.Receipt > 300 {
			t.Errorf("watching sent %+v", now)
		}
	})
}

// Many that are watched together cost one negotiation in each round, and the
// rounds of those that nothing is new of come together.
func TestWatchManyInRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 60
		originals := w.more(n, hubtest.GovernedTool)
		for i := range 10 { // something new of one, which goes its own way for a while
			time.AfterFunc(time.Duration(i+1)*time.Minute, func() { w.must(w.hub.Approve(originals[i].InvocationID)) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		before := w.hub.Requests()
		news, ended := 0, 0
		for o := range w.transport.WatchInvocations(ctx, originals, host.WithConcurrency(16)) {
			if o.Err != nil {
				w.failure(o.Err, feedback.CodeAgentRequestTimeout)
				if !strings.Contains(o.Err.Error(), "What it saw last is the latest that is known") {
					t.Errorf("the end is told as %v", o.Err)
				}
				ended++
				continue
			}
			news++
		}
		if news != n+10 || ended != n {
			t.Errorf("%d news, %d ends", news, ended)
		}
		now := w.hub.Requests()
		looks, negotiations := now.Receipt-before.Receipt, now.Capabilities-before.Capabilities
		if each := looks / n; each < 30 || each > 130 {
			t.Errorf("each was looked at %d times in half an hour", each)
		}
		if rounds := negotiations; rounds > 200 || looks/rounds < n/3 {
			t.Errorf("%d looks cost %d negotiations", looks, negotiations)
		}
	})
}

// Each ends by itself: what cannot be asked about is told once, with its reason.
func TestWatchManyFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bad, unknown, another := w.original, w.original, w.original
		bad.InvocationID = "0"
		unknown.InvocationID = strings.Repeat("b", 64)
		another.ExpectedBinding.SessionID = "22222222-2222-4222-8222-222222222222"
		waiting := w.more(1, hubtest.GovernedTool)[0]
		time.AfterFunc(time.Hour, func() {
			w.must(errors.Join(w.hub.Approve(waiting.InvocationID), w.hub.Resume(waiting.InvocationID)))
		})
		var got []string
		for o := range w.transport.WatchInvocations(t.Context(), []host.Original{bad, unknown, another, waiting, w.original, w.original}) {
			if o.Err == nil && !o.Receipt.Settled() {
				continue
			}
			got = append(got, string(feedback.CodeOf(o.Err)))
		}
		slices.Sort(got)
		want := []string{"", "", "", "agent_binding_changed", "invalid_request", "invocation_not_found"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Transport failures are waited out for all, a Hub's Retry-After is kept to by
// all, and patience ends.
func TestWatchManyWaitsOutTransportFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault    hubtest.Fault
		opts     []host.WatchOption
		code     feedback.Code
		min, max time.Duration
	}{
		"a minute of 503":    {fault: hubtest.Fault{Status: 503}, min: time.Minute, max: 5 * time.Minute},
		"lost for a minute":  {fault: hubtest.Fault{Drop: hubtest.DropRequest}, min: time.Minute, max: 2 * time.Minute},
		"a long Retry-After": {fault: hubtest.Fault{Status: 429, Header: http.Header{"Retry-After": {"45"}}}, min: time.Minute, max: 5 * time.Minute},
		"no patience":        {fault: hubtest.Fault{Drop: hubtest.DropRequest}, opts: []host.WatchOption{host.WithPatience(0)}, code: feedback.CodeAgentTransportUnavailable, max: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				originals := w.more(20, hubtest.WriteTool)
				test.fault.Times = -1
				test.fault.On = hubtest.ReceiptRequest
				w.hub.Inject(test.fault)
				time.AfterFunc(time.Minute, w.hub.ClearFaults)
				start, n := time.Now(), 0
				for o := range w.transport.WatchInvocations(t.Context(), originals, test.opts...) {
					n++
					if feedback.CodeOf(o.Err) != test.code {
						t.Errorf("%v", o.Err)
					}
				}
				if took := time.Since(start); n != 20 || took < test.min || took > test.max {
					t.Errorf("%d after %v", n, took)
				}
			})
		})
	}
}

func TestWatchManyIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		originals := w.more(50, hubtest.WriteTool)
		for range w.transport.WatchInvocations(t.Context(), originals) {
			break
		}
		func() {
			defer func() {
				if recover() != "left" {
					t.Error("the panic did not come through")
				}
			}()
			for range w.transport.WatchInvocations(t.Context(), originals) {
				panic("left")
			}
		}()
		// While it waits between two looks.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		last := error(nil)
		for o := range w.transport.WatchInvocations(ctx, w.more(2, hubtest.GovernedTool)) {
			last = o.Err
		}
		w.failure(last, feedback.CodeAgentRequestCancelled)
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		n := 0
		for o := range w.transport.WatchInvocations(cancelled, originals) {
			w.failure(o.Err, feedback.CodeAgentRequestCancelled)
			n++
		}
		if n != len(originals) {
			t.Errorf("%d were told of the end", n)
		}
	})
}

// A list that is asked anew brings originals and takes them away; a failure is
// told once and asked about again.
func TestWatchOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		waiting := w.more(3, hubtest.GovernedTool)
		unknown := w.original
		unknown.InvocationID = strings.Repeat("b", 64)
		var mu sync.Mutex
		listed := []host.Original{waiting[0], unknown}
		lists := 0
		open := host.WithOpen(func(context.Context) iter.Seq2[host.Original, error] {
			mu.Lock()
			defer mu.Unlock()
			lists++
			now := slices.Clone(listed)
			return func(yield func(host.Original, error) bool) {
				for _, o := range now {
					if !yield(o, nil) {
						return
					}
				}
			}
		})
		at := func(after time.Duration, do func()) {
			time.AfterFunc(after, func() {
				mu.Lock()
				defer mu.Unlock()
				do()
			})
		}
		at(10*time.Minute, func() { listed = append(listed, waiting[1]) })
		at(20*time.Minute, func() { w.must(w.hub.Approve(waiting[1].InvocationID)) })
		at(30*time.Minute, func() { listed = listed[1:] })                            // the first is no longer open
		at(40*time.Minute, func() { w.must(w.hub.Approve(waiting[0].InvocationID)) }) // which is not told
		at(50*time.Minute, func() { listed = nil })
		start := time.Now()
		var got []string
		names := map[string]string{waiting[0].InvocationID: "first", waiting[1].InvocationID: "second", unknown.InvocationID: "unknown"}
		for o := range w.transport.WatchInvocations(t.Context(), nil, open) {
			report := o.Report()
			got = append(got, fmt.Sprintf("%d min: %s %s%s", int(time.Since(start).Minutes()), names[o.Original.InvocationID], report.Progress, report.Code))
		}
		slices.Sort(got[:2])
		want := []string{"0 min: first awaiting_approval", "0 min: unknown invocation_not_found", "10 min: second awaiting_approval", "20 min: second approved_not_dispatched"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if took := time.Since(start); took < 50*time.Minute || took > 51*time.Minute || lists < 90 || lists > 110 {
			t.Errorf("%d lists in %v", lists, took)
		}
		asked := 0
		for _, entry := range w.hub.Log() {
			if strings.Contains(entry.Path, unknown.InvocationID) {
				asked++
			}
		}
		if asked < 10 || asked > 16 { // after 30 s, 1, 2 and 4 minutes, and then every 5
			t.Errorf("the unknown one was asked about %d times", asked)
		}
	})
}

func TestWatchOpenEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := errors.New("synthetic-access-1 is not for logs")
		var got []host.Observation
		for o := range w.transport.WatchInvocations(t.Context(), nil, host.WithOpen(func(context.Context) iter.Seq2[host.Original, error] {
			return func(yield func(host.Original, error) bool) { yield(host.Original{}, broken) }
		})) {
			got = append(got, o)
		}
		if len(got) != 1 || got[0].Original != (host.Original{}) {
			t.Fatalf("%+v", got)
		}
		w.failure(got[0].Err, feedback.CodeUnknownFailure)

		// The end of the context is not told.
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		waiting := w.more(1, hubtest.GovernedTool)
		n := 0
		for o := range w.transport.WatchInvocations(ctx, nil, host.WithOpen(func(context.Context) iter.Seq2[host.Original, error] {
			return func(yield func(host.Original, error) bool) { yield(waiting[0], nil) }
		})) {
			w.must(o.Err)
			n++
		}
		if n != 1 || ctx.Err() == nil {
			t.Errorf("%d were told, %v", n, ctx.Err())
		}
	})
}

func TestWatchManyArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var none context.Context
	for name, test := range map[string]struct {
		ctx  context.Context
		opts []host.WatchOption
	}{
		"no context":         {none, nil},
		"a nil option":       {t.Context(), []host.WatchOption{nil}},
		"no list":            {t.Context(), []host.WatchOption{host.WithOpen(nil)}},
		"nothing at once":    {t.Context(), []host.WatchOption{host.WithConcurrency(0)}},
		"a negative time":    {t.Context(), []host.WatchOption{host.WithPatience(-1)}},
		"intervals reversed": {t.Context(), []host.WatchOption{host.WithInterval(2, 1)}},
	} {
		for _, originals := range [][]host.Original{nil, {w.original}, {w.original, w.original}} {
			n := 0
			for o := range w.transport.WatchInvocations(test.ctx, originals, test.opts...) {
				n++
				if !errors.Is(o.Err, feedback.CodeInvalidRequest) || o.Receipt != nil {
					t.Errorf("%s: %+v", name, o)
				}
			}
			if n != max(1, len(originals)) {
				t.Errorf("%s: %d were told", name, n)
			}
		}
	}
	for range w.transport.WatchInvocations(t.Context(), nil) {
		t.Error("of nothing something is told")
	}
	for _, err := range w.transport.WatchInvocation(t.Context(), w.original, host.WithConcurrency(0)) {
		w.failure(err, feedback.CodeInvalidRequest)
	}
}
