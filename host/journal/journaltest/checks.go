package journaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/receipt"
)

func givesWhatWasAdded(s *scene) {
	before := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	e := operation(1)
	s.must(durable, "Add", s.Journal.Add(s.ctx, e))
	got, err := s.Journal.Find(s.ctx, e.CallID)
	s.must(durable, "Find", err)
	if got.CreatedAt.Before(before) || got.CreatedAt.After(time.Now().Add(time.Second)) || !got.UpdatedAt.Equal(got.CreatedAt) || !got.CreatedAt.Equal(got.CreatedAt.Truncate(time.Millisecond)) {
		s.breaks(whole, "an entry that was added now says created at %v, updated at %v", got.CreatedAt, got.UpdatedAt)
	}
	e.State, e.CreatedAt, e.UpdatedAt = journal.StatePrepared, got.CreatedAt, got.UpdatedAt
	s.stored(whole, "after Add", e)

	bare := operation(2) // without what may be missing
	bare.About, bare.Original.Tool, bare.Original.AgentRunID, bare.Original.SessionEnds = "", "", "", time.Time{}
	bare.CallID = strings.Repeat("名", journal.MaxCallID/3)
	s.must(durable, "Add of an entry without a tool, a run and words", s.Journal.Add(s.ctx, bare))
	long := operation(3)
	long.CallID, long.About = "CALL_1", strings.Repeat("x", journal.MaxAbout) // another call than call_1
	s.must(durable, "Add of an entry with long words", s.Journal.Add(s.ctx, long))
	for _, want := range []journal.Entry{bare, long} {
		got, err := s.Journal.Find(s.ctx, want.CallID)
		s.must(durable, "Find", err)
		want.State, want.CreatedAt, want.UpdatedAt = journal.StatePrepared, got.CreatedAt, got.UpdatedAt
		s.stored(whole, "after Add", want)
	}

	r := s.record(e, waiting(e))
	e.Report, e.UpdatedAt = waiting(e), r.UpdatedAt
	s.stored(whole, "after Record", e)
	r = s.record(e, executed(e))
	e.Report, e.State, e.UpdatedAt = executed(e), journal.StateSettled, r.UpdatedAt
	s.stored(whole, "after Record of a settled report", e)
}

func keepsOperationsApart(s *scene) {
	a, b, c := s.add(1), s.add(2), s.add(3)
	s.record(a, executed(a))
	s.must(durable, "Sending", s.Journal.Sending(s.ctx, c.CallID))
	s.stored(whole, "beside an operation that was settled", b)
	s.must(durable, "GiveUp", s.Journal.GiveUp(s.ctx, c.Original.InvocationID, "decided"))
	s.stored(whole, "beside an operation that was given up", b)
	d := s.add(4)
	s.must(durable, "Withdraw", s.Journal.Withdraw(s.ctx, d.CallID))
	s.stored(whole, "beside an operation that was withdrawn", b)
}

func doesNotKnowOtherIDs(s *scene) {
	known, e := s.add(1), operation(2)
	s.gone(errs, "with an id that was never added", e)
	s.refused(errs, "Sending of another call", s.Journal.Sending(s.ctx, e.CallID), journal.ErrNotFound)
	s.refused(errs, "Withdraw of another call", s.Journal.Withdraw(s.ctx, e.CallID), journal.ErrNotFound)
	s.refused(errs, "GiveUp of another invocation", s.Journal.GiveUp(s.ctx, e.Original.InvocationID, "decided"), journal.ErrNotFound)
	got, err := s.Journal.Record(s.ctx, e.Original.InvocationID, executed(e))
	s.refused(errs, "Record of another invocation", err, journal.ErrNotFound)
	s.nothing("Record", got)
	s.gone(errs, "after changes of an id that was never added", e)
	s.stored(errs, "after changes of another id", known)
}

