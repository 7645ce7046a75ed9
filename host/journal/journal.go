package journal

import (
	"context"
	"errors"
	"iter"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
)

// Journal is the durable record of the operations that a host sends. [File] is
// one; a host may back another with its own database. Package journaltest has
// the suite that every implementation must pass.
//
// # For implementers
//
// A journal is safe for concurrent use, by all processes that open the same one
// where it lets several do so. What an [Entry] may become is decided by its
// methods Prepare, BeginSending, CheckWithdraw, Learn and Abandon: reading,
// deciding and writing are one step, which nothing comes between.
//
// Durable. When Add, Sending, Withdraw, GiveUp or a Record that closes an entry
// returns without an error, what it did outlasts the end of the process and of
// the machine. When Add returns an error, nothing may be sent: the entry may be
// there all the same, and does no harm then. A Record that leaves the entry open
// outlasts the end of the process at least.
//
// Unique. There is at most one entry of a call id, and one of an invocation id,
// closed ones included. Of many Adds with the same one at once, exactly one is
// done and the others are [ErrExists]. An entry that was withdrawn is gone, and
// its call id is free again.
//
// Whole. What is read is what was given: every letter of a text, every time to
// the millisecond and as the same instant. What is read is never older than a
// change that has returned.
//
// Closed. An entry that is settled or given up stays as it is: every change of
// it is [ErrClosed]. It can be found for as long as the journal says, which is
// longer than a framework repeats a call.
//
// Open. The sequence has every entry that is open when it begins and still is
// when its turn comes, each once and in the order in which they were added.
// Entries added meanwhile may be left out. All methods may be called within the
// loop. An error is the last thing that it yields. A loop that is left early
// leaves nothing behind.
//
// Errors. An id that is not there is [ErrNotFound]; a bad argument matches
// [feedback.CodeInvalidRequest]. A context that had ended before does nothing,
// and its error matches ctx.Err(). Beside an error stands the zero value. Text
// of errors is safe to show: it holds no word of what the entries say.
type Journal interface {
	// Add keeps an operation before it is sent. Only a host that got no error
	// sends it. [ErrExists] means that this call was made before: it is not sent
	// again, and Find tells what became of it.
	Add(ctx context.Context, entry Entry) error
	// Sending notes that the host begins to send the operation of a call, right
	// before the first byte leaves. From then on it cannot be withdrawn. A second
	// time is [ErrSending].
	Sending(ctx context.Context, callID string) error
	// Withdraw takes an operation out again that was never sent: only the host
	// knows that of its own request. After Sending it is [ErrSending].
	Withdraw(ctx context.Context, callID string) error
	// Find gives the entry of a call.
	Find(ctx context.Context, callID string) (Entry, error)
	// FindInvocation gives the entry of an invocation.
	FindInvocation(ctx context.Context, invocationID string) (Entry, error)
	// Open gives the entries that are open.
	Open(ctx context.Context) iter.Seq2[Entry, error]
	// Record notes a report of an open operation, and closes it where the report
	// has an answer that is settled. It gives the entry as it is then.
	Record(ctx context.Context, invocationID string, report host.Report) (Entry, error)
	// GiveUp closes an open operation without evidence, because a person decided
	// so. The note says who and why.
	GiveUp(ctx context.Context, invocationID, note string) error
}

// What a [Journal] says with errors.Is.
var (
	// ErrExists: the journal has an entry of this call or invocation. The
	// operation is not sent again.
	ErrExists error = &failure{text: "journal: there is an operation of this call already"}
	// ErrNotFound: the journal has no such entry.
	ErrNotFound error = &failure{text: "journal: there is no such operation"}
	// ErrClosed: the entry is settled or given up, and does not change any more.
	ErrClosed error = &failure{text: "journal: the operation is closed"}
	// ErrSending: the sending of the operation had begun already.
	ErrSending error = &failure{text: "journal: the sending of the operation has begun, so it may have been sent"}
	// ErrInUse: another process, or this one, has the journal open.
	ErrInUse error = &failure{text: "journal: it is in use"}
	// ErrDamaged: the journal is not what this package writes. It is neither
	// used nor repaired.
	ErrDamaged error = &failure{text: "journal: it is damaged"}
	// ErrUnusable: the journal was closed, or failed before in a way that only
	// opening it again can mend.
	ErrUnusable error = &failure{text: "journal: it has to be opened again"}
)

// failure is every error that this package makes itself.
type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.causes }

// fail makes an error; text goes on from the name of the package.
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

// ready refuses a context that is nil or has ended.
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
