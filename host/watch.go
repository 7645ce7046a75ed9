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

// longestSeldom limits the pause of a watch with WithOpen after failures that are not
// transport failures. It has no effect where the longest interval is longer.
const longestSeldom = 5 * time.Minute

// watch has the options of a watch.
type watch struct {
	first, longest time.Duration
	patience       time.Duration
	concurrency    int // of a watch of many
	// open lists the originals to watch, again and again; nil for a fixed list.
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

// WithInterval sets how long a watch waits between two inspections: first after one that
// found something new, then twice as long after each one that found nothing new, up to
// longest. The jitter keeps to these limits. The default is 1 and 30 seconds. An interval
// that is not positive, or a longest interval that is shorter than the first, is an invalid
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

// WithPatience sets how long a watch goes on through transport failures in a row. The time
// begins with the first failure, and a last inspection is made at its end. The default is 5
// minutes. Zero means that the first failure ends the watch. A negative time is an invalid
// request.
func WithPatience(limit time.Duration) WatchOption {
	return watchOption(func(w *watch) error {
		if limit < 0 {
			return invalid("WithPatience: the time must not be negative.")
		}
		w.patience = limit
		return nil
	})
}

// WatchInvocation inspects one original again and again. It yields the first receipt, and
// then each receipt that differs from the one before in more than the time of observation.
// It ends when the operation is settled, with that receipt as the last one, or with an
// error. An error is always the last thing that it yields, and is a [*feedback.Error], as
// from [Transport.InspectInvocation]. The end of ctx is such an error.
//
// A receipt that the Hub observed earlier than one that was seen before is not yielded,
// because answers can come in the wrong order. But two such receipts in a row of which the
// second one is the later one, or a settled one that comes twice, mean that the clock of the
// Hub was set back; that receipt is yielded.
//
// The watch goes on through transport failures, and waits as long as the Hub asks for by
// Retry-After, as long as [WithPatience] says and ctx leaves time for another inspection.
// Any other failure ends it at once.
//
// A watch only inspects, and never resumes or approves: an operation that is approved and
// not dispatched stays so until the host continues the original by other means. Watching
// does not settle [receipt.ProgressInFlight] and [receipt.ProgressUnresolved] either. After
// some time a host should stop watching such an operation (by ctx), keep its identifiers,
// and have a person reconcile it with the business system. It must never send the operation
// again because of them.
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

// watched is the state of one original in a watch.
type watched struct {
	original Original
	seen     chronology
	failing  time.Time     // when the failures in a row began; zero where there are none
	interval time.Duration // until the next inspection, without its jitter
	due      time.Time     // when the next inspection is due, in a watch of many
	slack    time.Duration // how much earlier than due it may be
	seldom   time.Duration // the last pause after a failure that is not a transport failure
	reported feedback.Code // the code of the failure that was yielded last
	over     bool          // the original is not inspected any more
}

// verdict is what the outcome of an inspection means for the watch of its original.
type verdict struct {
	news  bool          // yield the receipt
	err   error         // yield this error; nil for none
	over  bool          // there is no next inspection
	pause time.Duration // until the next inspection
	exact bool          // the next inspection must not be earlier than after pause
}

// judge decides what the outcome of an inspection means. ctx is that of the watch.
func (w *watch) judge(ctx context.Context, e *watched, observed *receipt.Receipt, err error, jitter func(time.Duration) time.Duration) verdict {
	now := time.Now()
	var v verdict
	var retryAfter time.Duration
	switch {
	case err == nil:
		e.failing, e.seldom, e.reported = time.Time{}, 0, ""
		last := e.seen.latest
		if !e.seen.accept(observed) {
			break // it may be older than what was yielded
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
		case w.open != nil: // a failure does not end the watch of this original
			if code := feedback.CodeOf(err); code != e.reported {
				e.reported, v.err = code, err
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
		if w.open == nil { // the last inspection is when patience ends
			v.pause = min(v.pause, w.patience-now.Sub(e.failing))
		}
		v.pause, v.exact = max(retryAfter, v.pause), true
		if deadline, ok := ctx.Deadline(); ok && w.open == nil && !now.Add(v.pause).Before(deadline) {
			return verdict{err: err, over: true} // ctx leaves no time for another inspection
		}
	}
	return v
}

// endedWith makes the error of a watch whose context has ended between two inspections.
func (e *watched) endedWith(ctx context.Context) error {
	failure := failures.EndedDuring(ctx, "the next look")
	failure.InvocationID = e.original.InvocationID
	return ended(failures.New(failure), e.seen.latest)
}

// ended gives the error that ends a watch. Where the context has ended, its message says
// that the last receipt is still the latest that is known.
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
