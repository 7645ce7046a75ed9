package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// report asks about every open operation and says what is known of each. It
// sends none, whatever it learns.
func report(ctx context.Context, path string, stdin io.Reader, stdout io.Writer) error {
	journal, err := openJournal(path)
	if err != nil {
		return err
	}
	login, err := readLogin(ctx, stdin)
	if err != nil {
		return err
	}
	transport, err := host.New(login.store)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()

	open := journal.open()
	fmt.Fprintf(stdout, "%d of %d operations are open\n", len(open), len(journal.operations))
	for _, i := range open {
		o := &journal.operations[i]
		observed, err := transport.InspectInvocation(ctx, o.Original)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		became := ""
		if err == nil {
			o.Progress, o.Open = observed.Progress(), !observed.Settled()
			became = string(o.Progress)
			if err := journal.save(); err != nil {
				return err
			}
		} else {
			// No error closes an operation: none of them means that it did
			// not happen.
			became = "no answer, " + string(feedback.CodeOf(err))
		}
		stays := "closed"
		if o.Open {
			stays = "stays open"
		}
		fmt.Fprintf(stdout, "\n%s: %s, %s\n", receipt.Printable(o.About), became, stays)
		for i, line := range screen.Wrap(forModel(observed, err), screen.Columns-20) {
			label := ""
			if i == 0 {
				label = "to the model"
			}
			fmt.Fprintf(stdout, "  %s  %s\n", screen.Pad(label, 12), line)
		}
	}
	return nil
}

// forModel gives what a model is told about an operation: what the evidence
// says, or why there is none. Neither is ever leave to send it again.
func forModel(observed *receipt.Receipt, err error) string {
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		return failure.Feedback.Message
	}
	return observed.Progress().Sentence()
}
