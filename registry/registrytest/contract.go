package registrytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/bailinghub/bailinghub-go/registry"
)

// A paragraph is one of the contract at [registry.Store]. Whatever the suite
// finds wrong with a store says which one to read.
type paragraph string

const (
	reads     paragraph = "Reads"
	errs      paragraph = "Errors"
	exclusion paragraph = "Exclusion"
	once      paragraph = "At most once"
	saving    paragraph = "Saving"
	failing   paragraph = "Failing"
)

// breaks fails the test: a store breaks a paragraph of the contract.
func (s *scene) breaks(p paragraph, format string, args ...any) {
	s.Helper()
	s.Error(p.cited(fmt.Sprintf(format, args...)))
}

// cited gives a failure with the paragraph it comes from.
func (p paragraph) cited(failure string) string {
	return failure + " [registry.Store: " + string(p) + "]"
}

var sentinels = [...]struct {
	err  error
	name string
}{
	{registry.ErrNotFound, "registry.ErrNotFound"},
	{registry.ErrNotLoggedIn, "registry.ErrNotLoggedIn"},
	{registry.ErrDamaged, "registry.ErrDamaged"},
	{registry.ErrChanged, "registry.ErrChanged"},
	{context.Canceled, "context.Canceled"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
}

// describe gives an error for the person who writes the store: one that
// errors.Is finds has the name that it has in Go.
func describe(err error) string {
	if err == nil {
		return "no error"
	}
	for _, known := range sentinels {
		switch {
		case err == known.err:
			return known.name
		case errors.Is(err, known.err):
			return fmt.Sprintf("%q (%s)", err, known.name)
		}
	}
	return fmt.Sprintf("%q", err)
}
