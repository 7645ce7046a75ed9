package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// A question is about one operation.
type question struct {
	id  string
	ask func(context.Context) (*receipt.Receipt, error)

	// The rest is known in the play only: under which heading it stands, its
	// name, what happened, and which progress or code has to come of it.
	group, name, story, want string
}

// An answer is a receipt or a failure.
type answer struct {
	question
	receipt *receipt.Receipt
	failure *feedback.Error
}

// askAll asks one question after the other and shows each answer as it comes.
func askAll(ctx context.Context, questions []question, out *output) error {
	for i, q := range questions {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped; %d of %d operations were not asked about", len(questions)-i, len(questions))
		}
		a := answer{question: q}
		var err error
		if a.receipt, err = q.ask(ctx); err != nil {
			var ok bool
			if a.failure, ok = errors.AsType[*feedback.Error](err); !ok {
				return err // never seen: every error of an inspection is one
			}
		}
		if err := out.show(a); err != nil {
			return err
		}
	}
	return out.sum()
}

// became is the progress of an operation, or the code of the failure to learn it.
func (a answer) became() string {
	if a.failure != nil {
		return string(a.failure.Feedback.Code)
	}
	return string(a.receipt.Progress())
}