func refusesBadArguments(s *scene) {
	for name, change := range map[string]func(*journal.Entry){
		"without a call id":        func(e *journal.Entry) { e.CallID = "" },
		"with a call id too long":  func(e *journal.Entry) { e.CallID = strings.Repeat("x", journal.MaxCallID+1) },
		"with a call id not UTF-8": func(e *journal.Entry) { e.CallID = "\xff" },
		"without an original":      func(e *journal.Entry) { e.Original = host.Original{} },
		"with a bad invocation id": func(e *journal.Entry) { e.Original.InvocationID += "\n" },
		"with a bad session":       func(e *journal.Entry) { e.Original.ExpectedBinding.SessionID = "none" },
		"with words too long":      func(e *journal.Entry) { e.About = strings.Repeat("x", journal.MaxAbout+1) },
		"with words not UTF-8":     func(e *journal.Entry) { e.About = "\xff" },
		"with NUL in its words":    func(e *journal.Entry) { e.About = "\x00" },
		"that is settled":          func(e *journal.Entry) { e.State = journal.StateSettled },
		"with an unknown state":    func(e *journal.Entry) { e.State = "not_sent" },
		"with a report":            func(e *journal.Entry) { e.Report = waiting(*e) },
		"with a note":              func(e *journal.Entry) { e.Note = "decided" },
		"with a time of sending":   func(e *journal.Entry) { e.SendingAt = time.Now() },
	} {
		e := operation(1)
		change(&e)
		s.refused(errs, "Add of an entry "+name, s.Journal.Add(s.ctx, e), feedback.CodeInvalidRequest)
	}
	if all := s.open(s.handles[0], "after entries that were refused"); len(all) > 0 {
		s.breaks(errs, "an entry that was refused is there")
	}
	_, err := s.Journal.Find(s.ctx, "")
	s.refused(errs, "Find without a call id", err, feedback.CodeInvalidRequest)
	_, err = s.Journal.FindInvocation(s.ctx, "0")
	s.refused(errs, "FindInvocation of a bad id", err, feedback.CodeInvalidRequest)
	s.refused(errs, "Sending without a call id", s.Journal.Sending(s.ctx, ""), feedback.CodeInvalidRequest)
	s.refused(errs, "Withdraw without a call id", s.Journal.Withdraw(s.ctx, ""), feedback.CodeInvalidRequest)
	s.refused(errs, "GiveUp of a bad id", s.Journal.GiveUp(s.ctx, "0", "decided"), feedback.CodeInvalidRequest)
}

func takesACallOnce(s *scene) {
	first := s.add(1)
	for _, h := range s.handles {
		again := operation(2)
		again.CallID = first.CallID
		s.refused(unique, "Add through "+h.name+" of a call that is there", h.Add(s.ctx, again), journal.ErrExists)
		if _, err := h.FindInvocation(s.ctx, again.Original.InvocationID); !errors.Is(err, journal.ErrNotFound) {
			s.breaks(unique, "an entry of a call that is there was added: FindInvocation: %s", describe(err))
		}
		again = operation(3)
		again.Original.InvocationID = first.Original.InvocationID
		s.refused(unique, "Add through "+h.name+" of an invocation that is there", h.Add(s.ctx, again), journal.ErrExists)
		if _, err := h.Find(s.ctx, again.CallID); !errors.Is(err, journal.ErrNotFound) {
			s.breaks(unique, "an entry of an invocation that is there was added: Find: %s", describe(err))
		}
	}
	s.stored(unique, "after the same was added again", first)
}

