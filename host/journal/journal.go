package journal

import (
	"context"
	"errors"
	"iter"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
)

// Journal is the durable record of the operations that a host sends. [File] is a journal in
// a file, and package sqljournal has one in a database; a host may implement another.
// Package journaltest has the suite that every implementation must pass.
//
// # For implementers
//
// A journal is safe for concurrent use by goroutines and, where it lets several processes
// open it, by all of them. The methods Prepare, BeginSending, CheckWithdraw, Learn and
// Abandon of [Entry] decide how an entry may change. Reading an entry, calling such a method
// and writing the result are one step: no other change may happen in between.
//
// Durable. When Add, Sending, Withdraw, GiveUp, or a Record that closes an entry returns
// without an error, its change outlasts the end of the process and a crash of the machine.
// When Add returns an error, the host must not send anything. The entry may have been added
// nevertheless, which does no harm. A Record that leaves the entry open outlasts at least the
// end of the process.
//
// Unique. There is at most one entry for a call id, and at most one for an invocation id,
// closed entries included. Of many concurrent Adds with the same id, exactly one succeeds and
// the others return [ErrExists]. An entry that was withdrawn no longer exists, and its call
// id can be used again.
//
// Whole. A read gives exactly what was written: every character of a text, and every time as
// the same instant to the millisecond. A read that begins after a change has returned gives
// that change or a later one.
//
// Closed. An entry that is settled or given up does not change: every change of it returns
// [ErrClosed]. It can be found for as long as the journal says, which is longer than a
// framework may repeat a call.
//
// Open. The sequence has every entry that is open when it begins and still open when its turn
// comes, each once, in the order in which they were added. It may leave out entries that are
// added meanwhile. All methods may be called within the loop. An error is the last thing that
// it yields. A loop that ends early leaves nothing open.
//
// Errors. The error matches [ErrNotFound] for an id that the journal does not have, and
// [feedback.CodeInvalidRequest] for a bad argument. With a context that has ended, a call
// does nothing and its error matches ctx.Err(). With an error, every other result is the zero
// value. The text of an error is safe to show: it quotes nothing of an entry.
type Journal interface {
	// Add keeps an operation before it is sent. The host sends it only where Add
	// returned no error. [ErrExists] means that this call was begun before: the host
	// does not send it again, and Find gives what is known of it.
	Add(ctx context.Context, entry Entry) error
	// Sending records that the host begins to send the operation of a call. The host
	// calls it right before it sends the first byte. From then on the operation cannot
	// be withdrawn. A second call returns [ErrSending].
	Sending(ctx context.Context, callID string) error
	// Withdraw removes an operation that was never sent, which only the host itself can
	// know. After Sending it returns [ErrSending].
	Withdraw(ctx context.Context, callID string) error
	// Find gives the entry of a call.
	Find(ctx context.Context, callID string) (Entry, error)
	// FindInvocation gives the entry of an invocation.
	FindInvocation(ctx context.Context, invocationID string) (Entry, error)
	// Open gives the entries that are open.
	Open(ctx context.Context) iter.Seq2[Entry, error]
	// Record records a report of an open operation, and closes the entry where the
	// report is answered and settled. It gives the changed entry.
	Record(ctx context.Context, invocationID string, report host.Report) (Entry, error)
	// GiveUp closes an open operation without evidence, because a person decided so.
	// The note says who decided, and why.
	GiveUp(ctx context.Context, invocationID, note string) error
}

// The sentinels that errors.Is finds in the errors of a [Journal].
var (
	// ErrExists: the journal has an entry for this call or invocation already. Do not
	// send the operation again.
	ErrExists error = &failure{text: "journal: there is an operation of this call already"}
	// ErrNotFound: the journal has no such entry.
	ErrNotFound error = &failure{text: "journal: there is no such operation"}
	// ErrClosed: the entry is settled or given up, and does not change any more.
	ErrClosed error = &failure{text: "journal: the operation is closed"}
	// ErrSending: the host has already begun to send the operation.
	ErrSending error = &failure{text: "journal: the sending of the operation has begun, so it may have been sent"}
	// ErrInUse: another process, or this one, has the journal open.
	ErrInUse error = &failure{text: "journal: it is in use"}
	// ErrDamaged: the journal has content that this package does not write. It is
	// neither used nor repaired.
	ErrDamaged error = &failure{text: "journal: it is damaged"}
	// ErrUnusable: the journal was closed, or failed in such a way that it has to be
	// opened again.
	ErrUnusable error = &failure{text: "journal: it has to be opened again"}
)

// failure is the type of every error that this package makes itself.
type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.causes }

// fail makes an error of the name of the package and text.
func fail(text string, causes ...error) error {
	return &failure{text: "journal: " + text, causes: causes}
}

func invalid(text string) error { return fail(text, feedback.CodeInvalidRequest) }

func errClosed(e Entry) error {
	return fail("the operation is closed ("+string(e.State)+") and does not change any more", ErrClosed)
}

func errSending() error {
	return fail("the sending of the operation has begun, so it may have been sent", ErrSending)
}

// ready returns an error for a context that is nil or has ended.
func ready(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context is nil")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fail("the caller's deadline passed before anything was done", ctx.Err(), context.Cause(ctx))
	case ctx.Err() != nil:
		return fail("the caller cancelled before anything was done", ctx.Err(), context.Cause(ctx))
	}
	return nil
}
