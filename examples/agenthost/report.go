package main

import (
	"context"
	"errors"
	"io"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// report asks about every open operation and says what is known of each. It
// sends none, whatever it learns.
func report(ctx context.Context, path string, stdin io.Reader, out *printer) error {
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
	out.line("%d of %d operations are open", len(open), len(journal.operations))
	for _, i := range open {
		o := &journal.operations[i]
		observed, err := transport.InspectInvocation(ctx, o.Original)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		learned, became := "progress", ""
		if err == nil {
			o.Progress, o.Open = observed.Progress(), !observed.Settled()
			became = string(o.Progress)
			if err := journal.save(); err != nil {
				return err
			}
		} else {
			// No error closes an operation: none of them means that it did
			// not happen.
			learned, became = "no answer", string(feedback.CodeOf(err))
		}
		stays := "closed"
		if o.Open {
			stays = "stays open"
		}
		out.line("")
		out.line("%s", receipt.Printable(o.About))
		out.labelled("  "+learned, 16, became+", "+stays)
		out.labelled("  to the model", 16, forModel(observed, err))
	}
	return out.err
}

// forModel gives what a model is told about an operation: what the evidence
// says, or why there is none. Neither is ever leave to send it again.
func forModel(observed *receipt.Receipt, err error) string {
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		return failure.Feedback.Message
	}
	return observed.Progress().Sentence()
}
