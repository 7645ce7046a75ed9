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
	"github.com/bailinghub/bailinghub-go/internal/failures"
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
	// pauseJitter comes on top, so that not everybody is back at once.
	pauseJitter = 200 * time.Millisecond
	// maxPushbacks is how often one entry is asked again after 429 or 503, and
	// how many pauses in a row a binding may bring on without one good answer.
	maxPushbacks = 8
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
			b.shared, done = t.settings.Shared.Limited(b.concurrency)
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

// lane is the part of a batch that belongs to one binding. While it has no
// negotiation, one request is made in it at a time.
type lane struct {
	session *session
	client  *agentclient.BailingHubAgentClient

	waiting []*entry
	delayed []*entry // to be asked again, in the order of their times

	negotiating  bool
	negotiated   time.Time // zero before it, and after a failure that is not of one invocation
	unnegotiated int       // negotiations that failed, in a row
	notBefore    time.Time // the next one

	pushbacks  int  // rounds in a row in which the Hub pushed back
	lastPushed int  // the last of them
	dispatched bool // a request has left
	ended      bool // what was left has got an answer
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
	round int

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
		if err := option.applyToBatch(b); err != nil {
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
	} else {
		b.transport.release(s) // the lane has it once
	}
	b.entries = append(b.entries, entry{lane: l, original: given})
	l.waiting = append(l.waiting, &b.entries[b.open])
	b.open++
	return nil
}

