package journaltest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
)

// A fault is what is wrong with a faulty journal.
type fault string

const (
	none                  fault = ""
	losesWords            fault = "cuts the words of an entry at 255 bytes"
	mangleWords           fault = "keeps words as ASCII"
	foldsCalls            fault = "takes call ids for equal in any letter case"
	cutsTimes             fault = "keeps times to the second"
	losesSessionEnds      fault = "forgets when the session ends"
	losesText             fault = "cuts the text of a report at 1,000 bytes"
	mixesEntries          fault = "records a report in the last entry"
	unknownIsZero         fault = "has no error for an unknown call"
	answersBesideError    fault = "gives an entry beside an error"
	recordsUnknown        fault = "makes an entry of an unknown report"
	addsAnything          fault = "takes an entry that is not valid"
	keepsGivenState       fault = "keeps the state that an entry is added with"
	findsNothingForBadID  fault = "calls a bad id not found"
	addsCallTwice         fault = "puts a second entry of a call in the place of the first"
	ignoresSecondAdd      fault = "has no error for a second entry of a call"
	addsInvocationTwice   fault = "takes an invocation under two calls"
	checksThenAdds        fault = "looks for the call before it takes the lock"
	forgetsClosed         fault = "forgets what is closed"
	forgetsClosedOnReopen fault = "forgets what is closed at the end of the process"
	closesUnanswered      fault = "closes by a report without an answer"
	closesUnsettled       fault = "closes by any answer"
	neverCloses           fault = "does not close by a settled report"
	closesByError         fault = "gives up what cannot be asked about"
	replacesEvidence      fault = "puts a report without an answer in the place of evidence"
	keepsFirstReport      fault = "keeps the first report"
	ignoresUnanswered     fault = "does not keep why there is no answer"
	recordsAnothers       fault = "takes the report of another invocation"
	changesClosed         fault = "records a report in what is closed"
	givesUpClosed         fault = "gives up what is settled"
	sendsClosed           fault = "begins to send what is closed"
	withdrawsClosed       fault = "withdraws what is closed"
	closedIsNil           fault = "has no error for a change of what is closed"
	sendsTwice            fault = "begins a sending twice"
	checksThenSends       fault = "looks for the sending before it takes the lock"
	withdrawsSent         fault = "withdraws what may have been sent"
	withdrawalStays       fault = "finds by its invocation what was withdrawn"
	withdrawalBlocks      fault = "keeps the call id of what was withdrawn"
	givesUpWithoutNote    fault = "gives up without a note"
	losesNote             fault = "does not keep the note"
	opensInAnyOrder       fault = "gives what is open by its invocation id"
	opensClosed           fault = "gives what is settled as open"
	opensSnapshot         fault = "gives what was closed meanwhile as open"
	locksWhileOpen        fault = "cannot be changed while it gives what is open"
	ignoresContext        fault = "goes on when the context has ended"
	mistakesContext       fault = "calls a passed deadline a cancellation"
	notDurable            fault = "loses the last entry at the end of the process"
	sendingNotDurable     fault = "loses the sending at the end of the process"
	withdrawalNotDurable  fault = "loses a withdrawal at the end of the process"
	losesConcurrent       fault = "reads an entry, and writes it later"
	cachesReads           fault = "gives what another handle has changed since"
	recordGivesOld        fault = "gives the entry as it was before the report"
)

// state is what the handles share.
type state struct {
	fault   fault
	mu      sync.Mutex
	entries []journal.Entry

	meeting sync.Mutex
	first   chan struct{} // closed when the second has come
}

// meet keeps the first who comes until a second one has come; nobody after
// them.
func (s *state) meet() {
	s.meeting.Lock()
	if s.first == nil {
		s.first = make(chan struct{})
		s.meeting.Unlock()
		<-s.first
		return
	}
	defer s.meeting.Unlock()
	select {
	case <-s.first:
	default:
		close(s.first)
	}
}

// faulty is a handle on a journal in memory that is right but for one fault.
type faulty struct {
	*state
	cache map[string]journal.Entry // of cachesReads
}

func (f *faulty) is(fault fault) bool { return f.fault == fault }

func (f *faulty) ready(ctx context.Context) error {
	switch {
	case f.is(ignoresContext), ctx.Err() == nil:
		return nil
	case f.is(mistakesContext):
		return context.Canceled
	}
	return ctx.Err()
}

var errBad = errors.Join(errors.New("bad"), feedback.CodeInvalidRequest)

func (f *faulty) find(ok func(journal.Entry) bool) int { return slices.IndexFunc(f.entries, ok) }

func (f *faulty) byCall(id string) func(journal.Entry) bool {
	return func(e journal.Entry) bool {
		return e.CallID == id || f.is(foldsCalls) && strings.EqualFold(e.CallID, id)
	}
}

func byInvocation(id string) func(journal.Entry) bool {
	return func(e journal.Entry) bool { return e.Original.InvocationID == id }
}

