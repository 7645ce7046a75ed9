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

// take decides what came back means for its entry, its lane and the batch, and
// gives the answers that it settles.
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

// takeAnswer is take for what went well.
func (b *batch) takeAnswer(w *work) []Observation {
	l := w.lane
	if w.entry == nil {
		l.dispatched, l.negotiated, l.unnegotiated = true, w.guard.answered, 0
		return nil
	}
	l.pushbacks = 0
	return []Observation{b.answer(w.entry, w.receipt, nil)}
}

// takeFailure is take for what failed: it slows the batch down where the Hub
// asks for that, and then gives up the lane, or has the same asked again, or
// gives the failure as the answer.
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
		return nil // abandon says it
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
		return b.end(l.next(), nil, failure) // it is the answer to one
	case e == nil, b.again(w, failure):
		return nil
	}
	return b.end(e, nil, failure)
}

// end answers an entry, if there is one, and all that is left in these lanes with
// a failure, and asks nothing more in them.
func (b *batch) end(e *entry, lanes []*lane, failure *feedback.Error) []Observation {
	var answered []*entry
	if e != nil {
		answered = append(answered, e)
	}
	for _, l := range lanes {
		l.ended = true
		answered = append(answered, l.left()...)
	}
	return b.failed(answered, failure)
}

// hearPushback slows the batch down where the Hub said that it has too much to
// do, also where a check after that answer has failed. It reports false where the
// pause would last to the caller's deadline.
func (b *batch) hearPushback(w *work, failure *feedback.Error) (inTime bool) {
	switch suppressed := w.guard.suppressed; {
	case suppressed != nil && pushedBack(suppressed):
		b.slowDown(w, suppressed.RetryAfter)
	case pushedBack(failure):
		return b.slowDown(w, failure.RetryAfter)
	}
	return true
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
		l.notBefore = w.guard.answered.Add(wait)
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

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
