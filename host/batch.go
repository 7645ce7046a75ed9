package host

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	defaultConcurrency = 8
	maxConcurrency     = 1024
	// batchNegotiation is how long a negotiation counts in a batch.
	batchNegotiation = 60 * time.Second
)

// Observation is what a batch learned of one of its entries: a receipt or an
// error, never both.
type Observation struct {
	// Original is the entry as it was given.
	Original Original
	// Receipt is what [Transport.InspectInvocation] would have given.
	Receipt *receipt.Receipt
	// Err is a [*feedback.Error].
	Err error
}

// BatchOption changes how [Transport.InspectInvocations] asks.
type BatchOption interface{ applyToBatch(*batch) error }

// Concurrency is how many inspections run at once: an option of a batch, and of
// a watch of many. [WithConcurrency] makes it.
type Concurrency struct{ n int }

// WithConcurrency sets how many inspections run at once, 1 to 1,024. The
// default is 8. Anything else is an invalid request. A watch of one original has
// no use for it.
func WithConcurrency(n int) Concurrency { return Concurrency{n} }

func (c Concurrency) applyToBatch(b *batch) error {
	b.concurrency = c.n
	return c.check()
}

func (c Concurrency) applyToWatch(w *watch) error {
	w.concurrency = c.n
	return c.check()
}

func (c Concurrency) check() error {
	if c.n < 1 || c.n > maxConcurrency {
		return invalid("WithConcurrency: the number must be 1 to 1024.")
	}
	return nil
}

// InspectInvocations inspects many originals, of any number of bindings, and
// yields what it learns as it comes. Each entry is answered once, in no
// particular order; the same invocation may stand in the list twice. One entry
// that fails stops no other.
//
// A batch counts as one inspection of many ids: it negotiates once for each
// binding, and again after 60 seconds or any failure, save for one that speaks
// of one invocation alone, such as an id that the Hub does not know. Everything
// else is as with [Transport.InspectInvocation], the checks of the binding before
// and after each request included, and the time limit for each attempt.
//
// A Hub that answers 429 or 503 makes the whole batch wait, as long as it asks
// but at most 30 seconds at a time, and is asked about the same entry up to 8
// times more, unless repeats are off (agentclient.WithMaxRetries). (A 503 that
// speaks of one damaged record does not.) A wait that would last to the
// deadline of ctx is not begun: what is left for that Hub gets its answer.
//
// A binding that has changed, a session that is gone or cannot be renewed, and a
// Hub that refuses the negotiation, is silent at it, cannot be reached for it
// three times in a row, or only ever answers 429 or 503, are not asked again:
// the rest of the binding's entries get the same answer.
//
// When the loop over the sequence ends early, by break, return or panic, all
// work is stopped before it is left, except for the refresh of a session, which
// saves what it got. When ctx ends, the entries that have no answer yet are
// yielded as cancelled or timed out. The sequence can be ranged over again,
// which asks again.
//
// A batch opens no more connections to a Hub than it inspects at once, and keeps
// them for the next batch until [Transport.CloseIdleConnections]. Those of a
// borrowed HTTP client are its owner's to limit.
func (t *Transport) InspectInvocations(ctx context.Context, originals []Original, opts ...BatchOption) iter.Seq[Observation] {
	return func(yield func(Observation) bool) {
		b := &batch{transport: t, caller: ctx, concurrency: defaultConcurrency, lanes: map[sessionKey]*lane{}, round: 1}
		err := b.configure(ctx, opts)
		if err == nil {
			var done func()
			b.shared, done = t.shared.Limited(b.concurrency)
			defer done()
			defer b.release()
			b.entries = make([]entry, 0, len(originals))
		}
		var refused []Observation
		for _, original := range originals {
			wrong := err
			if wrong == nil {
				wrong = b.add(original)
			}
			if wrong != nil {
				refused = append(refused, Observation{Original: original, Err: wrong})
			}
		}
		for _, o := range refused {
			if !yield(o) {
				return
			}
		}
		b.run(yield)
	}
}