func (f *faulty) Add(ctx context.Context, given journal.Entry) error {
	if err := f.ready(ctx); err != nil {
		return err
	}
	e, err := given.Prepare(time.Now())
	switch {
	case err != nil && f.is(addsAnything):
		e = given
		e.State = journal.StatePrepared
	case err != nil && f.is(keepsGivenState) && given.State == journal.StateSettled:
		e = given
	case err != nil:
		return err
	}
	switch f.fault {
	case losesWords:
		e.About = e.About[:min(len(e.About), 255)]
	case mangleWords:
		e.About = strings.Map(func(r rune) rune {
			if r > 127 {
				return '?'
			}
			return r
		}, e.About)
	case cutsTimes:
		e.CreatedAt, e.UpdatedAt = e.CreatedAt.Truncate(time.Second), e.UpdatedAt.Truncate(time.Second)
		e.Original.SessionEnds = e.Original.SessionEnds.Truncate(time.Second)
	case losesSessionEnds:
		e.Original.SessionEnds = time.Time{}
	}
	taken := func() error {
		i, k := f.find(f.byCall(e.CallID)), f.find(byInvocation(e.Original.InvocationID))
		switch {
		case i >= 0 && f.is(addsCallTwice):
			f.entries[i] = e
			return nil
		case i >= 0 && f.is(ignoresSecondAdd):
			return nil
		case i >= 0, k >= 0 && !f.is(addsInvocationTwice):
			return journal.ErrExists
		}
		return errFree
	}
	if f.is(checksThenAdds) {
		f.mu.Lock()
		err := taken()
		f.mu.Unlock()
		if err != errFree {
			return err
		}
		f.meet()
		f.mu.Lock()
		defer f.mu.Unlock()
	} else {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := taken(); err != errFree {
			return err
		}
	}
	f.entries = append(f.entries, e)
	return nil
}

var errFree = errors.New("nobody has it")

