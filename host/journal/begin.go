package journal

import (
	"context"
	"errors"

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
	if err := given(journal, transport); err != nil {
		return Entry{}, err
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

// given checks the arguments of those that ask.
func given(journal Journal, transport *host.Transport) error {
	switch {
	case journal == nil:
		return invalid("the journal is missing")
	case transport == nil:
		return invalid("the transport is missing")
	}
	return nil
}
