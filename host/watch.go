package host

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// longestSeldom is the longest pause after failures that are no transport
// failures, where the watch goes on all the same, unless its own are longer.
const longestSeldom = 5 * time.Minute

// watch is how originals are watched.
type watch struct {
	first, longest time.Duration
	patience       time.Duration
	concurrency    int // of many
	// open gives anew what is to be watched; nil where that was given once.
	open func(context.Context) iter.Seq2[Original, error]
}

// WatchOption changes how [Transport.WatchInvocation] and
// [Transport.WatchInvocations] ask.
type WatchOption interface{ applyToWatch(*watch) error }

type watchOption func(*watch) error

func (o watchOption) applyToWatch(w *watch) error { return o(w) }

func newWatch(opts []WatchOption) (watch, error) {
	w := watch{first: time.Second, longest: 30 * time.Second, patience: 5 * time.Minute, concurrency: defaultConcurrency}
	for _, option := range opts {
		if option == nil {
			return w, invalid("An option is nil.")
		}
		if err := option.applyToWatch(&w); err != nil {
			return w, err
		}
	}
	return w, nil
}

// WithInterval sets how long to wait between two looks: first after something
// new, then doubled with each look that finds nothing new, up to longest, with
// a jitter that keeps to these limits. The default is 1 and 30 seconds. An interval
// that is not positive, or a longest one shorter than the first, is an invalid
// request.
func WithInterval(first, longest time.Duration) WatchOption {
	return watchOption(func(w *watch) error {
		if first <= 0 || longest < first {
			return invalid("WithInterval: the intervals must be positive, and the longest no shorter than the first.")
		}
		w.first, w.longest = first, longest
		return nil
	})
}

// WithPatience sets for how long transport failures in a row are waited out,
// beginning with the first of them; the last look is when that time is over.
// The default is 5 minutes. Zero means that the first failure ends the watch. A
// negative time is an invalid request.
func WithPatience(limit time.Duration) WatchOption {
	return watchOption(func(w *watch) error {
		if limit < 0 {
			return invalid("WithPatience: the time must not be negative.")
		}
		w.patience = limit
		return nil
	})
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
		w, err := newWatch(opts)
		if err != nil {
			yield(nil, err)
			return
		}
		e := watched{original: original, interval: w.first}
		for {
			observed, err := t.InspectInvocation(ctx, original)
			v := w.judge(ctx, &e, observed, err, boundary.Jitter)
			switch {
			case v.news && !yield(observed, nil):
				return
			case v.err != nil:
				yield(nil, v.err)
				return
			case v.over:
				return
			case !sleep(ctx, v.pause):
				yield(nil, e.endedWith(ctx))
				return
			}
		}
	}
}

// watched is what a watch knows of one original.
type watched struct {
	original Original
	seen     chronology
	failing  time.Time     // since when; zero while all is well
	interval time.Duration // until the next look, before its jitter
	due      time.Time     // the next look, where many are watched
	slack    time.Duration // by how much it may be earlier
	seldom   time.Duration // the last pause after a failure that is no transport failure
	told     feedback.Code // of the failure that was told last
	over     bool
}

// verdict is what a look means for the watch of an original.
type verdict struct {
	news  bool          // the receipt is to be told
	err   error         // is to be told
	over  bool          // there is no other look
	pause time.Duration // until the next one
	exact bool          // which must not be earlier
}

// judge decides what a look means.
func (w *watch) judge(ctx context.Context, e *watched, observed *receipt.Receipt, err error, jitter func(time.Duration) time.Duration) verdict {
	now := time.Now()
	var v verdict
	var retryAfter time.Duration
	switch {
	case err == nil:
		e.failing, e.seldom, e.told = time.Time{}, 0, ""
		last := e.seen.latest
		if !e.seen.accept(observed) {
			break // not news, whatever it says
		}
		if last == nil || !same(last, observed) {
			e.interval = w.first
			v.news = true
		}
		if v.over = observed.Settled(); v.over {
			return v
		}
	case ctx != nil && ctx.Err() != nil:
		return verdict{err: ended(err, e.seen.latest), over: true}
	default:
		isTransport := feedback.CategoryOf(err) == feedback.CategoryTransportUnavailable
		failure, _ := errors.AsType[*feedback.Error](err)
		retryAfter = failure.RetryAfter
		if e.failing.IsZero() {
			e.failing = now
		}
		switch {
		case w.open != nil: // only what is no longer open ends it
			if code := feedback.CodeOf(err); code != e.told {
				e.told, v.err = code, err
			}
			if !isTransport {
				e.seldom = max(w.longest, min(2*min(e.seldom, math.MaxInt64/2), longestSeldom))
				retryAfter = max(retryAfter, e.seldom)
			}
		case !isTransport, now.Add(retryAfter).Sub(e.failing) >= w.patience:
			return verdict{err: ended(err, e.seen.latest), over: true}
		}
	}
	v.pause = min(max(jitter(e.interval), w.first), w.longest)
	e.interval += min(e.interval, w.longest-e.interval)
	if !e.failing.IsZero() {
		if w.open == nil { // with a last look when patience ends
			v.pause = min(v.pause, w.patience-now.Sub(e.failing))
		}
		v.pause, v.exact = max(retryAfter, v.pause), true
		if deadline, ok := ctx.Deadline(); ok && w.open == nil && !now.Add(v.pause).Before(deadline) {
			return verdict{err: err, over: true} // there will be no other look
		}
	}
	return v
}

// endedWith is the error of a watch whose context has ended between two looks.
func (e *watched) endedWith(ctx context.Context) error {
	failure := failures.EndedDuring(ctx, "the next look")
	failure.InvocationID = e.original.InvocationID
	return ended(failures.New(failure), e.seen.latest)
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
