package journal_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/receipt"
)

func TestReopen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.begin(t, "executed", hubtest.WriteTool)
	w.begin(t, "waiting", hubtest.GovernedTool)
	w.begin(t, "never sent", "")
	given := w.begin(t, "given up", hubtest.WriteTool)
	must(t, w.GiveUp(t.Context(), given.Original.InvocationID, "decided"))
	before, sent := w.hub.Snapshot(), w.hub.Requests()

	reopen := func() map[string]string {
		got := map[string]string{}
		for e, err := range journal.Reopen(t.Context(), w, w.transport) {
			must(t, err)
			got[e.CallID] = fmt.Sprint(e.State, " ", e.Report.Progress, e.Report.Code)
			stored, err := w.Find(t.Context(), e.CallID)
			must(t, err)
			if stored.State != e.State || e.Report.Answered && stored != e {
				t.Errorf("%s: %+v was yielded, and %+v is stored", e.CallID, e, stored)
			}
		}
		return got
	}
	want := map[string]string{"executed": "settled executed", "waiting": "prepared awaiting_approval", "never sent": "prepared invocation_not_found"}
	if got := reopen(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	delete(want, "executed")
	if got := reopen(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the second time %v, want %v", got, want)
	}
	after := w.hub.Requests()
	if w.hub.Snapshot() != before || after.Submit != sent.Submit || after.Resume+after.Other != sent.Resume+sent.Other {
		t.Error("asking did something")
	}
	if after.Capabilities-sent.Capabilities > 4 { // a failure costs another one
		t.Errorf("%d negotiations", after.Capabilities-sent.Capabilities)
	}

	// Without an answer the yielded report says so, and the evidence stays.
	w.hub.Revoke(w.session.ID)
	want = map[string]string{"waiting": "prepared agent_authorization_unavailable", "never sent": "prepared agent_authorization_unavailable"}
	if got := reopen(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("without access %v, want %v", got, want)
	}
	if e, _ := w.Find(t.Context(), "waiting"); e.Report.Progress != receipt.ProgressAwaitingApproval {
		t.Errorf("the evidence is gone: %+v", e.Report)
	}
}

// broken fails to record and to read.
type broken struct {
	journal.Journal
	record, open error
}

func (b broken) Record(context.Context, string, host.Report) (journal.Entry, error) {
	return journal.Entry{}, b.record
}

func (b broken) Open(ctx context.Context) iter.Seq2[journal.Entry, error] {
	if b.open == nil {
		return b.Journal.Open(ctx)
	}
	return func(yield func(journal.Entry, error) bool) { yield(journal.Entry{}, b.open) }
}

func TestReopenUnderTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, call := range []string{"a", "b", "c"} {
		w.begin(t, call, hubtest.WriteTool)
	}
	failed := errors.New("the disk is full")

	// What was learned is yielded although it cannot be recorded.
	n := 0
	for e, err := range journal.Reopen(t.Context(), broken{Journal: w, record: failed}, w.transport) {
		n++
		if !errors.Is(err, failed) || e.Report.Progress != receipt.ProgressExecuted || e.CallID == "" {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if n != 3 {
		t.Errorf("%d were yielded", n)
	}
	for e, err := range journal.Reopen(t.Context(), broken{Journal: w, open: failed}, w.transport) {
		if !errors.Is(err, failed) || e != (journal.Entry{}) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	for _, err := range journal.Reopen(t.Context(), nil, w.transport) {
		wantError(t, "without a journal", err, feedback.CodeInvalidRequest)
	}
	for _, err := range journal.Reopen(t.Context(), w, nil) {
		wantError(t, "without a transport", err, feedback.CodeInvalidRequest)
	}

	// The end of the context is told, and not recorded.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	unanswered := map[string]bool{}
	for e, err := range journal.Reopen(ctx, w, w.transport, host.WithConcurrency(1)) {
		n++
		must(t, err)
		cancel()
		if !e.Report.Answered {
			unanswered[e.CallID] = true
		}
	}
	if n != 3 || len(unanswered) == 0 {
		t.Errorf("%d were yielded, %d without an answer", n, len(unanswered))
	}
	for call := range unanswered {
		if e, _ := w.Find(t.Context(), call); !e.IsOpen() || e.Report != (host.Report{}) {
			t.Errorf("recorded: %+v", e)
		}
	}

	// One that is closed while it is asked about is yielded as it is then.
	for e, err := range journal.Reopen(t.Context(), w, w.transport, host.WithConcurrency(1)) {
		must(t, err)
		for _, call := range callsOf(t, w) {
			other, err := w.Find(t.Context(), call)
			must(t, err)
			must(t, w.GiveUp(t.Context(), other.Original.InvocationID, "decided"))
		}
		if e.IsOpen() {
			t.Errorf("%+v", e)
		}
	}
}

// A loop that is left early leaves nothing running and the rest open.
func TestReopenIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.hub.Close()
		for n := range 20 {
			w.begin(t, fmt.Sprint("call_", n), hubtest.WriteTool)
		}
		for _, err := range journal.Reopen(t.Context(), w, w.transport, host.WithConcurrency(1)) {
			must(t, err)
			break
		}
		if n := len(callsOf(t, w)); n != 19 {
			t.Errorf("%d are open", n)
		}
	})
}

