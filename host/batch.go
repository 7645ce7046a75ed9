package host

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	defaultConcurrency = 8
	maxConcurrency     = 1024
	// batchNegotiation is how long a negotiation counts in a batch.
	batchNegotiation = 60 * time.Second
	// A Hub that says 429 or 503 makes the whole batch wait: as long as it
	// asks, but no longer than longestPause; where it does not say, firstPause,
	// doubled with each time in a row.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// maxPushbacks is how often one entry is asked again after 429 or 503.
	maxPushbacks = 8
	// firstRepeat is before an entry or a negotiation is repeated, on average;
	// it doubles with each time.
	firstRepeat = 200 * time.Millisecond
	// maxUnnegotiated is how many negotiations in a row may fail before the
	// rest of a binding's entries get the answer of the last one.
	maxUnnegotiated = 3
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
type BatchOption func(*batch) error

// WithConcurrency sets how many inspections run at once, 1 to 1,024. The
// default is 8. Anything else is an invalid request.
func WithConcurrency(n int) BatchOption {
	return func(b *batch) error {
		if n < 1 || n > maxConcurrency {
			return invalid("WithConcurrency: the number must be 1 to 1024.")
		}
		b.concurrency = n
		return nil
	}
}

// InspectInvocations inspects many originals, of any number of bindings, and
// yields what it learns as it comes. Each entry is answered once, in no
// particular order; the same invocation may stand in the list twice. One entry
// that fails stops no other.
//
// A batch counts as one inspection of many ids: it negotiates once for each
// binding, and again after 60 seconds or any failure. Everything else is as
// with [Transport.InspectInvocation], the checks of the binding before and
// after each request included, and the time limit for each entry.
//
// A Hub that answers 429 or 503 makes the whole batch wait, as long as it asks
// but at most 30 seconds at a time, and is asked about the same entry up to 8
// times more, unless repeats are off (agentclient.WithMaxRetries). A wait that
// would last to the deadline of ctx is not begun: what it is for gets the Hub's
// answer as its own. A binding
// that has changed, a session that is gone or cannot be renewed, and a Hub that
// refuses the negotiation, is silent at it, or cannot be reached for it three
// times in a row, are not asked again: the rest of the binding's entries get
// the same answer.
//
// When the loop over the sequence ends early, by break, return or panic, all
// work is stopped before it is left. When ctx ends, the entries that have no
// answer yet are yielded as cancelled or timed out. The sequence can be ranged
// over again, which asks again.
func (t *Transport) InspectInvocations(ctx context.Context, originals []Original, opts ...BatchOption) iter.Seq[Observation] {
	return func(yield func(Observation) bool) {
		b := &batch{transport: t, caller: ctx, concurrency: defaultConcurrency, lanes: map[sessionKey]*lane{}}
		err := b.configure(ctx, opts)
		if err == nil {
			var done func()
			b.shared, done = t.settings.Shared.Limited(b.concurrency)
			defer done()
			b.entries = make([]entry, 0, len(originals))
		}
		for _, original := range originals {
			refused := err
			if refused == nil {
				refused = b.add(original)
			}
			if refused != nil && !yield(Observation{Original: original, Err: refused}) {
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

	notBefore time.Time     // the Hub asked to wait until then
	pause     time.Duration // the last pause that the Hub did not measure
}

// lane is the part of a batch that belongs to one binding. While it has no
// negotiation, one request is made in it at a time.
type lane struct {
	session *session
	client  *agentclient.BailingHubAgentClient

	waiting []*entry
	delayed []*entry // to be asked again, each not before its time

	negotiating  bool
	negotiated   time.Time // zero before it, and after any failure
	unnegotiated int       // negotiations that failed, in a row
	notBefore    time.Time // the next one
}

// entry is one original of a batch.
type entry struct {
	lane               *lane
	original           Original // as given
	start, notBefore   time.Time
	pushbacks, repeats int
}

// work is one thing to do in a lane, and what came of it.
type work struct {
	lane  *lane
	entry *entry // nil for a negotiation

	had      progress
	receipt  *receipt.Receipt
	err      error
	returned bool
	panicked any
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
		if err := option(b); err != nil {
			return err
		}
	}
	return nil
}

// add puts an entry into the lane of its binding.
func (b *batch) add(given Original) error {
	if err := given.valid(); err != nil {
		return err
	}
	s, err := b.transport.session(given)
	if err != nil {
		return err
	}
	l := b.lanes[s.sessionKey]
	if l == nil {
		settings := b.transport.settings
		settings.Shared, settings.Prompt = b.shared, b.transport.prompt
		settings.MaxRetries = 0 // the batch repeats, all together
		settings.NegotiationReuse = batchNegotiation
		l = &lane{session: s, client: s.newClient(settings)}
		b.lanes[s.sessionKey] = l
		b.order = append(b.order, l)
	}
	b.entries = append(b.entries, entry{lane: l, original: given})
	l.waiting = append(l.waiting, &b.entries[b.open])
	b.open++
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
	for b.open > 0 {
		var answers []Observation
		wake := b.start(ctx, todo, done)
		var idle <-chan struct{}
		if b.running == 0 { // what runs notices the end of the context itself
			idle = ctx.Done()
		}
		select {
		case w := <-done:
			b.running--
			answers = b.take(w)
		case <-wake:
		case <-idle:
			answers = b.abandon()
		}
		for _, answer := range answers {
			b.open--
			if !yield(answer) {
				return
			}
		}
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
		for _, e := range l.delayed {
			sooner(e.notBefore)
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(first.Sub(now))
}

// pick takes the next thing to do, from the lanes in turn.
func (b *batch) pick(now time.Time) *work {
	for range b.order {
		l := b.order[b.next]
		b.next = (b.next + 1) % len(b.order)
		due := func(e *entry) bool { return !e.notBefore.After(now) }
		if i := slices.IndexFunc(l.delayed, due); i >= 0 {
			l.waiting = append(l.waiting, l.delayed[i])
			l.delayed = slices.Delete(l.delayed, i, i+1)
		}
		switch {
		case l.negotiating || len(l.waiting) == 0 || l.notBefore.After(now):
		case now.Sub(l.negotiated) >= batchNegotiation:
			l.negotiating = true
			return &work{lane: l}
		default:
			w := &work{lane: l, entry: l.waiting[0]}
			l.waiting = l.waiting[1:]
			return w
		}
	}
	return nil
}

// run does the work and hands it back, whatever becomes of it; there is room.
func (w *work) run(ctx context.Context, done chan<- *work) {
	defer func() {
		if !w.returned {
			w.panicked = recover()
		}
		done <- w
	}()
	w.do(ctx)
	w.returned = true
}

func (w *work) do(ctx context.Context) {
	if w.entry == nil {
		_, w.err = checked(w.lane.session, ctx, &w.had, "", w.lane.client.InvocationInspectionCapabilities)
		return
	}
	if w.entry.start.IsZero() {
		w.entry.start = time.Now()
	}
	w.receipt, w.err = w.lane.session.inspect(ctx, w.lane.client, &w.had, w.entry.original)
}

// take decides what came back means for its entry, its lane and the batch, and
// gives the answers that it settles.
func (b *batch) take(w *work) []Observation {
	l, e := w.lane, w.entry
	if e == nil {
		l.negotiating = false
	}
	switch {
	case w.panicked != nil:
		panic(w.panicked)
	case !w.returned:
		runtime.Goexit()
	case w.err == nil && e == nil:
		l.negotiated, l.unnegotiated = time.Now(), 0
		return nil
	case w.err == nil:
		b.pause = 0
		return []Observation{b.answer(e, w.receipt, nil)}
	case b.caller.Err() != nil && e == nil:
		return nil // abandon says it
	case b.caller.Err() != nil:
		return []Observation{b.answer(e, nil, w.err)}
	}

	l.negotiated = time.Time{} // any failure ends it
	failure, _ := errors.AsType[*feedback.Error](w.err)
	pushedBack := failure.StatusCode == http.StatusTooManyRequests || failure.StatusCode == http.StatusServiceUnavailable
	if pushedBack {
		b.slowDown(failure.RetryAfter)
	}
	var ended []*lane // what is left in them gets this answer
	switch {
	case pushedBack && b.tooLate(b.notBefore):
		ended = b.order
	case b.isFinal(w, failure):
		ended = []*lane{l}
	case e == nil || b.again(e, failure, pushedBack):
		return nil
	}
	var answers []Observation
	if e != nil {
		answers = append(answers, b.answer(e, nil, failure))
	}
	for _, l := range ended {
		for _, left := range l.left() {
			same := *failure
			same.Feedback.InvocationID, same.Feedback.Dispatch = left.original.InvocationID, feedback.DispatchNotDispatched
			answers = append(answers, b.answer(left, nil, &same))
		}
	}
	return answers
}

// isFinal reports whether a failure is the answer to all that is left in its
// lane.
func (b *batch) isFinal(w *work, failure *feedback.Error) bool {
	switch {
	case failure.Feedback.Code == feedback.CodeAgentBindingChanged, w.had.refreshFailed:
		return true
	case w.entry != nil:
		return failure.Feedback.Code == feedback.CodeAgentAuthorizationUnavailable &&
			failure.StatusCode != http.StatusForbidden // that may be one tool's
	case !repeatable(failure) || b.transport.settings.MaxRetries == 0:
		return true
	}
	w.lane.unnegotiated++
	w.lane.notBefore = time.Now().Add(wait(firstRepeat, w.lane.unnegotiated))
	return w.lane.unnegotiated == maxUnnegotiated || b.tooLate(w.lane.notBefore)
}

// tooLate reports that the caller's context has a deadline, and it is not after
// t: what waits until then is better answered now.
func (b *batch) tooLate(t time.Time) bool {
	deadline, ok := b.caller.Deadline()
	return ok && !t.Before(deadline)
}

// repeatable reports a failure after which the same request may be sent again
// by itself (contract, section 4). That of a renewal of the session is not.
func repeatable(failure *feedback.Error) bool {
	return failure.Feedback.Category == feedback.CategoryTransportUnavailable &&
		failure.Feedback.Code != feedback.CodeAgentRequestTimeout
}

// again puts an entry back to be asked once more, where it may be.
func (b *batch) again(e *entry, failure *feedback.Error, pushedBack bool) bool {
	retries := b.transport.settings.MaxRetries
	switch {
	case !repeatable(failure) || retries == 0:
		return false
	case pushedBack && e.pushbacks < maxPushbacks:
		e.pushbacks++
		e.notBefore = b.notBefore
	case !pushedBack && e.repeats < retries:
		e.repeats++
		e.notBefore = time.Now().Add(wait(firstRepeat, e.repeats))
	default:
		return false
	}
	if b.tooLate(e.notBefore) {
		return false
	}
	boundary.LogRepeat(b.caller, b.transport.settings.Logger, slog.String("invocation_id", e.original.InvocationID), string(failure.Feedback.Code), failure.StatusCode, time.Until(e.notBefore))
	e.lane.delayed = append(e.lane.delayed, e)
	return true
}

// slowDown makes the whole batch wait, with a jitter on top, so that not
// everybody comes back in the same moment.
func (b *batch) slowDown(asked time.Duration) {
	if asked == 0 {
		b.pause = min(max(2*b.pause, firstPause), longestPause)
		asked = b.pause
	}
	b.notBefore = latest(b.notBefore, time.Now().Add(min(asked, longestPause)+rand.N(firstRepeat)))
}

// abandon answers what is left once the caller's context has ended.
func (b *batch) abandon() (answers []Observation) {
	for _, l := range b.order {
		for _, e := range l.left() {
			failure := feedback.Ended(b.caller)
			failure.InvocationID = e.original.InvocationID
			answers = append(answers, b.answer(e, nil, feedback.NewError(failure)))
		}
	}
	return answers
}

// left takes all entries that nobody is asking about.
func (l *lane) left() []*entry {
	left := append(l.waiting, l.delayed...)
	l.waiting, l.delayed = nil, nil
	return left
}

func (b *batch) answer(e *entry, observed *receipt.Receipt, err error) Observation {
	if e.start.IsZero() {
		e.start = time.Now()
	}
	b.transport.log(b.caller, e.start, e.original.InvocationID, err)
	return Observation{Original: e.original, Receipt: observed, Err: err}
}

// wait is the nth wait: doubled each time, half of it to one and a half.
func wait(first time.Duration, n int) time.Duration {
	d := first << (n - 1)
	return d/2 + rand.N(d)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
