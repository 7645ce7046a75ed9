package hubtest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A Fault makes a request fail or take long. Its fields can be combined. [Hub.Inject] puts a
// fault in a queue; each request takes the first fault for its kind.
type Fault struct {
	// On is the kind of request; zero is every kind.
	On RequestKind
	// Skip lets so many of these requests pass first; with 0 the fault applies to the
	// next one.
	Skip int
	// Times is how many requests it meets: 0 is one, negative is without end.
	Times int

	// Latency passes before the Hub looks at the request; 0 is none.
	Latency time.Duration
	// Hold stops the request at a point until the test lets it go on; nil does not.
	Hold *Hold
	// Drop loses the connection at a point; zero keeps it.
	Drop Drop

	// Status answers in place of the Hub, which does not see the request; 0 lets
	// the Hub answer. An informational status other than 101 is sent ahead of the
	// Hub's answer.
	Status int
	// Body of the answer that Status gives; nil is an empty one.
	Body []byte
	// Header is laid over the headers of the answer, the Hub's own too; nil adds
	// none. A nil value removes a header.
	Header http.Header
	// Rewrite changes the body of the answer, the Hub's own too; nil does not.
	Rewrite func(body []byte) []byte

	// ByteInterval sends the body slowly: one byte, then this pause. 0 sends it
	// at once.
	ByteInterval time.Duration
	// Endless repeats the body until the client closes the connection.
	Endless bool
}

// Drop is the point at which a connection is lost.
type Drop int

const (
	// DropNothing keeps the connection.
	DropNothing Drop = iota
	// DropRequest loses the request: the Hub never sees it.
	DropRequest
	// DropAnswer loses the Hub's answer to the host: the Hub has processed the request,
	// and knows the outcome. To lose the business system's answer to the Hub, use
	// [AnswerLost].
	DropAnswer
	// DropMidBody loses the second half of the answer's body.
	DropMidBody
)

// A Point is where a [Hold] stops a request.
type Point int

const (
	// AtRequest is before the Hub reads the request.
	AtRequest Point = iota
	// AtAnswer is after the Hub has processed the request, before it sends the headers.
	AtAnswer
	// AtBody is in the middle of the answer's body.
	AtBody
)

// A Hold stops requests until it is released.
type Hold struct {
	at                Point
	arrived, released chan struct{}
	arrive, release   sync.Once
}

// NewHold returns a hold for a [Fault]. Most tests want [Hub.Hold].
func NewHold(at Point) *Hold {
	return &Hold{at: at, arrived: make(chan struct{}), released: make(chan struct{})}
}

// Arrived is closed when the first request is held.
func (h *Hold) Arrived() <-chan struct{} { return h.arrived }

// Release lets the held requests continue, and later ones pass.
func (h *Hold) Release() { h.release.Do(func() { close(h.released) }) }

// wait holds a request, and reports whether it may go on.
func (h *Hold) wait(ctx context.Context, at Point) bool {
	if h == nil || h.at != at {
		return true
	}
	h.arrive.Do(func() { close(h.arrived) })
	select {
	case <-h.released:
		return true
	case <-ctx.Done():
		return false
	}
}

// Inject adds faults to the queue. It panics when a Status is not a valid HTTP status.
func (h *Hub) Inject(faults ...Fault) {
	added := queued(faults)
	h.change(func() { h.faults = append(h.faults, added...) })
}

// Faults returns the queue as it is now, with the remaining Skip and Times of each fault.
func (h *Hub) Faults() []Fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.queue()
}

// EditFaults lets edit change the queue: add somewhere, take out, put in another
// order. It panics as [Hub.Inject] does. Edit must not call the Hub.
func (h *Hub) EditFaults(edit func(queue []Fault) []Fault) {
	h.change(func() { h.faults = queued(edit(h.queue())) })
}

// queue returns the faults as values. The caller holds the lock.
func (h *Hub) queue() []Fault {
	faults := make([]Fault, len(h.faults))
	for i, f := range h.faults {
		faults[i] = *f
	}
	return faults
}

// queued makes faults ready for the queue.
func queued(faults []Fault) []*Fault {
	ready := make([]*Fault, len(faults))
	for i, f := range faults {
		if f.Status != 0 && (f.Status < 100 || f.Status > 999) {
			panic(fmt.Sprintf("hubtest: %d is no status of HTTP", f.Status))
		}
		if f.Times == 0 {
			f.Times = 1
		}
		ready[i] = &f
	}
	return ready
}

// Hold stops the next request of a kind at a point.
func (h *Hub) Hold(on RequestKind, at Point) *Hold {
	hold := NewHold(at)
	h.Inject(Fault{On: on, Hold: hold})
	return hold
}

// ClearFaults empties the queue. A fault still applies to a request that has taken it.
func (h *Hub) ClearFaults() {
	h.change(func() { h.faults = nil })
}

// fault takes the fault for a request from the queue. The caller holds the lock.
func (h *Hub) fault(kind RequestKind) Fault {
	for i, f := range h.faults {
		if f.On != AnyRequest && f.On != kind {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			h.faults = append(h.faults[:i:i], h.faults[i+1:]...)
		}
		return *f
	}
	return Fault{}
}

// pause waits, and reports whether the time passed before the request ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
