package host

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
)

const (
	// When a Hub answers 429 or 503, the whole batch waits: for as long as the Hub
	// asked, or else for firstPause, doubled with each such round in a row, but
	// never longer than longestPause.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// A random time up to pauseJitter is added to a pause. Without it, all clients of
	// a Hub would come back at the same moment.
	pauseJitter = 200 * time.Millisecond
	// maxPushbacks is how often a batch asks about one entry again after 429 or 503,
	// and how many pauses in a row one binding may cause without a good answer.
	maxPushbacks = 8
	// maxFailedNegotiations is how many negotiations of a binding may fail in a row
	// before the rest of its entries get the failure of the last one.
	maxFailedNegotiations = 3
)

// take decides what the outcome of a question means for its entry, its lane and the
// batch, and gives the answers to entries that follow from it.
func (b *batch) take(w *work) []Observation {
	b.running--
	if w.entry == nil {
		w.lane.negotiating = false
	}
	switch {
	case w.panicked != nil:
		panic(w.panicked)
	case !w.returned:
		runtime.Goexit()
	case w.err == nil:
		return b.takeAnswer(w)
	}
	failure, _ := errors.AsType[*feedback.Error](w.err)
	return b.takeFailure(w, failure)
}

// takeAnswer does what take does, for a question that succeeded.
func (b *batch) takeAnswer(w *work) []Observation {
	l := w.lane
	if w.entry == nil {
		l.dispatched, l.negotiated, l.failedNegotiations = true, w.guard.answered, 0
		return nil
	}
	l.pushbacks = 0
	return []Observation{b.answer(w.entry, w.receipt, nil)}
}

// takeFailure does what take does, for a question that failed. It makes the batch wait
// where the Hub asks for that. Then it gives up the lane, or puts the entry back to be
// asked about again, or gives the failure as its answer.
func (b *batch) takeFailure(w *work, failure *feedback.Error) []Observation {
	l, e := w.lane, w.entry
	if e == nil || !failure.OfOneInvocation() {
		l.negotiated = time.Time{}
	}
	l.dispatched = l.dispatched || failure.Feedback.Dispatch == feedback.DispatchAttempted
	if b.caller.Err() != nil && (e == nil || b.repeats(failure)) {
		if e != nil {
			l.delay(e)
		}
		return nil // abandon will answer the entry
	}
	inTime := b.hearPushback(w, failure)
	switch {
	case failure.Feedback.Code == feedback.CodeAgentBindingChanged, w.guard.refreshFailed.Load():
		return b.end(e, []*lane{l}, failure)
	case !inTime:
		return b.end(e, b.sameHub(l), failure)
	case b.givesUp(w, failure):
		return b.end(e, []*lane{l}, failure)
	case e == nil && isStoreFailure(failure):
		return b.end(l.next(), nil, failure) // it answers one entry only
	case e == nil, b.again(w, failure):
		return nil
	}
	return b.end(e, nil, failure)
}

// end answers an entry, unless that is nil, and all remaining entries of these lanes with
// a failure, and ends the lanes.
func (b *batch) end(e *entry, lanes []*lane, failure *feedback.Error) []Observation {
	var answered []*entry
	if e != nil {
		answered = append(answered, e)
	}
	for _, l := range lanes {
		l.ended = true
		answered = append(answered, l.takeRemaining()...)
	}
	return b.failed(answered, failure)
}

// hearPushback makes the batch wait where the Hub answered that it has too much to do,
// also where a check after that answer failed. inTime is false where the wait would last
// until the caller's deadline.
func (b *batch) hearPushback(w *work, failure *feedback.Error) (inTime bool) {
	switch suppressed := w.guard.suppressed; {
	case suppressed != nil && pushedBack(suppressed):
		b.slowDown(w, suppressed.RetryAfter)
	case pushedBack(failure):
		return b.slowDown(w, failure.RetryAfter)
	}
	return true
}

// repeats reports whether the batch may send the same request again after a failure by
// itself (contract, section 4). It may not after a failed refresh of the session.
func (b *batch) repeats(failure *feedback.Error) bool {
	return b.transport.settings.MaxRetries > 0 &&
		failure.Feedback.Category == feedback.CategoryTransportUnavailable &&
		failure.Feedback.Code != feedback.CodeAgentRequestTimeout &&
		!boundary.WillRefuseAgain(failure)
}

// pushedBack reports whether a failure says that the Hub has too much to do. Not every 503
// does.
func pushedBack(failure *feedback.Error) bool {
	return (failure.StatusCode == http.StatusTooManyRequests || failure.StatusCode == http.StatusServiceUnavailable) &&
		failure.Feedback.Category == feedback.CategoryTransportUnavailable
}

// isStoreFailure reports whether the host's store failed. It may work again for the next
// entry, so that such a failure does not end a lane.
func isStoreFailure(failure *feedback.Error) bool {
	return failure.Feedback.Code == feedback.CodeUnknownFailure && failure.StatusCode == 0
}

// givesUp reports whether a failure answers all remaining entries of its lane. Where it
// does not, a failed negotiation is made again.
func (b *batch) givesUp(w *work, failure *feedback.Error) bool {
	l := w.lane
	switch {
	case pushedBack(failure) && l.pushbacks > maxPushbacks:
		return true
	case pushedBack(failure) && b.repeats(failure):
		l.failedNegotiations = 0
		l.notBefore = b.notBefore
	case w.entry != nil:
		return failure.Feedback.Code == feedback.CodeAgentAuthorizationUnavailable &&
			failure.StatusCode != http.StatusForbidden // a 403 may concern one tool only
	case isStoreFailure(failure):
		return false
	case !b.repeats(failure):
		return true
	default:
		wait, ok := boundary.RepeatWait(l.failedNegotiations, failure.RetryAfter)
		l.failedNegotiations++
		l.notBefore = w.guard.answered.Add(wait)
		if !ok || l.failedNegotiations == maxFailedNegotiations || b.tooLate(l.notBefore) {
			return true
		}
	}
	if w.entry == nil && len(l.waiting) > 0 {
		b.logRepeat(l.waiting[0], failure, l.notBefore)
	}
	return false
}

// again puts an entry back to be asked about once more. It reports false where that is
// not allowed.
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
		e.notBefore = w.guard.answered.Add(wait)
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

// slowDown makes the whole batch wait, unless that would last until the caller's deadline
// or there is nothing left to ask that Hub. The answer to a question of an earlier round
// does not make the next pause longer, because the batch has paused since it was asked.
func (b *batch) slowDown(w *work, asked time.Duration) (inTime bool) {
	l := w.lane
	if w.round > l.lastPushed {
		l.lastPushed = w.round
		l.pushbacks++
	}
	if asked == 0 {
		asked = firstPause << min(max(l.pushbacks-1, 0), maxPushbacks)
	}
	until := w.guard.answered.Add(min(asked, longestPause) + rand.N(pauseJitter))
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

// sameHub gives all lanes with the Hub of l.
func (b *batch) sameHub(l *lane) (same []*lane) {
	for _, other := range b.order {
		if other.session.binding.HubURL == l.session.binding.HubURL {
			same = append(same, other)
		}
	}
	return same
}

// tooLate reports whether the deadline of the caller's context is not after t. An entry
// that would wait until t is then answered at once.
func (b *batch) tooLate(t time.Time) bool {
	deadline, ok := b.caller.Deadline()
	return ok && !t.Before(deadline)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