// together runs a function many times at once.
func together(times int, do func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range times {
		all.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	all.Wait()
}

func takesOneOfManyAtOnce(s *scene) {
	const callers = 16
	for round := range 8 {
		results := make([]error, callers)
		entries := make([]journal.Entry, callers)
		together(callers, func(i int) {
			entries[i] = operation(round*callers + i)
			entries[i].CallID = fmt.Sprintf("round_%d", round)
			results[i] = s.handles[i%len(s.handles)].Add(s.ctx, entries[i])
		})
		winner := -1
		for i, err := range results {
			switch {
			case err == nil && winner >= 0:
				s.breaks(unique, "two Adds of one call at once were both done")
			case err == nil:
				winner = i
			default:
				s.refused(unique, "one of many Adds of one call at once", err, journal.ErrExists)
			}
		}
		if winner < 0 {
			s.Fatal("of many Adds of one call at once none was done [journal.Journal: " + string(unique) + "]")
		}
		got, err := s.Journal.Find(s.ctx, entries[winner].CallID)
		if err != nil || got.Original != entries[winner].Original {
			s.breaks(unique, "of many Adds of one call at once another one is there than the one that was done: %s", describe(err))
		}
	}
}

func remembersClosedCalls(s *scene) {
	settled, abandoned := s.add(1), s.add(2)
	s.record(settled, executed(settled))
	s.must(durable, "GiveUp", s.Journal.GiveUp(s.ctx, abandoned.Original.InvocationID, "decided"))
	again := func(j journal.Journal, when string) {
		for i, e := range []journal.Entry{settled, abandoned} {
			other := operation(10 + i)
			other.CallID = e.CallID
			s.refused(closed, "Add of a call that is closed"+when, j.Add(s.ctx, other), journal.ErrExists)
		}
	}
	again(s.Journal, "")
	reopened, err := s.Reopen()
	s.must(durable, "Fixture.Reopen", err)
	again(reopened, ", after the end of the process")
}

func closesByEvidenceAlone(s *scene) {
	e := s.add(1)
	for name, report := range map[string]host.Report{
		"without an answer": unanswered(e), "that is not settled": waiting(e),
	} {
		if got := s.record(e, report); got.State != journal.StatePrepared {
			s.breaks(closed, "a report %s makes the operation %s", name, got.State)
		}
		got, err := s.Journal.Find(s.ctx, e.CallID)
		s.must(whole, "Find", err)
		s.stored(open, "after a report "+name, got)
	}
	if got := s.record(e, executed(e)); got.State != journal.StateSettled {
		s.breaks(closed, "a report that is settled leaves the operation %s", got.State)
	}
	got, err := s.Journal.Find(s.ctx, e.CallID)
	s.must(whole, "Find", err)
	s.stored(open, "after a report that is settled", got)
}

func keepsEvidence(s *scene) {
	e := s.add(1)
	if got := s.record(e, unanswered(e)); got.Report.Code != unanswered(e).Code {
		s.breaks(whole, "the reason why there is no answer is not kept: %+v", got.Report)
	}
	if got := s.record(e, waiting(e)); got.Report.Progress != receipt.ProgressAwaitingApproval {
		s.breaks(whole, "evidence does not take the place of the reason why there was none: %+v", got.Report)
	}
	if got := s.record(e, unanswered(e)); got.Report.Progress != receipt.ProgressAwaitingApproval {
		s.breaks(whole, "a report without an answer takes the place of evidence: %+v", got.Report)
	}
	later := reportOf(e, receipt.ProgressAwaitingApproval, observed.Add(time.Minute))
	if got := s.record(e, later); !got.Report.ObservedAt.Equal(later.ObservedAt) {
		s.breaks(whole, "newer evidence is not kept: %+v", got.Report)
	}
}

func refusesTheReportOfAnother(s *scene) {
	e, other := s.add(1), s.add(2)
	got, err := s.Journal.Record(s.ctx, e.Original.InvocationID, executed(other))
	s.refused(errs, "Record of the report of another invocation", err, feedback.CodeInvalidRequest)
	s.nothing("Record", got)
	s.stored(errs, "after the report of another invocation", e)
	s.stored(errs, "after a report that another invocation was given", other)
}

func changesNothingClosed(s *scene) {
	settled, abandoned := s.add(1), s.add(2)
	settled = s.record(settled, executed(settled))
	s.must(durable, "GiveUp", s.Journal.GiveUp(s.ctx, abandoned.Original.InvocationID, "decided"))
	abandoned, err := s.Journal.Find(s.ctx, abandoned.CallID)
	s.must(durable, "Find", err)
	for _, e := range []journal.Entry{settled, abandoned} {
		for _, h := range s.handles {
			is := " of an operation that is " + string(e.State) + ", through " + h.name
			for _, report := range []host.Report{waiting(e), executed(e), unanswered(e)} {
				got, err := h.Record(s.ctx, e.Original.InvocationID, report)
				s.refused(closed, "Record"+is, err, journal.ErrClosed)
				s.nothing("Record", got)
			}
			s.refused(closed, "GiveUp"+is, h.GiveUp(s.ctx, e.Original.InvocationID, "another note"), journal.ErrClosed)
			s.refused(closed, "Sending"+is, h.Sending(s.ctx, e.CallID), journal.ErrClosed)
			s.refused(closed, "Withdraw"+is, h.Withdraw(s.ctx, e.CallID), journal.ErrClosed)
			s.stored(closed, "after changes"+is, e)
		}
	}
}

func beginsASendingOnce(s *scene) {
	e := s.add(1)
	results := make([]error, 16)
	together(len(results), func(i int) { results[i] = s.handles[i%len(s.handles)].Sending(s.ctx, e.CallID) })
	begun := 0
	for _, err := range results {
		if err == nil {
			begun++
			continue
		}
		s.refused(unique, "one of many Sendings at once", err, journal.ErrSending)
	}
	if begun != 1 {
		s.breaks(unique, "of many Sendings at once %d were the first", begun)
	}
	got, err := s.Journal.Find(s.ctx, e.CallID)
	s.must(durable, "Find", err)
	if got.SendingAt.IsZero() || got.UpdatedAt.Before(got.SendingAt) || got.State != journal.StatePrepared {
		s.breaks(whole, "after Sending the operation is %s, sending at %v, updated at %v", got.State, got.SendingAt, got.UpdatedAt)
	}
	e.SendingAt, e.UpdatedAt = got.SendingAt, got.UpdatedAt
	s.stored(whole, "after Sending", e)
}

func withdrawsOnlyWhatWasNotSent(s *scene) {
	e, sent := s.add(1), s.add(2)
	s.must(durable, "Withdraw", s.Journal.Withdraw(s.ctx, e.CallID))
	s.gone(unique, "after Withdraw", e)
	s.refused(unique, "a second Withdraw", s.Journal.Withdraw(s.ctx, e.CallID), journal.ErrNotFound)
	again := operation(3)
	again.CallID = e.CallID
	s.must(unique, "Add of a call that was withdrawn", s.Journal.Add(s.ctx, again))

	s.must(durable, "Sending", s.Journal.Sending(s.ctx, sent.CallID))
	for _, h := range s.handles {
		s.refused(errs, "Withdraw through "+h.name+" of what may have been sent", h.Withdraw(s.ctx, sent.CallID), journal.ErrSending)
	}
	sent, err := s.Journal.Find(s.ctx, sent.CallID)
	s.must(errs, "Find of what could not be withdrawn", err)
	s.stored(errs, "after a Withdraw that was refused", sent)
}

func givesUpByADecision(s *scene) {
	e := s.add(1)
	e = s.record(e, waiting(e))
	s.refused(errs, "GiveUp without a note", s.Journal.GiveUp(s.ctx, e.Original.InvocationID, ""), feedback.CodeInvalidRequest)
	s.refused(errs, "GiveUp with a note too long", s.Journal.GiveUp(s.ctx, e.Original.InvocationID, strings.Repeat("x", journal.MaxNote+1)), feedback.CodeInvalidRequest)
	s.stored(errs, "after a GiveUp that was refused", e)
	s.must(durable, "GiveUp", s.Journal.GiveUp(s.ctx, e.Original.InvocationID, about))
	got, err := s.Journal.Find(s.ctx, e.CallID)
	s.must(durable, "Find", err)
	if got.UpdatedAt.Before(e.UpdatedAt) {
		s.breaks(whole, "after GiveUp it was updated at %v, before at %v", got.UpdatedAt, e.UpdatedAt)
	}
	e.State, e.Note, e.UpdatedAt = journal.StateGivenUp, about, got.UpdatedAt
	s.stored(whole, "after GiveUp", e)
}

func givesWhatIsOpenInItsOrder(s *scene) {
	const n = 30
	var want []string
	for i := range n {
		e := s.add((i * 7) % n) // so that no order of ids is that of the adding
		switch i % 3 {
		case 0:
			s.record(e, executed(e))
		case 1:
			s.record(e, waiting(e))
			want = append(want, e.CallID)
		default:
			want = append(want, e.CallID)
		}
	}
	for _, h := range s.handles {
		var got []string
		for _, e := range s.open(h, "with closed operations in between") {
			got = append(got, e.CallID)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			s.breaks(open, "Open through %s gives %v, want %v", h.name, got, want)
		}
	}
}

func canBeUsedWhileItGives(s *scene) {
	var entries []journal.Entry
	for i := range 6 {
		entries = append(entries, s.add(i))
	}
	var seen []string
	for e, err := range s.Journal.Open(s.ctx) {
		s.must(open, "Open", err)
		seen = append(seen, e.CallID)
		switch e.CallID {
		case entries[0].CallID: // closes one whose turn is still to come
			s.record(entries[2], executed(entries[2]))
			s.must(open, "Withdraw within the loop", s.Journal.Withdraw(s.ctx, entries[3].CallID))
			s.record(e, waiting(e))
		case entries[1].CallID:
			s.must(open, "Add within the loop", s.Journal.Add(s.ctx, operation(20)))
			s.must(open, "GiveUp within the loop", s.Journal.GiveUp(s.ctx, e.Original.InvocationID, "decided"))
		}
	}
	var old []string
	for _, id := range seen {
		if id != operation(20).CallID { // which may be left out
			old = append(old, id)
		}
	}
	want := []string{entries[0].CallID, entries[1].CallID, entries[4].CallID, entries[5].CallID}
	if strings.Join(old, " ") != strings.Join(want, " ") {
		s.breaks(open, "Open gives %v while entries are closed, want %v", old, want)
	}
	for range s.Journal.Open(s.ctx) {
		break
	}
	s.must(open, "Sending after a loop that was left early", s.Journal.Sending(s.ctx, entries[4].CallID))
}

func doesNothingWhenTheContextHasEnded(s *scene) {
	e := s.add(1)
	cancelled, cancel := context.WithCancel(s.ctx)
	cancel()
	late, stop := context.WithDeadline(s.ctx, time.Now().Add(-time.Hour))
	defer stop()
	for _, ended := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {late, context.DeadlineExceeded}} {
		id := e.Original.InvocationID
		s.refused(errs, "Add after the end of its context", s.Journal.Add(ended.ctx, operation(2)), ended.want)
		s.refused(errs, "Sending after the end of its context", s.Journal.Sending(ended.ctx, e.CallID), ended.want)
		s.refused(errs, "Withdraw after the end of its context", s.Journal.Withdraw(ended.ctx, e.CallID), ended.want)
		s.refused(errs, "GiveUp after the end of its context", s.Journal.GiveUp(ended.ctx, id, "decided"), ended.want)
		got, err := s.Journal.Record(ended.ctx, id, executed(e))
		s.refused(errs, "Record after the end of its context", err, ended.want)
		s.nothing("Record", got)
		got, err = s.Journal.Find(ended.ctx, e.CallID)
		s.refused(errs, "Find after the end of its context", err, ended.want)
		s.nothing("Find", got)
		got, err = s.Journal.FindInvocation(ended.ctx, id)
		s.refused(errs, "FindInvocation after the end of its context", err, ended.want)
		s.nothing("FindInvocation", got)
		var last error
		for _, err := range s.Journal.Open(ended.ctx) {
			last = err
		}
		s.refused(errs, "Open after the end of its context", last, ended.want)
	}
	s.gone(errs, "after an Add whose context had ended", operation(2))
	s.stored(errs, "after changes whose context had ended", e)
}

