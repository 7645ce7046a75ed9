package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// report asks about every open operation, all at once, and says what is known
// of each. Those that are not settled, or that the Hub could not be asked about
// now, it watches for a while. It sends none, whatever it learns.
func report(ctx context.Context, path string, stdin io.Reader, out *printer, watch, look time.Duration) error {
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
	answers := map[*operation]host.Observation{}
	originals, operations := []host.Original{}, map[host.Original]*operation{}
	for _, i := range open {
		o := &journal.operations[i]
		originals = append(originals, o.Original)
		operations[o.Original] = o
	}
	for answer := range transport.InspectInvocations(ctx, originals) {
		if ctx.Err() != nil {
			break
		}
		o := operations[answer.Original]
		answers[o] = answer
		if err := journal.learn(o, answer.Receipt); err != nil {
			return err
		}
		out.passing("%d of %d asked about", len(answers), len(open))
	}
	out.passing("")
	if ctx.Err() != nil {
		return ctx.Err()
	}

	var unsettled []*operation
	for _, i := range open {
		o := &journal.operations[i]
		tell(out, o, answers[o].Receipt, answers[o].Err)
		if o.Open && (answers[o].Err == nil || feedback.CategoryOf(answers[o].Err) == feedback.CategoryTransportUnavailable) {
			unsettled = append(unsettled, o)
		}
	}
	if watch > 0 && len(unsettled) > 0 && out.err == nil {
		if err := watchAll(ctx, transport, journal, unsettled, out, watch, look); err != nil {
			return err
		}
	}
	return out.err
}

// news is what a watch has seen of an operation.
type news struct {
	*operation
	observed *receipt.Receipt
	err      error
}

// watchAll watches operations until they are settled, or for so long. To look
// at one is all that it does: what waits for a person waits on.
func watchAll(ctx context.Context, transport *host.Transport, journal *journal, operations []*operation, out *printer, limit, look time.Duration) error {
	out.line("")
	out.line("watching %d of them for %v", len(operations), limit)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen := make(chan news)
	var watches sync.WaitGroup
	for _, o := range operations {
		watches.Go(func() {
			for observed, err := range transport.WatchInvocation(limited, o.Original, host.WithInterval(look, 30*look)) {
				seen <- news{o, observed, err}
			}
		})
	}
	go func() { watches.Wait(); close(seen) }()

	var failed error
	for n := range seen {
		known := n.Progress
		switch {
		case n.err == nil && n.observed.Progress() == known && !n.observed.Settled():
			continue // something of the evidence changed, and not how far it got
		case n.err != nil && limited.Err() != nil, failed != nil:
			continue // time is up
		}
		if failed = journal.learn(n.operation, n.observed); failed != nil {
			cancel()
			continue
		}
		tell(out, n.operation, n.observed, n.err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failed
}

// learn keeps what a receipt says. No error closes an operation: none of them
// means that it did not happen.
func (j *journal) learn(o *operation, observed *receipt.Receipt) error {
	if observed == nil {
		return nil
	}
	o.Progress, o.Open = observed.Progress(), !observed.Settled()
	return j.save()
}

// tell says what is known of an operation, and what a model may hear of it.
func tell(out *printer, o *operation, observed *receipt.Receipt, err error) {
	learned, became := "progress", string(o.Progress)
	if err != nil {
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

// forModel gives what a model is told about an operation: what the evidence
// says, or why there is none. Neither is ever leave to send it again.
func forModel(observed *receipt.Receipt, err error) string {
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		return failure.Feedback.Message
	}
	return observed.Progress().Sentence()
}
