package journal

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
)

// Reopen inspects all open operations in one batch. It records each report and yields the
// entry with it when the answer comes. A host calls it when it starts. It never sends an
// operation.
//
// A yielded entry has the report of this inspection, also where that got no answer; the
// journal keeps the last report with evidence. Where a report could not be recorded, its
// entry is yielded with the error, and the sequence continues. An operation that somebody
// else has closed meanwhile is yielded as it is then. Where the journal cannot be read, that
// error is the last thing that is yielded, without an entry.
//
// When ctx ends, the operations without an answer are yielded as cancelled or timed out,
// which is not recorded. After a loop that ends early, the remaining operations are still
// open. The options are those of the batch.
func Reopen(ctx context.Context, journal Journal, transport *host.Transport, opts ...host.BatchOption) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := given(journal, transport); err != nil {
			yield(Entry{}, err)
			return
		}
		open := map[string]Entry{} // by invocation
		var originals []host.Original
		for entry, err := range journal.Open(ctx) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			open[entry.Original.InvocationID] = entry
			originals = append(originals, entry.Original)
		}
		for observation := range transport.InspectInvocations(ctx, originals, opts...) {
			if !yield(learn(ctx, journal, open[observation.Original.InvocationID], observation.Report())) {
				return
			}
		}
	}
}

// learn records a report and gives the entry with it.
func learn(ctx context.Context, journal Journal, known Entry, report host.Report) (Entry, error) {
	if report.Code == feedback.CodeAgentRequestCancelled || ctx.Err() != nil && !report.Answered {
		known.Report = report
		return known, nil
	}
	// The report is recorded even where ctx has ended since.
	entry, err := journal.Record(context.WithoutCancel(ctx), known.Original.InvocationID, report)
	switch {
	case errors.Is(err, ErrClosed):
		entry, err = journal.FindInvocation(context.WithoutCancel(ctx), known.Original.InvocationID)
		if err != nil {
			entry = known
		}
		return entry, err
	case err != nil:
		known.Report = report
		return known, err
	}
	entry.Report = report
	return entry, nil
}

// Keep watches all open operations, until none is open or ctx ends. It records every new
// report and yields the entry with it. A host runs it in the background. It never sends an
// operation.
//
// Keep uses [host.Transport.WatchInvocations]: each entry has its own intervals, and entries
// that are due at about the same time are inspected in one batch. After each longest interval
// (30 seconds, unless an option says otherwise) it reads the journal again. Then it watches
// operations that were added, and stops watching those that others have settled, given up or
// withdrawn.
//
// A failed inspection is yielded once, as an entry whose report says so, and again when it
// fails for another reason; the journal keeps the last report with evidence. Only evidence or
// a person's decision ends the watch of an entry. Where a report could not be recorded, its
// entry is yielded with the error. Where the journal cannot be read, that error is the last
// thing that is yielded, without an entry.
func Keep(ctx context.Context, journal Journal, transport *host.Transport, opts ...host.WatchOption) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := given(journal, transport); err != nil {
			yield(Entry{}, err)
			return
		}
		var failed error // of reading the journal
		open := map[string]Entry{}
		list := host.WithOpen(func(ctx context.Context) iter.Seq2[host.Original, error] {
			return func(yield func(host.Original, error) bool) {
				clear(open)
				for entry, err := range journal.Open(ctx) {
					failed = err
					open[entry.Original.InvocationID] = entry
					if !yield(entry.Original, err) || err != nil {
						return
					}
				}
			}
		})
		for observation := range transport.WatchInvocations(ctx, nil, slices.Concat(opts, []host.WatchOption{list})...) {
			known, isOpen := open[observation.Original.InvocationID]
			switch {
			case failed != nil:
				yield(Entry{}, failed)
				return
			case !isOpen: // the error of an option that is not valid
				yield(Entry{}, observation.Err)
				return
			case !yield(learn(ctx, journal, known, observation.Report())):
				return
			}
		}
	}
}