func outlastsTheEndOfTheProcess(s *scene) {
	fresh, sending, reported, settled, abandoned, withdrawn := s.add(1), s.add(2), s.add(3), s.add(4), s.add(5), s.add(6)
	s.must(durable, "Sending", s.Journal.Sending(s.ctx, sending.CallID))
	s.record(reported, waiting(reported))
	s.record(settled, executed(settled))
	s.must(durable, "GiveUp", s.Journal.GiveUp(s.ctx, abandoned.Original.InvocationID, "decided"))
	s.must(durable, "Withdraw", s.Journal.Withdraw(s.ctx, withdrawn.CallID))
	var want []journal.Entry
	for _, e := range []journal.Entry{fresh, sending, reported, settled, abandoned} {
		e, err := s.Journal.Find(s.ctx, e.CallID)
		s.must(durable, "Find", err)
		want = append(want, e)
	}
	reopened, err := s.Reopen()
	s.must(durable, "Fixture.Reopen", err)
	s.Journal, s.handles = reopened, []handle{{"what Reopen gave", reopened}}
	for _, e := range want {
		s.stored(durable, "after the end of the process", e)
	}
	s.gone(durable, "after the end of the process", withdrawn)
	s.refused(durable, "Withdraw of what may have been sent, after the end of the process", s.Journal.Withdraw(s.ctx, sending.CallID), journal.ErrSending)
	s.must(durable, "Add after the end of the process", s.Journal.Add(s.ctx, operation(7)))
}

