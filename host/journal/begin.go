package journal

import (
	"context"
	"errors"
	"iter"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
)

// Call is a tool call of a model that asks for an operation.
type Call struct {
	// CallID is the framework's own id of the tool call.
	CallID string
	// ConnectionKey is the connection that the operation goes through.
	ConnectionKey string
	// Tool and AgentRunID are what the operation is sent with, where the host
	// knows them: a receipt of another tool or run is refused. They may be empty.
	Tool, AgentRunID string
	// About says in the host's own words what the operation is for. It may be
	// empty.
	About string
}

// Begin does everything that comes before an operation is sent: it makes the
// invocation id, captures what the operation goes out under, and adds it to the
// journal. Only after it returned without an error may the operation be sent,
// under exactly the entry's Original.
//
// A call that was begun before is [ErrExists], and the entry of then is given
// beside the error: the host answers with what is known of it, and sends
// nothing. Beside any other error there is no entry, and nothing may be sent. An
// error of the capture is a [*feedback.Error].
func Begin(ctx context.Context, journal Journal, transport *host.Transport, call Call) (Entry, error) {
	switch {
	case journal == nil:
		return Entry{}, invalid("the journal is missing")
	case transport == nil:
		return Entry{}, invalid("the transport is missing")
	}
	// First of all, because a connection that cannot be captured any more does
	// not make a call new.
	switch known, err := journal.Find(ctx, call.CallID); {
	case err == nil:
		return known, ErrExists
	case !errors.Is(err, ErrNotFound):
		return Entry{}, err
	}
	original, err := transport.Capture(ctx, call.ConnectionKey, host.NewInvocationID())
	if err != nil {
		return Entry{}, err
	}
	original.Tool, original.AgentRunID = call.Tool, call.AgentRunID
	err = journal.Add(ctx, Entry{CallID: call.CallID, Original: original, About: call.About})
	if err != nil && !errors.Is(err, ErrExists) {
		return Entry{}, err
	}
	known, found := journal.Find(ctx, call.CallID)
	if found != nil {
		return Entry{}, found
	}
	return known, err
}

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
		switch {
		case journal == nil:
			yield(Entry{}, invalid("the journal is missing"))
			return
		case transport == nil:
			yield(Entry{}, invalid("the transport is missing"))
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
