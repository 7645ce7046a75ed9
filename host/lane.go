package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// lane is the part of a batch that belongs to one binding. While it has no valid
// negotiation, it makes one request at a time.
type lane struct {
	session *session
	hub     *inspection.Hub

	waiting []*entry
	delayed []*entry // to be asked again, sorted by their times

	negotiating        bool
	negotiated         time.Time // of the valid negotiation; zero where there is none
	failedNegotiations int       // in a row
	notBefore          time.Time // the next negotiation must not begin earlier

	pushbacks  int  // rounds in a row in which the Hub answered 429 or 503
	lastPushed int  // the last of these rounds
	dispatched bool // a request was handed to the network
	ended      bool // all remaining entries got an answer
}

// entry is one original of a batch.
type entry struct {
	lane               *lane
	original           Original // as given
	start, notBefore   time.Time
	pushbacks, repeats int
}

// work is one question to ask in a lane, with its outcome.
type work struct {
	lane  *lane
	entry *entry // nil for a negotiation
	round int

	guard    guard
	receipt  *receipt.Receipt
	err      error
	returned bool
	panicked any
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
		client, err := boundary.NewClient(b.shared, s.binding.HubURL, boundary.HubRequests)
		if err != nil {
			b.transport.release(s)
			return invalid("expected_binding.hub_url cannot be sent to.")
		}
		settings := b.transport.settings
		settings.MaxRetries = 0 // the batch itself repeats questions, after a common pause
		settings.NegotiationReuse = batchNegotiation
		l = &lane{session: s, hub: inspection.NewHub(client, s.binding.Workspace, settings)}
		b.lanes[s.sessionKey] = l
		b.order = append(b.order, l)
	} else {
		b.transport.release(s) // the lane has acquired the session before
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

// pick gives the next question to ask; nil where none may be asked now. The lanes take
// turns.
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

// run asks the question and sends the work to done, also after a panic. done has room, so
// that run never waits for it.
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
	hub := w.lane.hub
	w.guard.session = w.lane.session
	if w.entry == nil {
		w.err = negotiate(ctx, hub, &w.guard)
	} else {
		if w.entry.start.IsZero() {
			w.entry.start = time.Now()
		}
		w.receipt, w.err = inspect(ctx, hub, &w.guard, w.entry.original)
	}
	// After a failure that concerns one invocation alone the negotiation stays valid.
	if failure, ok := errors.AsType[*feedback.Error](w.err); ok && (w.entry == nil || !failure.OfOneInvocation()) {
		hub.Forget()
	}
}

// delay puts an entry among those that have to wait, sorted by their times.
func (l *lane) delay(e *entry) {
	at, _ := slices.BinarySearchFunc(l.delayed, e, func(a, b *entry) int { return a.notBefore.Compare(b.notBefore) })
	l.delayed = slices.Insert(l.delayed, at, e)
}

// takeRemaining removes all entries that no worker is asking about, and gives them.
func (l *lane) takeRemaining() []*entry {
	remaining := append(l.waiting, l.delayed...)
	l.waiting, l.delayed = nil, nil
	return remaining
}

// next removes the first entry that need not wait, and gives it; nil where there is none.
func (l *lane) next() *entry {
	if len(l.waiting) == 0 {
		return nil
	}
	e := l.waiting[0]
	l.waiting = l.waiting[1:]
	return e
}