func losesNothingOfMany(s *scene) {
	// Of one operation: what one change notes, another one keeps.
	for round := range 8 {
		e := s.add(1000 + round)
		changes := []func(journal.Journal) error{
			func(j journal.Journal) error { return j.Sending(s.ctx, e.CallID) },
			func(j journal.Journal) error {
				_, err := j.Record(s.ctx, e.Original.InvocationID, waiting(e))
				return err
			},
		}
		together(len(changes), func(i int) {
			if err := changes[i](s.handles[i%len(s.handles)].Journal); err != nil {
				s.breaks(durable, "one of two changes of an operation at once: %s", describe(err))
			}
		})
		got, err := s.Journal.Find(s.ctx, e.CallID)
		if err != nil || got.SendingAt.IsZero() || !got.Report.Answered {
			s.breaks(durable, "of two changes of an operation at once one is lost: %s: %+v", describe(err), got)
		}
		s.must(durable, "GiveUp", s.Journal.GiveUp(s.ctx, e.Original.InvocationID, "decided"))
	}
	const callers, each = 8, 20
	together(callers, func(i int) {
		h := s.handles[i%len(s.handles)]
		for k := range each {
			e := operation(i*each + k)
			if err := h.Add(s.ctx, e); err != nil {
				s.breaks(durable, "one of many Adds at once: %s", describe(err))
				return
			}
			if err := h.Sending(s.ctx, e.CallID); err != nil {
				s.breaks(durable, "one of many Sendings at once: %s", describe(err))
			}
			report := waiting(e)
			if k%2 == 0 {
				report = executed(e)
			}
			if _, err := h.Record(s.ctx, e.Original.InvocationID, report); err != nil {
				s.breaks(durable, "one of many Records at once: %s", describe(err))
			}
		}
	})
	reopened, err := s.Reopen()
	s.must(durable, "Fixture.Reopen", err)
	stillOpen := 0
	for _, err := range reopened.Open(s.ctx) {
		s.must(durable, "Open", err)
		stillOpen++
	}
	if want := callers * each / 2; stillOpen != want {
		s.breaks(durable, "after many changes at once %d operations are open, want %d", stillOpen, want)
	}
	for n := range callers * each {
		e := operation(n)
		got, err := reopened.Find(s.ctx, e.CallID)
		if err != nil || got.Original != e.Original || got.SendingAt.IsZero() || !got.Report.Answered {
			s.breaks(durable, "of many changes at once some are lost: %s: %+v", describe(err), got)
			return
		}
	}
}
