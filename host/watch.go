package host

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// watch is how one original is watched.
type watch struct {
	first, longest time.Duration
	patience       time.Duration
}

// WatchOption changes how [Transport.WatchInvocation] asks.
type WatchOption func(*watch) error

// WithInterval sets how long to wait between two looks: first after something
// new, then doubled with each look that finds nothing new, up to longest, with
// a jitter that keeps to these limits. The default is 1 and 30 seconds. An interval
// that is not positive, or a longest one shorter than the first, is an invalid
// request.
func WithInterval(first, longest time.Duration) WatchOption {
	return func(w *watch) error {
		if first <= 0 || longest < first {
			return invalid("WithInterval: the intervals must be positive, and the longest no shorter than the first.")
		}
		w.first, w.longest = first, longest
		return nil
	}
}

// WithPatience sets for how long transport failures in a row are waited out,
// beginning with the first of them; the last look is when that time is over.
// The default is 5 minutes. Zero means that the first failure ends the watch. A
// negative time is an invalid request.
func WithPatience(limit time.Duration) WatchOption {
	return func(w *watch) error {
		if limit < 0 {
			return invalid("WithPatience: the time must not be negative.")
		}
		w.patience = limit
		return nil
	}
}

// WatchInvocation looks at one original again and again, and yields the first
// observation and then each one that differs from the one before, the time of
// observation aside. It ends once the operation is settled, with that as the
// last observation, or with an error, which is always the last thing that it
// yields: a [*feedback.Error], as from [Transport.InspectInvocation]. The end of
// ctx is such an error.
//
// An answer that the Hub observed earlier than one already seen is no news by
// itself, because answers can come in the wrong order. Two of them in a row that
// advance between themselves, or a settled one that is seen twice, are a clock of
// the Hub that was set back, and count. Transport failures are waited out, a Retry-After of the Hub
// included, for as long as [WithPatience] says and ctx leaves time for another
// look; any other failure ends it at once.
//
// It only looks. It never resumes or approves: an operation that is approved
// and not dispatched stays so until the host continues the original by other
// means. [receipt.ProgressInFlight] and [receipt.ProgressUnresolved] do not
// settle by being looked at, either: they ask of a host to stop watching at
// some time (by ctx), to keep the identifiers, and to have a person reconcile
// the operation with the business system. They are never leave to send it
// again.
func (t *Transport) WatchInvocation(ctx context.Context, original Original, opts ...WatchOption) iter.Seq2[*receipt.Receipt, error] {
	return func(yield func(*receipt.Receipt, error) bool) {
		w := watch{first: time.Second, longest: 30 * time.Second, patience: 5 * time.Minute}
		for _, option := range opts {
			err := error(invalid("An option is nil."))
			if option != nil {
				err = option(&w)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		w.run(ctx, t, original, yield)
	}
}

func (w *watch) run(ctx context.Context, t *Transport, original Original, yield func(*receipt.Receipt, error) bool) {
	var seen chronology
	var failing time.Time // since when; zero while all is well
	for interval := w.first; ; interval += min(interval, w.longest-interval) {
		observed, err := t.InspectInvocation(ctx, original)
		now := time.Now()
		retryAfter := time.Duration(0)
		switch {
		case err == nil:
			failing = time.Time{}
			last := seen.latest
			if !seen.accept(observed) {
				break // not news, whatever it says
			}
			if last == nil || !same(last, observed) {
				interval = w.first
				if !yield(observed, nil) {
					return
				}
			}
			if observed.Settled() {
				return
			}
		case feedback.CategoryOf(err) != feedback.CategoryTransportUnavailable || ctx.Err() != nil:
			yield(nil, ended(err, seen.latest))
			return
		default:
			if failing.IsZero() {
				failing = now
			}
			failure, _ := errors.AsType[*feedback.Error](err)
			retryAfter = failure.RetryAfter
			if now.Add(retryAfter).Sub(failing) >= w.patience {
				yield(nil, err)
				return
			}
		}
		pause := min(max(boundary.Jitter(interval), w.first), w.longest)
		if !failing.IsZero() {
			pause = max(retryAfter, min(pause, w.patience-now.Sub(failing))) // with a last look when patience ends
		}
		if deadline, ok := ctx.Deadline(); ok && !failing.IsZero() && !now.Add(pause).Before(deadline) {
			yield(nil, err) // there will be no other look
			return
		}
		if !sleep(ctx, pause) {
			failure := failures.Ended(ctx)
			failure.InvocationID = original.InvocationID
			yield(nil, ended(failures.New(failure), seen.latest))
			return
		}
	}
}

// ended gives an error that ends a watch. One of the context takes nothing from
// what was seen.
func ended(err error, last *receipt.Receipt) error {
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok || last == nil {
		return err
	}
	same := *failure
	switch same.Feedback.Code {
	case feedback.CodeAgentRequestTimeout, feedback.CodeAgentRequestCancelled:
		same.Feedback.Message = "The watch ended with its context, before the operation was settled. What it saw last is the latest that is known; the original can be inspected again."
	}
	return &same
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
