package journal

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
)

// Reopen asks about every operation that is open, all in one batch, records
// each report and yields the entry with it, as the answers come: what a host does
// when it starts. It sends nothing, whatever it learns.
//
// The report of an entry that is yielded is that of this asking, also where
// there was no answer; the journal keeps the last evidence. An entry whose report
// could not be recorded is yielded with the error beside it, and the others go
// on. An operation that somebody else closed meanwhile is yielded as it is then.
// When the journal cannot be read, that error is the last thing that is yielded,
// without an entry.
//
// When ctx ends, the operations that have no answer yet are yielded as cancelled
// or timed out, and that is not recorded. A loop that is left early leaves the
// rest open. The options are those of the batch.
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
	// What is known is kept, whatever became of ctx since.
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

// Keep watches every operation that is open, records what is new of each and
// yields the entry with its report, until nothing is open or ctx ends: what a
// host runs in the background. It sends nothing, whatever it learns.
//
// It is [host.Transport.WatchInvocations] over the journal: each entry has its
// own intervals, and what is due at about the same time is asked in one batch.
// As often as the longest interval says (30 seconds, if no option says otherwise)
// it reads the journal again: an operation that was added since is watched too,
// and one that was settled, given up or withdrawn by others is not any more.
//
// A failure to ask is yielded once, as an entry whose report says so, and then
// again where another one takes its place; the journal keeps the last evidence.
// Nothing but evidence, or a person's decision, ends the watching of an entry.
// An entry whose report could not be recorded is yielded with the error beside
// it. When the journal cannot be read, that error is the last thing that is
// yielded, without an entry.
func Keep(ctx context.Context, journal Journal, transport *host.Transport, opts ...host.WatchOption) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := given(journal, transport); err != nil {
			yield(Entry{}, err)
			return
		}
		var failed error // to read the journal
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
			case !isOpen: // an option was not valid
				yield(Entry{}, observation.Err)
				return
			case !yield(learn(ctx, journal, known, observation.Report())):
				return
			}
		}
	}
}
