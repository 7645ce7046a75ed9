package sqldb

import (
	"context"
	"errors"

	"github.com/bailinghub/bailinghub-go/feedback"
)

// Error is an error whose text is safe to show: it has names of arguments and
// what the database's driver said, never a token and never a key.
type Error struct {
	text   string
	causes []error
}

// Error is a sentence that begins with the name of the package that made it.
func (e *Error) Error() string { return e.text }

// Unwrap gives what errors.Is looks at.
func (e *Error) Unwrap() []error { return e.causes }

// Package is the name of the package whose errors these are.
type Package string

// Fail makes an error; text goes on from the name of the package.
func (p Package) Fail(text string, causes ...error) error {
	return &Error{text: string(p) + ": " + text, causes: causes}
}

// Invalid is the error of a bad argument; text names it and the rule.
func (p Package) Invalid(text string) error { return p.Fail(text, feedback.CodeInvalidRequest) }

// Ready refuses a nil context and one that has ended.
func (p Package) Ready(ctx context.Context, doing string) error {
	if ctx == nil {
		return p.Invalid("the context must not be nil")
	}
	return p.Ended(ctx, doing)
}

// Ended is the error of a context that ended during doing; nil while it has
// not.
func (p Package) Ended(ctx context.Context, doing string) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	how := ": cancelled by the caller"
	if errors.Is(err, context.DeadlineExceeded) {
		how = ": the caller's deadline passed"
	}
	return p.Fail(doing+how, err, context.Cause(ctx))
}
