// Package fault has the errors of the internal packages: their text is safe to
// show and to log, and a public package turns them into errors of its own.
package fault

import (
	"context"
	"errors"
	"syscall"
)

// Error is an error whose text has names, paths and reasons, and never the
// content of a file.
type Error struct {
	// Text has no name of a package in front: whoever shows the error adds it.
	Text string
	// Causes are what errors.Is finds: sentinels, the number of a system's
	// error, the error of a context.
	Causes []error
}

// New makes an error.
func New(text string, causes ...error) error { return &Error{Text: text, Causes: causes} }

// Error gives the text.
func (e *Error) Error() string { return e.Text }

// Unwrap gives what errors.Is looks at.
func (e *Error) Unwrap() []error { return e.Causes }

// System is what the operating system had against doing; kinds are sentinels
// that the error matches besides. Of the system's error only the number is told
// and shown: the rest repeats what doing says.
func System(doing string, err error, kinds ...error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return New(doing+": "+number.Error(), append(kinds, number)...)
	}
	return New(doing+": the system refused", kinds...)
}

// Ended is the error of a context that ended during doing; nil while it has
// not. Kinds are sentinels that the error matches besides.
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
