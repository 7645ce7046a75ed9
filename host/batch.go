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
	// batchNegotiation is how long a batch uses a negotiation.
	batchNegotiation = 60 * time.Second
)

// Observation is the answer to one entry of a batch or a watch: a receipt or an error,
// never both.
type Observation struct {
	// Original is the entry as it was given.
	Original Original
	// Receipt is the receipt, as from [Transport.InspectInvocation]; nil where Err
	// is not.
	Receipt *receipt.Receipt
	// Err is a [*feedback.Error].
	Err error
}

// BatchOption changes how [Transport.InspectInvocations] asks.
type BatchOption interface{ applyToBatch(*batch) error }

// Concurrency is an option of a batch and of a watch of many: how many inspections run
// at once. [WithConcurrency] makes it.
type Concurrency struct{ n int }

// WithConcurrency sets how many inspections run at once, 1 to 1,024. The
// default is 8. Anything else is an invalid request. It has no effect on a watch of one
// original.
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

// InspectInvocations inspects many originals, of any number of bindings, and yields
// each answer when it comes. Every entry gets one answer, in no particular order; the
// list may have the same invocation twice. The failure of one entry does not stop the
// others.
//
// A batch counts as one inspection of many ids. It negotiates once for each binding, and
// again after 60 seconds or after a failure, unless the failure concerns one invocation
// alone, such as an id that the Hub does not know. In everything else it does what
// [Transport.InspectInvocation] does, including the checks of the binding before and
// after each request, and the time limit of each attempt.
//
// When a Hub answers 429 or 503, the whole batch waits for as long as the Hub asked, but
// at most for 30 seconds at a time. Then it asks about the same entry again, up to 8
// times, unless repeats are off (agentclient.WithMaxRetries). It does not wait for a 503
// that reports one damaged record. It does not begin a wait that would last until the
// deadline of ctx: the remaining entries of that Hub then get its last answer.
//
// A batch stops asking about a binding, and gives the rest of its entries the same
// answer, where the binding has changed, where the session has ended or cannot be
// refreshed, and where the Hub refuses the negotiation, does not answer it in time,
// cannot be reached for it three times in a row, or answers with nothing but 429 or 503.
//
// When the loop over the sequence ends early, by break, return or panic, the batch first
// stops all its work. Only the refresh of a session goes on, and saves its tokens. When
// ctx ends, the entries without an answer are yielded as cancelled or timed out. A second
// loop over the sequence asks about all entries again.
//
// A batch opens at most as many connections to a Hub as it makes inspections at once, and
// keeps them for the next batch until [Transport.CloseIdleConnections]. The owner of a
// borrowed HTTP client has to limit its connections.
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

// batch is the state of one loop over InspectInvocations. The goroutine of the caller
// makes all decisions and yields the answers; the workers send the questions.
type batch struct {
	transport   *Transport
	caller      context.Context
	concurrency int

	shared  *boundary.Transport
	entries []entry // never grows past its capacity
	lanes   map[sessionKey]*lane
	order   []*lane
	next    int // index in order of the lane whose turn it is
	open    int // entries without an answer
	running int // questions that workers are asking

	workers sync.WaitGroup
	started int // workers that were started

	notBefore time.Time // the batch waits until then, because a Hub asked for it
	round     int       // counts the pauses; all questions between two pauses have one round
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
	var answers []Observation // not yielded yet
	for b.open > 0 {
		// All answers that have come are taken before anything is started, because
		// they may say that the batch has to wait.
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
			if b.running == 0 { // running questions notice the end of the context themselves
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

// start starts as many questions as may run. It gives a channel that fires when more
// may be started; nil where one of the running questions has to end first.
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
		todo <- w // does not block: the channel has room, and a worker waits
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

// abandon answers the remaining entries after the caller's context has ended.
func (b *batch) abandon() (answers []Observation) {
	now := time.Now()
	for _, l := range b.order {
		waitedFor := "its turn in the batch"
		if b.notBefore.After(now) {
			waitedFor = "a pause that the Hub asked for to be over"
		}
		answers = append(answers, b.failed(l.takeRemaining(), failures.New(failures.EndedDuring(b.caller, waitedFor)))...)
	}
	return answers
}

// failed gives entries the same failure. Because a batch counts as one inspection, a
// request for one entry of a binding counts as sent for all of them.
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
