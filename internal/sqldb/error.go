package sqldb

import (
	"context"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// Package is the package that errors come from. Their text has names of
// arguments and what the database's driver said, never a token and never a key.
type Package struct {
	// Name begins the text.
	Name string
	// BadArgument is what the error of a bad argument matches.
	BadArgument error
}

// Fail makes an error; text goes on from the name of the package.
func (p Package) Fail(text string, causes ...error) error {
	return fault.New(p.Name+": "+text, causes...)
}

// Invalid is the error of a bad argument; text names it and the rule.
func (p Package) Invalid(text string) error { return p.Fail(text, p.BadArgument) }

// Ready refuses a nil context and one that has ended.
func (p Package) Ready(ctx context.Context, doing string) error {
	if ctx == nil {
		return p.Invalid("the context must not be nil")
	}
	return fault.Ended(ctx, p.Name+": "+doing)
}

// Ended is the error of a context that ended during doing; nil while it has
// not.
func (p Package) Ended(ctx context.Context, doing string) error {
	return fault.Ended(ctx, p.Name+": "+doing)
}
