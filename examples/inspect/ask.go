package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// A question is about one operation.
type question struct {
	id  string
	ask func(context.Context) host.Observation

	// The rest is known in the play only: under which heading it stands, its
	// name, what happened, and which progress or code has to come of it.
	group, name, story, want string
}

// An answer is a receipt or a failure, and the report of either.
type answer struct {
	question
	report  host.Report
	receipt *receipt.Receipt
	failure *feedback.Error
}

// askAll asks one question after the other and shows each answer as it comes.
func askAll(ctx context.Context, questions []question, out *output) error {
	for i, q := range questions {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped; %d of %d operations were not asked about", len(questions)-i, len(questions))
		}
		observed := q.ask(ctx)
		a := answer{question: q, report: observed.Report(), receipt: observed.Receipt}
		if observed.Err != nil {
			var ok bool
			if a.failure, ok = errors.AsType[*feedback.Error](observed.Err); !ok {
				return observed.Err // never seen: every error of an inspection is one
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
	return string(a.report.Progress) + string(a.report.Code)
}
