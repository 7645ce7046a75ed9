package sqldb

import (
	"context"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// Package is the package that uses the database, and makes its errors. Their text
// has names of arguments and the text of the driver's error, but never a token or a
// key.
type Package struct {
	// Name is the name of the package, with which the text begins.
	Name string
	// BadArgument is the sentinel that the error of a bad argument matches.
	BadArgument error
}

// Fail makes an error with the name of the package and text.
func (p Package) Fail(text string, causes ...error) error {
	return fault.New(p.Name+": "+text, causes...)
}

// Invalid makes the error of a bad argument. text names the argument and the rule.
func (p Package) Invalid(text string) error { return p.Fail(text, p.BadArgument) }

// Ready returns an error for a nil context and for one that has ended.
func (p Package) Ready(ctx context.Context, doing string) error {
	if ctx == nil {
		return p.Invalid("the context must not be nil")
	}
	return fault.Ended(ctx, p.Name+": "+doing)
}

// Ended makes the error of a context that ended during what doing describes. It
// gives nil while the context has not ended.
func (p Package) Ended(ctx context.Context, doing string) error {
	return fault.Ended(ctx, p.Name+": "+doing)
}
