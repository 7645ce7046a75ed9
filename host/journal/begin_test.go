package journal_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// world is a mock Hub, a host that is logged in to it, and its journal.
type world struct {
	hub       *hubtest.Hub
	session   hubtest.Session
	store     *registry.Memory
	key       string
	transport *host.Transport
	*journal.File
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{hub: hubtest.New(), store: registry.NewMemory(), File: open(t, newPath(t))}
	t.Cleanup(w.hub.Close)
	w.session = w.hub.Login(hubtest.Grant{})
	connection, err := w.store.Register(context.Background(), registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: w.session.ClientID, Workspace: hubtest.DefaultRoute})
	must(t, err)
	w.key = connection.Key
	w.login(t, w.session)
	w.transport, err = host.New(w.store, agentclient.WithHTTPClient(&http.Client{Transport: w.hub.Transport()}))
	must(t, err)
	return w
}

func (w *world) login(t testing.TB, s hubtest.Session) {
	t.Helper()
	must(t, w.store.SaveCredentials(context.Background(), w.key, s.Credentials("https://hub.example.com", hubtest.DefaultRoute)))
}

// begin begins a call, and sends it where tool is not empty.
func (w *world) begin(t testing.TB, call, tool string) journal.Entry {
	t.Helper()
	e, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: call, ConnectionKey: w.key, Tool: tool, About: "about " + call})
	must(t, err)
	if tool != "" {
		must(t, w.Sending(t.Context(), call))
		_, err := w.hub.Submit(w.session.ID, hubtest.Submission{InvocationID: e.Original.InvocationID, Route: hubtest.DefaultRoute, Tool: tool})
		must(t, err)
	}
	return e
}

func TestBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.begin(t, "call_1", "")
	stored, err := w.Find(t.Context(), "call_1")
	if err != nil || stored != e || e.About != "about call_1" || e.State != journal.StatePrepared || e.Original.ExpectedBinding.SessionID != w.session.ID || e.Original.SessionEnds.IsZero() {
		t.Errorf("%+v, %+v, %v", stored, e, err)
	}

	// A call that is there is answered from the journal, also without a login.
	must(t, w.store.DeleteCredentials(t.Context(), w.key))
	again, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: "call_1", ConnectionKey: w.key})
	if !errors.Is(err, journal.ErrExists) || again != e {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	for name, test := range map[string]struct {
		journal   journal.Journal
		transport *host.Transport
		call      journal.Call
		want      error
	}{
		"without a login":     {w, w.transport, journal.Call{CallID: "call_2", ConnectionKey: w.key}, feedback.CodeAgentAuthorizationUnavailable},
		"a bad key":           {w, w.transport, journal.Call{CallID: "call_2", ConnectionKey: "shop"}, feedback.CodeInvalidRequest},
		"no call id":          {w, w.transport, journal.Call{ConnectionKey: w.key}, feedback.CodeInvalidRequest},
		"without a journal":   {nil, w.transport, journal.Call{CallID: "call_2", ConnectionKey: w.key}, feedback.CodeInvalidRequest},
		"without a transport": {w, nil, journal.Call{CallID: "call_2", ConnectionKey: w.key}, feedback.CodeInvalidRequest},
	} {
		got, err := journal.Begin(t.Context(), test.journal, test.transport, test.call)
		if !errors.Is(err, test.want) || got != (journal.Entry{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	w.login(t, w.session)
	got, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: "call_3", ConnectionKey: w.key, Tool: "no tool"})
	if !errors.Is(err, feedback.CodeInvalidRequest) || got != (journal.Entry{}) {
		t.Errorf("a bad tool: %+v, %v", got, err)
	}
	if calls := callsOf(t, w); !slices.Equal(calls, []string{"call_1"}) {
		t.Errorf("%v are open", calls)
	}
}

// Of many who begin the same call at once, one sends.
func TestBeginAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type result struct {
		entry journal.Entry
		err   error
	}
	results := make(chan result)
	for range 16 {
		go func() {
			e, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: "call_1", ConnectionKey: w.key})
			results <- result{e, err}
		}()
	}
	begun, ids := 0, map[string]bool{}
	for range 16 {
		r := <-results
		ids[r.entry.Original.InvocationID] = true
		switch {
		case r.err == nil:
			begun++
		case !errors.Is(r.err, journal.ErrExists):
			t.Error(r.err)
		}
	}
	if begun != 1 || len(ids) != 1 {
		t.Errorf("%d have begun, with %d ids", begun, len(ids))
	}
}

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