// change changes the entry that ok finds.
func (f *faulty) change(ctx context.Context, ok func(journal.Entry) bool, become func(journal.Entry) (journal.Entry, error)) (journal.Entry, error) {
	if err := f.ready(ctx); err != nil {
		return journal.Entry{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(ok)
	if i < 0 {
		return journal.Entry{}, journal.ErrNotFound
	}
	was := f.entries[i]
	if f.is(losesConcurrent) || f.is(checksThenSends) {
		f.mu.Unlock()
		f.meet()
	}
	is, err := become(was)
	if f.is(losesConcurrent) || f.is(checksThenSends) {
		f.mu.Lock()
	}
	if err != nil {
		if f.is(closedIsNil) && errors.Is(err, journal.ErrClosed) {
			return was, nil
		}
		if f.is(answersBesideError) {
			return was, err
		}
		return journal.Entry{}, err
	}
	if f.is(forgetsClosed) && is.State != journal.StatePrepared {
		f.entries = slices.Delete(f.entries, i, i+1)
		return is, nil
	}
	if f.is(mixesEntries) {
		f.entries[len(f.entries)-1] = is
		return is, nil
	}
	if i := f.find(ok); i >= 0 {
		f.entries[i] = is
	}
	if f.is(recordGivesOld) {
		return was, nil
	}
	return is, nil
}

func (f *faulty) Sending(ctx context.Context, callID string) error {
	if callID == "" && !f.is(findsNothingForBadID) {
		return errBad
	}
	_, err := f.change(ctx, f.byCall(callID), func(e journal.Entry) (journal.Entry, error) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		if f.is(sendsTwice) || f.is(sendsClosed) && e.State != journal.StatePrepared {
			e.SendingAt, e.UpdatedAt = now, now
			return e, nil
		}
		return e.BeginSending(now)
	})
	return err
}

func (f *faulty) Withdraw(ctx context.Context, callID string) error {
	if callID == "" {
		return errBad
	}
	if err := f.ready(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(f.byCall(callID))
	if i < 0 {
		return journal.ErrNotFound
	}
	err := f.entries[i].CheckWithdraw()
	switch {
	case errors.Is(err, journal.ErrSending) && f.is(withdrawsSent), errors.Is(err, journal.ErrClosed) && f.is(withdrawsClosed):
	case errors.Is(err, journal.ErrClosed) && f.is(closedIsNil):
		return nil
	case err != nil:
		return err
	}
	switch f.fault {
	case withdrawalStays:
		f.entries[i].CallID = "withdrawn"
	case withdrawalBlocks:
		f.entries[i].Original.InvocationID = strings.Repeat("f", 64)
	default:
		f.entries = slices.Delete(f.entries, i, i+1)
	}
	return nil
}

func (f *faulty) Record(ctx context.Context, id string, report host.Report) (journal.Entry, error) {
	if f.is(recordsUnknown) {
		f.mu.Lock()
		if f.find(byInvocation(id)) < 0 {
			f.entries = append(f.entries, journal.Entry{CallID: "call_2", Original: host.Original{InvocationID: id}, State: journal.StatePrepared, Report: report})
		}
		f.mu.Unlock()
	}
	return f.change(ctx, byInvocation(id), func(e journal.Entry) (journal.Entry, error) {
		now := time.Now()
		isOpen := e.State == journal.StatePrepared
		set := func(state journal.State) (journal.Entry, error) {
			e.Report, e.State, e.UpdatedAt = report, state, now.UTC().Truncate(time.Millisecond)
			return e, nil
		}
		switch {
		case !isOpen && f.is(changesClosed):
			return set(e.State)
		case f.is(recordsAnothers) && isOpen:
			return set(journal.StateSettled)
		case report.InvocationID != id || !isOpen:
			return e.Learn(report, now)
		case f.is(closesUnanswered) && report.Settled, f.is(closesUnsettled) && report.Answered:
			return set(journal.StateSettled)
		case f.is(neverCloses), f.is(replacesEvidence) && !report.Answered:
			return set(journal.StatePrepared)
		case f.is(closesByError) && !report.Answered:
			return set(journal.StateGivenUp)
		case f.is(keepsFirstReport) && e.Report.Answered && !report.Settled, f.is(ignoresUnanswered) && !report.Answered:
			return e, nil
		case f.is(losesText):
			report.UntrustedText = report.UntrustedText[:min(len(report.UntrustedText), 1000)]
		}
		return e.Learn(report, now)
	})
}

func (f *faulty) GiveUp(ctx context.Context, id, note string) error {
	if len(id) != 64 {
		return errBad
	}
	_, err := f.change(ctx, byInvocation(id), func(e journal.Entry) (journal.Entry, error) {
		if f.is(givesUpClosed) && e.State != journal.StatePrepared || f.is(givesUpWithoutNote) && note == "" {
			e.State, e.Note = journal.StateGivenUp, note
			return e, nil
		}
		e, err := e.Abandon(note, time.Now())
		if f.is(losesNote) {
			e.Note = ""
		}
		return e, err
	})
	return err
}

func (f *faulty) get(ctx context.Context, bad bool, ok func(journal.Entry) bool) (journal.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(ok)
	switch err := f.ready(ctx); {
	case err != nil && f.is(answersBesideError) && i >= 0:
		return f.entries[i], err
	case err != nil:
		return journal.Entry{}, err
	case bad && !f.is(findsNothingForBadID):
		return journal.Entry{}, errBad
	case i < 0 && f.is(unknownIsZero):
		return journal.Entry{}, nil
	case i < 0:
		return journal.Entry{}, journal.ErrNotFound
	}
	e := f.entries[i]
	if f.is(cachesReads) {
		if cached, ok := f.cache[e.CallID]; ok {
			return cached, nil
		}
		f.cache[e.CallID] = e
	}
	return e, nil
}

func (f *faulty) Find(ctx context.Context, callID string) (journal.Entry, error) {
	return f.get(ctx, callID == "", f.byCall(callID))
}

func (f *faulty) FindInvocation(ctx context.Context, id string) (journal.Entry, error) {
	return f.get(ctx, len(id) != 64, byInvocation(id))
}

func (f *faulty) Open(ctx context.Context) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		if err := f.ready(ctx); err != nil {
			yield(journal.Entry{}, err)
			return
		}
		isOpen := func(e journal.Entry) bool {
			return e.State == journal.StatePrepared || f.is(opensClosed) && e.State == journal.StateSettled
		}
		f.mu.Lock()
		all := slices.DeleteFunc(slices.Clone(f.entries), func(e journal.Entry) bool { return !isOpen(e) })
		if f.is(locksWhileOpen) {
			defer f.mu.Unlock()
		} else {
			f.mu.Unlock()
		}
		if f.is(opensInAnyOrder) {
			slices.SortFunc(all, func(a, b journal.Entry) int {
				return strings.Compare(a.Original.InvocationID, b.Original.InvocationID)
			})
		}
		for _, e := range all {
			if !f.is(opensSnapshot) && !f.is(locksWhileOpen) {
				f.mu.Lock()
				i := f.find(byInvocation(e.Original.InvocationID))
				if i < 0 || !isOpen(f.entries[i]) {
					f.mu.Unlock()
					continue
				}
				e = f.entries[i]
				f.mu.Unlock()
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// reopen gives what is left after the end of the process.
func (f *faulty) reopen() journal.Journal {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &state{fault: f.fault, entries: slices.Clone(f.entries)}
	switch f.fault {
	case notDurable:
		next.entries = next.entries[:len(next.entries)-1]
	case forgetsClosedOnReopen:
		next.entries = slices.DeleteFunc(next.entries, func(e journal.Entry) bool { return e.State != journal.StatePrepared })
	case sendingNotDurable:
		for i := range next.entries {
			next.entries[i].SendingAt = time.Time{}
		}
	case withdrawalNotDurable:
		e, _ := journal.Entry{CallID: "call_6", Original: next.entries[0].Original}.Prepare(time.Now())
		e.Original.InvocationID = strings.Repeat("0", 63) + "7"
		next.entries = append(next.entries, e)
	}
	return &faulty{state: next, cache: map[string]journal.Entry{}}
}