// Keep tells what is new of each, notices what is added and what others close,
// asks again about what could not be asked about, and ends with the last.
func TestKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.hub.Close()
		w.begin(t, "executed", hubtest.WriteTool)
		approve := func(e journal.Entry) func() {
			return func() {
				must(t, errors.Join(w.hub.Approve(e.Original.InvocationID), w.hub.Resume(e.Original.InvocationID)))
			}
		}
		time.AfterFunc(40*time.Minute, approve(w.begin(t, "waiting", hubtest.GovernedTool)))
		lost := w.begin(t, "never arrived", "")
		// Not in the moment in which the journal is read.
		time.AfterFunc(10*time.Minute+10*time.Second, func() { w.begin(t, "added", hubtest.GovernedTool) })
		time.AfterFunc(11*time.Minute+10*time.Second, func() { w.begin(t, "not sent at once", "") })
		time.AfterFunc(11*time.Minute+45*time.Second, func() {
			late, err := w.Find(t.Context(), "not sent at once")
			must(t, err)
			_, err = w.hub.Submit(w.session.ID, hubtest.Submission{InvocationID: late.Original.InvocationID, Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
			must(t, err)
		})
		time.AfterFunc(20*time.Minute, func() {
			e, err := w.Find(t.Context(), "added")
			must(t, err)
			approve(e)()
		})
		time.AfterFunc(30*time.Minute, func() { must(t, w.GiveUp(t.Context(), lost.Original.InvocationID, "decided")) })
		before, start := w.hub.Requests(), time.Now()
		var got []string
		for e, err := range journal.Keep(t.Context(), w, w.transport) {
			must(t, err)
			got = append(got, fmt.Sprintf("%2d min: %s: %s %s%s", int(time.Since(start).Minutes()), e.CallID, e.State, e.Report.Progress, e.Report.Code))
			if stored, err := w.Find(t.Context(), e.CallID); err != nil || stored != e {
				t.Errorf("%+v was yielded, and %+v is stored (%v)", e, stored, err)
			}
		}
		slices.Sort(got)
		want := []string{
			" 0 min: executed: settled executed",
			" 0 min: never arrived: prepared invocation_not_found",
			" 0 min: waiting: prepared awaiting_approval",
			"10 min: added: prepared awaiting_approval",
			"11 min: not sent at once: prepared invocation_not_found",
			"12 min: not sent at once: settled executed",
			"20 min: added: settled executed",
			"40 min: waiting: settled executed",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if took := time.Since(start); took > 42*time.Minute {
			t.Errorf("it ended after %v", took)
		}
		if now := w.hub.Requests(); now.Submit != before.Submit || now.Other != before.Other {
			t.Errorf("watching sent %+v", now)
		}
	})
}

func TestKeepUnderTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.hub.Close()
		w.begin(t, "a", hubtest.WriteTool)
		failed := errors.New("the disk is full")

		// What was learned is yielded although it cannot be recorded, and asked about
		// again.
		n := 0
		for e, err := range journal.Keep(t.Context(), broken{Journal: w, record: failed}, w.transport) {
			if !errors.Is(err, failed) || e.Report.Progress != receipt.ProgressExecuted || e.CallID != "a" {
				t.Errorf("%+v, %v", e, err)
			}
			if n++; n == 3 {
				break
			}
		}
		for name, test := range map[string]struct {
			journal journal.Journal
			options []host.WatchOption
			want    error
		}{
			"a journal that cannot be read": {broken{Journal: w, open: failed}, nil, failed},
			"no journal":                    {nil, nil, feedback.CodeInvalidRequest},
			"a bad option":                  {w, []host.WatchOption{host.WithConcurrency(0)}, feedback.CodeInvalidRequest},
		} {
			n := 0
			for e, err := range journal.Keep(t.Context(), test.journal, w.transport, test.options...) {
				if n++; !errors.Is(err, test.want) || e != (journal.Entry{}) {
					t.Errorf("%s: %+v, %v", name, e, err)
				}
			}
			if n != 1 {
				t.Errorf("%s: %d were yielded", name, n)
			}
		}
		for _, err := range journal.Keep(t.Context(), w, nil) {
			wantError(t, "no transport", err, feedback.CodeInvalidRequest)
		}

		// The end of the context ends it, and is not told.
		w.begin(t, "b", hubtest.GovernedTool)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var got []string
		for e, err := range journal.Keep(ctx, w, w.transport) {
			must(t, err)
			got = append(got, e.CallID)
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b"}) || ctx.Err() == nil {
			t.Errorf("%v, %v", got, ctx.Err())
		}
	})
}