func (b *batch) release() {
	for _, l := range b.order {
		b.transport.release(l.session)
	}
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

// pick takes the next thing to do, from the lanes in turn.
func (b *batch) pick(now time.Time) *work {
	for range b.order {
		l := b.order[b.next]
		b.next = (b.next + 1) % len(b.order)
		for len(l.delayed) > 0 && !l.delayed[0].notBefore.After(now) {
			l.waiting = append(l.waiting, l.delayed[0])
			l.delayed = l.delayed[1:]
		}
		switch {
		case l.negotiating || len(l.waiting) == 0 || l.notBefore.After(now):
		case now.Sub(l.negotiated) >= batchNegotiation:
			l.negotiating = true
			return &work{lane: l}
		default:
			return &work{lane: l, entry: l.next()}
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
	b.running--
	if e == nil {
		l.negotiating = false
	}
	switch {
	case w.panicked != nil:
		panic(w.panicked)
	case !w.returned:
		runtime.Goexit()
	case w.err == nil && e == nil:
		l.dispatched, l.negotiated, l.unnegotiated = true, w.had.answered, 0
		return nil
	case w.err == nil:
		l.pushbacks = 0
		return []Observation{b.answer(e, w.receipt, nil)}
	}

	failure, _ := errors.AsType[*feedback.Error](w.err)
	if e == nil || !failure.OfOneInvocation() {
		l.negotiated = time.Time{}
	}
	l.dispatched = l.dispatched || failure.Feedback.Dispatch == feedback.DispatchAttempted
	if b.caller.Err() != nil && (e == nil || b.repeats(failure)) {
		if e != nil {
			l.delay(e)
		}
		return nil // abandon says it
	}
	inTime := true
	switch withheld := w.had.withheld; {
	case withheld != nil && pushedBack(withheld):
		b.slowDown(w, withheld.RetryAfter)
	case pushedBack(failure):
		inTime = b.slowDown(w, failure.RetryAfter)
	}
	var ended []*lane // what is left in them gets this answer
	switch {
	case failure.Feedback.Code == feedback.CodeAgentBindingChanged, w.had.refreshFailed.Load():
		ended = []*lane{l}
	case !inTime:
		ended = b.sameHub(l)
	case b.givesUp(w, failure):
		ended = []*lane{l}
	case e == nil && isStoreFailure(failure):
		e = l.next() // it is the answer to one
	case e == nil:
		return nil
	case b.again(w, failure):
		return nil
	}
	var answered []*entry
	if e != nil {
		answered = append(answered, e)
	}
	for _, l := range ended {
		l.ended = true
		answered = append(answered, l.left()...)
	}
	return b.failed(answered, failure)
}

// repeats reports a failure after which the same request may be sent again by
// itself (contract, section 4). That of a renewal of the session is not.
func (b *batch) repeats(failure *feedback.Error) bool {
	return b.transport.settings.MaxRetries > 0 &&
		failure.Feedback.Category == feedback.CategoryTransportUnavailable &&
		failure.Feedback.Code != feedback.CodeAgentRequestTimeout &&
		!boundary.WillRefuseAgain(failure)
}

// pushedBack reports that the Hub has too much to do. Not every 503 says so.
func pushedBack(failure *feedback.Error) bool {
	return (failure.StatusCode == http.StatusTooManyRequests || failure.StatusCode == http.StatusServiceUnavailable) &&
		failure.Feedback.Category == feedback.CategoryTransportUnavailable
}

// isStoreFailure reports a failure that no Hub has a part in. The store may be
// well again for the next entry.
func isStoreFailure(failure *feedback.Error) bool {
	return failure.Feedback.Code == feedback.CodeUnknownFailure && failure.StatusCode == 0
}

// givesUp reports whether a failure is the answer to all that is left in its
// lane. Where not, a negotiation that failed is made again.
func (b *batch) givesUp(w *work, failure *feedback.Error) bool {
	l := w.lane
	switch {
	case pushedBack(failure) && l.pushbacks > maxPushbacks:
		return true
	case pushedBack(failure) && b.repeats(failure):
		l.unnegotiated = 0
		l.notBefore = b.notBefore
	case w.entry != nil:
		return failure.Feedback.Code == feedback.CodeAgentAuthorizationUnavailable &&
			failure.StatusCode != http.StatusForbidden // that may be one tool's
	case isStoreFailure(failure):
		return false
	case !b.repeats(failure):
		return true
	default:
		wait, ok := boundary.RepeatWait(l.unnegotiated, failure.RetryAfter)
		l.unnegotiated++
		l.notBefore = w.had.answered.Add(wait)
		if !ok || l.unnegotiated == maxUnnegotiated || b.tooLate(l.notBefore) {
			return true
		}
	}
	if w.entry == nil && len(l.waiting) > 0 {
		b.logRepeat(l.waiting[0], failure, l.notBefore)
	}
	return false
}

// again puts an entry back to be asked once more, where it may be.
func (b *batch) again(w *work, failure *feedback.Error) bool {
	e := w.entry
	switch {
	case !b.repeats(failure) || e.lane.ended:
		return false
	case pushedBack(failure):
		e.pushbacks++
		e.notBefore = b.notBefore
		if e.pushbacks > maxPushbacks {
			return false
		}
	default:
		wait, ok := boundary.RepeatWait(e.repeats, failure.RetryAfter)
		e.repeats++
		e.notBefore = w.had.answered.Add(wait)
		if !ok || e.repeats > b.transport.settings.MaxRetries || b.tooLate(e.notBefore) {
			return false
		}
	}
	b.logRepeat(e, failure, e.notBefore)
	e.lane.delay(e)
	return true
}

func (b *batch) logRepeat(e *entry, failure *feedback.Error, at time.Time) {
	boundary.LogRepeat(b.caller, b.transport.settings.Logger, slog.String("invocation_id", e.original.InvocationID), string(failure.Feedback.Code), failure.StatusCode, time.Until(at))
}

// slowDown makes the whole batch wait, unless that would last to the caller's
// deadline, or nothing is left to ask that Hub. What was asked in an earlier
// round speaks of a pause that was made already, and makes the next one no
// longer.
func (b *batch) slowDown(w *work, asked time.Duration) (inTime bool) {
	l := w.lane
	if w.round > l.lastPushed {
		l.lastPushed = w.round
		l.pushbacks++
	}
	if asked == 0 {
		asked = firstPause << min(max(l.pushbacks-1, 0), maxPushbacks)
	}
	until := w.had.answered.Add(min(asked, longestPause) + rand.N(pauseJitter))
	switch {
	case b.tooLate(until):
		return false
	case !slices.ContainsFunc(b.sameHub(l), func(l *lane) bool { return !l.ended }):
		return true
	}
	if w.round == b.round {
		b.round++
	}
	b.notBefore = latest(b.notBefore, until)
	return true
}

// sameHub gives the lanes at the Hub of one.
func (b *batch) sameHub(l *lane) (same []*lane) {
	for _, other := range b.order {
		if other.session.binding.HubURL == l.session.binding.HubURL {
			same = append(same, other)
		}
	}
	return same
}

// tooLate reports that the caller's context has a deadline, and it is not after
// t: what waits until then is better answered now.
func (b *batch) tooLate(t time.Time) bool {
	deadline, ok := b.caller.Deadline()
	return ok && !t.Before(deadline)
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

// delay keeps an entry until its time.
func (l *lane) delay(e *entry) {
	at, _ := slices.BinarySearchFunc(l.delayed, e, func(a, b *entry) int { return a.notBefore.Compare(b.notBefore) })
	l.delayed = slices.Insert(l.delayed, at, e)
}

// left takes all entries that nobody is asking about.
func (l *lane) left() []*entry {
	left := append(l.waiting, l.delayed...)
	l.waiting, l.delayed = nil, nil
	return left
}

// next takes the first that waits for nothing but its turn; nil for none.
func (l *lane) next() *entry {
	if len(l.waiting) == 0 {
		return nil
	}
	e := l.waiting[0]
	l.waiting = l.waiting[1:]
	return e
}

func (b *batch) answer(e *entry, observed *receipt.Receipt, err error) Observation {
	if e.start.IsZero() {
		e.start = time.Now()
	}
	b.transport.logInspection(b.caller, e.start, e.original.InvocationID, err)
	return Observation{Original: e.original, Receipt: observed, Err: err}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