// batch is one ranging over InspectInvocations. One goroutine, that of the
// caller, decides and yields; the others ask.
type batch struct {
	transport   *Transport
	caller      context.Context
	concurrency int

	shared  *boundary.Transport
	entries []entry // never grows past its capacity
	lanes   map[sessionKey]*lane
	order   []*lane
	next    int // the lane whose turn it is
	open    int // entries without an answer
	running int

	workers sync.WaitGroup // those that ask
	started int            // of them

	notBefore time.Time // a Hub asked to wait until then
	round     int       // what is asked between two pauses is one
}

func (b *batch) configure(ctx context.Context, opts []BatchOption) error {
	switch {
	case ctx == nil:
		return invalid("The context is nil.")
	case b.transport.store == nil:
		return invalid("The transport was not made by New.")
	}
	for _, option := range opts {
		if option == nil {
			return invalid("An option is nil.")
		}
		if err := option.applyToBatch(b); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) run(yield func(Observation) bool) {
	if b.open == 0 {
		return
	}
	ctx, cancel := context.WithCancel(b.caller)
	todo, done := make(chan *work, b.concurrency), make(chan *work, b.concurrency)
	defer func() { // also where the body of the loop panics
		cancel()
		close(todo)
		b.workers.Wait()
	}()
	var answers []Observation // to be yielded
	for b.open > 0 {
		// What has come may say that nothing is to be started now.
		for come := true; come; {
			select {
			case w := <-done:
				answers = append(answers, b.take(w)...)
			default:
				come = false
			}
		}
		wake := b.start(ctx, todo, done)
		if len(answers) == 0 {
			var idle <-chan struct{}
			if b.running == 0 { // what runs notices the end of the context itself
				idle = ctx.Done()
			}
			select {
			case w := <-done:
				answers = b.take(w)
			case <-wake:
			case <-idle:
				answers = b.abandon()
			}
			continue
		}
		for _, answer := range answers {
			b.open--
			if !yield(answer) {
				return
			}
		}
		answers = nil
	}
}

// start gets as much under way as may be, and gives a channel that says when to
// look again; nil where something has to come back first.
func (b *batch) start(ctx context.Context, todo chan *work, done chan<- *work) <-chan time.Time {
	if ctx.Err() != nil {
		return nil
	}
	now := time.Now()
	if wait := b.notBefore.Sub(now); wait > 0 {
		return time.After(wait)
	}
	for b.running < b.concurrency {
		w := b.pick(now)
		if w == nil {
			break
		}
		w.round = b.round
		b.running++
		if b.running > b.started {
			b.started++
			b.workers.Go(func() {
				for w := range todo {
					w.run(ctx, done)
				}
			})
		}
		todo <- w // there is room, and a worker that waits
	}
	if b.running == b.concurrency {
		return nil
	}
	var first time.Time
	sooner := func(t time.Time) {
		if t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, l := range b.order {
		if len(l.waiting) > 0 {
			sooner(l.notBefore)
		}
		if len(l.delayed) > 0 {
			sooner(l.delayed[0].notBefore)
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(first.Sub(now))
}

// abandon answers what is left once the caller's context has ended.
func (b *batch) abandon() (answers []Observation) {
	now := time.Now()
	for _, l := range b.order {
		waitedFor := "its turn in the batch"
		if b.notBefore.After(now) {
			waitedFor = "a pause that the Hub asked for to be over"
		}
		answers = append(answers, b.failed(l.left(), failures.New(failures.EndedDuring(b.caller, waitedFor)))...)
	}
	return answers
}

// failed gives entries the same failure. A batch counts as one inspection: the
// requests for one entry of a binding are requests for all of them.
func (b *batch) failed(entries []*entry, failure *feedback.Error) (answers []Observation) {
	for _, e := range entries {
		same := *failure
		same.Feedback.InvocationID, same.Feedback.Dispatch = e.original.InvocationID, feedback.DispatchNotDispatched
		if e.lane.dispatched || e.lane.negotiating {
			same.Feedback.Dispatch = feedback.DispatchAttempted
		}
		answers = append(answers, b.answer(e, nil, &same))
	}
	return answers
}

func (b *batch) answer(e *entry, observed *receipt.Receipt, err error) Observation {
	if e.start.IsZero() {
		e.start = time.Now()
	}
	b.transport.logInspection(b.caller, e.start, e.original.InvocationID, err)
	return Observation{Original: e.original, Receipt: observed, Err: err}
}
