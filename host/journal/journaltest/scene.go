package journaltest

import (
	"fmt"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// about has characters that a careless use of a database changes or cuts.
const about = "Rückzahlung “30 €” für Bestellung №7 — 退款\n\t'quoted' \"twice\" \\ <b>&amp;</b> 100% ; -- \u2028 \U0001F600"

// operation gives the n-th operation of a check.
func operation(n int) journal.Entry {
	return journal.Entry{
		CallID: fmt.Sprintf("call_%d", n),
		Original: host.Original{
			InvocationID:  fmt.Sprintf("%064x", n+1),
			ConnectionKey: "conn_0123456789abcdef0123456789abcdef",
			Workspace:     "inventory",
			ExpectedBinding: registry.Binding{
				HubURL: "https://hub.example.com/prefix", ClientAppID: "demo-client", Workspace: "inventory", SessionID: "11111111-1111-4111-8111-111111111111",
			},
			Tool: "goods_update", AgentRunID: "33333333-3333-4333-8333-333333333333",
			SessionEnds: time.Date(2026, 10, 15, 12, 0, 0, 987e6, time.UTC),
		},
		About: about,
	}
}

// reportOf gives the report of an operation after a receipt of this progress.
func reportOf(e journal.Entry, progress receipt.Progress, observed time.Time) host.Report {
	r := &receipt.Receipt{
		InvocationID: e.Original.InvocationID, AgentRunID: e.Original.AgentRunID, Route: e.Original.Workspace, Tool: e.Original.Tool,
		ObservedAt: observed, ResultSource: receipt.ResultSourceJob, JournalState: receipt.JournalAbsent,
		DispatchState: receipt.DispatchNotDispatched, Approval: receipt.Approval{Status: receipt.ApprovalPending, ID: 1<<53 - 1},
		Result: &receipt.Result{State: receipt.StateAwaitingApproval},
	}
	if progress == receipt.ProgressExecuted {
		r.DispatchState, r.Approval.Status = receipt.DispatchAttempted, receipt.ApprovalApproved
		r.Result = &receipt.Result{State: receipt.StateExecuted, OK: true, BusinessStatus: 200, Text: about + strings.Repeat("库", 1800)}
	}
	return host.Explain(e.Original, r, nil)
}

var observed = time.Date(2026, 9, 15, 12, 0, 0, 123e6, time.UTC)

func waiting(e journal.Entry) host.Report {
	return reportOf(e, receipt.ProgressAwaitingApproval, observed)
}
func executed(e journal.Entry) host.Report { return reportOf(e, receipt.ProgressExecuted, observed) }

// unanswered is a report without an answer, which claims to be settled.
func unanswered(e journal.Entry) host.Report {
	r := host.Explain(e.Original, nil, nil)
	r.Settled = true
	return r
}

// add adds the n-th operation and gives it as the journal has it.
func (s *scene) add(n int) journal.Entry {
	s.Helper()
	e := operation(n)
	s.must(durable, "Add", s.Journal.Add(s.ctx, e))
	stored, err := s.Journal.Find(s.ctx, e.CallID)
	s.must(durable, "Find of what was added", err)
	return stored
}

// record records a report and gives the entry as the journal has it.
func (s *scene) record(e journal.Entry, r host.Report) journal.Entry {
	s.Helper()
	given, err := s.Journal.Record(s.ctx, e.Original.InvocationID, r)
	s.must(whole, "Record", err)
	stored, err := s.Journal.Find(s.ctx, e.CallID)
	s.must(whole, "Find of what was recorded", err)
	s.same(whole, "what Record gave", given, stored)
	return stored
}

// stored checks that the journal gives exactly this entry by every method that reads.
func (s *scene) stored(p paragraph, when string, want journal.Entry) {
	s.Helper()
	for _, h := range s.handles {
		byCall, err := h.Find(s.ctx, want.CallID)
		if err != nil {
			s.breaks(p, "%s: Find through %s: %s", when, h.name, describe(err))
		} else {
			s.same(p, when+": Find through "+h.name, byCall, want)
		}
		byID, err := h.FindInvocation(s.ctx, want.Original.InvocationID)
		if err != nil {
			s.breaks(p, "%s: FindInvocation through %s: %s", when, h.name, describe(err))
		} else {
			s.same(p, when+": FindInvocation through "+h.name, byID, want)
		}
		var found []journal.Entry
		for _, e := range s.open(h, when) {
			if e.CallID == want.CallID {
				found = append(found, e)
			}
		}
		switch isOpen := want.State == journal.StatePrepared; {
		case isOpen && len(found) != 1, !isOpen && len(found) != 0:
			s.breaks(open, "%s: Open through %s gives an operation that is %s %d times", when, h.name, want.State, len(found))
		case isOpen:
			s.same(p, when+": Open through "+h.name, found[0], want)
		}
	}
}

// gone checks that no method that reads gives the entry, and that each gives the zero value
// with its error.
func (s *scene) gone(p paragraph, when string, e journal.Entry) {
	s.Helper()
	for _, h := range s.handles {
		got, err := h.Find(s.ctx, e.CallID)
		s.refused(p, when+": Find through "+h.name, err, journal.ErrNotFound)
		s.nothing("Find", got)
		got, err = h.FindInvocation(s.ctx, e.Original.InvocationID)
		s.refused(p, when+": FindInvocation through "+h.name, err, journal.ErrNotFound)
		s.nothing("FindInvocation", got)
		for _, other := range s.open(h, when) {
			if other.CallID == e.CallID {
				s.breaks(open, "%s: Open through %s gives an operation that is not there", when, h.name)
			}
		}
	}
}

func (s *scene) nothing(name string, got journal.Entry) {
	s.Helper()
	if got != (journal.Entry{}) {
		s.breaks(errs, "%s gives an entry beside its error", name)
	}
}

// open gives what Open gives.
func (s *scene) open(h handle, when string) (all []journal.Entry) {
	s.Helper()
	for e, err := range h.Open(s.ctx) {
		if err != nil {
			s.breaks(open, "%s: Open through %s: %s", when, h.name, describe(err))
			break
		}
		all = append(all, e)
	}
	return all
}

// same compares two entries; times as instants.
func (s *scene) same(p paragraph, what string, got, want journal.Entry) {
	s.Helper()
	for _, times := range [][2]time.Time{
		{got.CreatedAt, want.CreatedAt}, {got.UpdatedAt, want.UpdatedAt}, {got.SendingAt, want.SendingAt},
		{got.Original.SessionEnds, want.Original.SessionEnds}, {got.Report.SessionEnds, want.Report.SessionEnds}, {got.Report.ObservedAt, want.Report.ObservedAt},
	} {
		if !times[0].Equal(times[1]) {
			s.breaks(p, "%s: the time %v, want %v", what, times[0], times[1])
		}
	}
	for _, e := range []*journal.Entry{&got, &want} {
		e.CreatedAt, e.UpdatedAt, e.SendingAt = time.Time{}, time.Time{}, time.Time{}
		e.Original.SessionEnds, e.Report.SessionEnds, e.Report.ObservedAt = time.Time{}, time.Time{}, time.Time{}
	}
	if got != want {
		s.breaks(p, "%s:\n got %+v\nwant %+v", what, got, want)
	}
}
