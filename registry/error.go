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

// The sentinels that errors.Is finds in the errors of a [Store].
var (
	// ErrNotFound: the registry has no such connection.
	ErrNotFound error = &Error{text: "registry: no such connection"}
	// ErrNotLoggedIn: the connection is registered and has no credentials.
	ErrNotLoggedIn error = &Error{text: "registry: the connection has no login"}
	// ErrDamaged: the stored data are not what a registry writes, or belong to
	// another connection. They are neither used nor repaired.
	ErrDamaged error = &Error{text: "registry: what is stored is damaged"}
	// ErrChanged: the login was replaced or removed while an update ran. The
	// update saved nothing.
	ErrChanged error = &Error{text: "registry: the login was replaced or removed in the meantime"}
	// ErrNotSynced: the change was made, and every process sees it. Only the sync
	// to the disk failed, so that a power failure may undo the change. Credentials
	// that a call with this error was to save are saved.
	ErrNotSynced error = &Error{text: "registry: the change was made, but may not outlast a power failure"}
	// ErrLocked: the call waited for a lock that others held, until the store's own
	// limit or the end of the caller's context. It changed nothing. The text of the
	// error names the lock and, for a folder, its port.
	ErrLocked error = &Error{text: "registry: others kept the lock"}
)

// Error is the type of every error that this package makes itself. Its text is safe
// to show and to log: it has names of arguments, connection keys, paths and reasons,
// never a token, never the text of a file and never the value of an argument.
//
// errors.Is finds [ErrNotFound], [ErrNotLoggedIn], [ErrDamaged], [ErrChanged],
// [ErrNotSynced], [ErrLocked], feedback.CodeInvalidRequest (a bad argument), the
// error of a context that ended and its cause, or the error of the operating system,
// whichever applies. Where other code has wrapped an Error, the whole text may no
// longer be safe: take the Error out with errors.As and show its text.
type Error struct {
	text   string
	causes []error
}

// Error gives the text, which begins with "registry:".
func (e *Error) Error() string { return e.text }

// Unwrap gives the errors that errors.Is and errors.As find.
func (e *Error) Unwrap() []error { return e.causes }

// prefix begins the text of every error.
const prefix = "registry: "

// fail makes an error of the prefix and text.
func fail(text string, causes ...error) error {
	return &Error{text: prefix + text, causes: causes}
}

// invalid makes the error of a bad argument. text names the argument and the rule.
func invalid(text string) error { return fail(text, feedback.CodeInvalidRequest) }

// damaged makes the error of stored data that are not valid.
func damaged(text string) error { return fail("damaged: "+text, ErrDamaged) }

// translated turns an error of the internal packages that keep files and locks into
// one of this package. It gives every other error as it is.
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

// missing turns fs.ErrNotExist, the error of a folder that was removed a moment ago,
// into an error of this package. It gives every other error as it is.
func missing(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return translated(fault.System("opening the folder "+path, syscall.ENOENT))
	}
	return err
}

// ended makes the error of a context that ended during what doing describes. It
// gives nil while the context has not ended. The error also matches kinds.
func ended(ctx context.Context, doing string, kinds ...error) error {
	return translated(fault.Ended(ctx, doing, kinds...))
}

// ready returns an error for a nil context and for one that has ended.
func ready(ctx context.Context, doing string) error {
	if ctx == nil {
		return invalid("the context must not be nil")
	}
	return ended(ctx, doing)
}

// checkKey returns an error for what has not the form of a connection key.
func checkKey(key string) error {
	if !identifier.ConnectionKey(key) {
		return invalid("the connection key must be conn_ and 32 lower-case hexadecimal digits")
	}
	return nil
}
