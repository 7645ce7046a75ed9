package registry

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/fault"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/namedlock"
	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// What a [Store] says with errors.Is.
var (
	// ErrNotFound: the registry has no such connection.
	ErrNotFound error = &Error{text: "registry: no such connection"}
	// ErrNotLoggedIn: the connection is registered and has no credentials.
	ErrNotLoggedIn error = &Error{text: "registry: the connection has no login"}
	// ErrDamaged: what is stored is not what a registry writes, or belongs to
	// another connection. It is neither used nor repaired.
	ErrDamaged error = &Error{text: "registry: what is stored is damaged"}
	// ErrChanged: a newer login or a removal came in the middle of an update
	// and won. Nothing was saved.
	ErrChanged error = &Error{text: "registry: the login was replaced or removed in the meantime"}
	// ErrNotSynced: the change was made, and every process sees it from now on.
	// Only the last step failed, so that it may not outlast a power failure.
	// Credentials that were saved with this error are saved: they are not lost.
	ErrNotSynced error = &Error{text: "registry: the change was made, but may not outlast a power failure"}
	// ErrLocked: what was asked for waited for a lock that others kept, until
	// the store's own limit or the end of the caller's context. Nothing was
	// changed. The error's text names the lock and, for a folder, its port.
	ErrLocked error = &Error{text: "registry: others kept the lock"}
)

// Error is every error that this package makes itself. Its text is safe to
// show and to log: it has names of arguments, connection keys, paths and
// reasons, never a token, never the text of a file and never the value of an
// argument.
//
// errors.Is finds [ErrNotFound], [ErrNotLoggedIn], [ErrDamaged], [ErrChanged],
// [ErrNotSynced], [ErrLocked], feedback.CodeInvalidRequest (a bad argument), the error of a context that
// ended with its cause, or the error of the operating system, whichever
// applies. An Error that somebody else wrapped still is safe for itself: take
// it out with errors.As and show that.
type Error struct {
	text   string
	causes []error
}

// Error is a whole sentence that begins with "registry:".
func (e *Error) Error() string { return e.text }

// Unwrap gives what errors.Is looks at.
func (e *Error) Unwrap() []error { return e.causes }

// prefix begins the text of every error.
const prefix = "registry: "

// fail makes an error; text goes on from prefix.
func fail(text string, causes ...error) error {
	return &Error{text: prefix + text, causes: causes}
}

// invalid is the error of a bad argument; text names it and the rule.
func invalid(text string) error { return fail(text, feedback.CodeInvalidRequest) }

// damaged is the error of stored data that is not used.
func damaged(text string) error { return fail("damaged: "+text, ErrDamaged) }

// translated turns an error of the packages below, which keep files and locks,
// into one of this package. Every other one it gives as it is.
func translated(err error) error {
	if errors.Is(err, privatedir.ErrChanged) {
		return ErrChanged
	}
	below, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	text := below.Text
	causes := make([]error, len(below.Causes))
	for i, cause := range below.Causes {
		switch cause {
		case privatedir.ErrDamaged:
			text, cause = "damaged: "+text, ErrDamaged
		case privatedir.ErrNotSynced:
			cause = ErrNotSynced
		case namedlock.ErrHeld:
			cause = ErrLocked
		default:
			cause = translated(cause)
		}
		causes[i] = cause
	}
	return fail(text, causes...)
}

// missing turns the error of a folder that is gone just now into one for the
// caller, and gives every other one as it is.
func missing(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return translated(fault.System("opening the folder "+path, syscall.ENOENT))
	}
	return err
}

// ended is the error of a context that ended during doing; nil while it has
// not. Kinds are sentinels that the error matches besides.
func ended(ctx context.Context, doing string, kinds ...error) error {
	return translated(fault.Ended(ctx, doing, kinds...))
}

// ready refuses a nil context and one that has ended.
func ready(ctx context.Context, doing string) error {
	if ctx == nil {
		return invalid("the context must not be nil")
	}
	return ended(ctx, doing)
}

// checkKey refuses what does not look like a connection key.
func checkKey(key string) error {
	if !identifier.ConnectionKey(key) {
		return invalid("the connection key must be conn_ and 32 lower-case hexadecimal digits")
	}
	return nil
}
