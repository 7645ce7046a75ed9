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
	// Tool and AgentRunID are those that the operation is sent with, where the host
	// knows them. An inspection refuses a receipt of another tool or run. They may be
	// empty.
	Tool, AgentRunID string
	// About says in the host's own words what the operation is for. It may be
	// empty.
	About string
}

// Begin does everything that has to be done before an operation is sent: it makes the
// invocation id, captures the authorization of the connection, and adds the operation to
// the journal. The host may send the operation only after Begin has returned without an
// error, and only with the id and the authorization of the entry's Original.
//
// Where the call was begun before, the error matches [ErrExists], and Begin gives the entry
// of that time with it: the host answers with what it knows of that operation, and sends
// nothing. With any other error there is no entry, and nothing may be sent. An error of the
// capture is a [*feedback.Error].
func Begin(ctx context.Context, journal Journal, transport *host.Transport, call Call) (Entry, error) {
	if err := given(journal, transport); err != nil {
		return Entry{}, err
	}
	// This comes first, because a repeated call must be noticed even where its
	// connection can no longer be captured.
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

// given returns an error where the journal or the transport is missing.
func given(journal Journal, transport *host.Transport) error {
	switch {
	case journal == nil:
		return invalid("the journal is missing")
	case transport == nil:
		return invalid("the transport is missing")
	}
	return nil
}
