// Package fault has the error type of the internal packages. Its text is safe to
// show and to log. A public package turns such an error into one of its own.
package fault

import (
	"context"
	"errors"
	"syscall"
)

// Error is an error whose text has names, paths and reasons, and never the
// content of a file.
type Error struct {
	// Text does not begin with the name of a package: the package that shows the
	// error adds its own.
	Text string
	// Causes are what errors.Is finds: sentinels, the errno of the system's
	// error, the error of a context.
	Causes []error
}

// New makes an error.
func New(text string, causes ...error) error { return &Error{Text: text, Causes: causes} }

// Error gives the text.
func (e *Error) Error() string { return e.Text }

// Unwrap gives what errors.Is looks at.
func (e *Error) Unwrap() []error { return e.Causes }

// System makes the error of an operating system that refused what doing
// describes. The error also matches kinds. It takes only the errno from the
// system's error, because the rest of that repeats the operation and the path,
// which doing names already.
func System(doing string, err error, kinds ...error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return New(doing+": "+number.Error(), append(kinds, number)...)
	}
	return New(doing+": the system refused", kinds...)
}

// Ended makes the error of a context that ended during what doing describes. It
// gives nil while the context has not ended. The error also matches kinds.
func Ended(ctx context.Context, doing string, kinds ...error) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	how := ": cancelled by the caller"
	if errors.Is(err, context.DeadlineExceeded) {
		how = ": the caller's deadline passed"
	}
	return New(doing+how, append(kinds, err, context.Cause(ctx))...)
}
