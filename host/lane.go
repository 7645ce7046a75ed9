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

// lane is the part of a batch that belongs to one binding. While it has no
// negotiation, one request is made in it at a time.
type lane struct {
	session *session
	hub     *inspection.Hub

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
		settings.MaxRetries = 0 // the batch repeats, all together
		settings.NegotiationReuse = batchNegotiation
		l = &lane{session: s, hub: inspection.NewHub(client, s.binding.Workspace, settings)}
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
	// A failure that speaks of one invocation says nothing about the negotiation.
	if failure, ok := errors.AsType[*feedback.Error](w.err); ok && (w.entry == nil || !failure.OfOneInvocation()) {
		hub.Forget()
	}
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
