package page

import (
	"context"
	"net/http"
	"slices"
	"time"
)

const (
	// eventInterval is the least time between two events to a reader. What
	// happens meanwhile is in the next one: each has the whole state.
	eventInterval = 200 * time.Millisecond
	// maxReaders is how many follow the Hub at once. With one more, the one
	// that came first has to go.
	maxReaders = 16
)

// A reader is somebody who follows the Hub.
type reader struct{ leave context.CancelFunc }

// events follows the Hub: server-sent events, each with the whole state. No
// reader slows the Hub, which waits for none of them. Each is written to on its
// own, and one that does not take an event in time is dropped.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // it follows nothing, and takes nobody's place
	}
	ctx, leave := context.WithCancel(r.Context())
	defer p.enter(&reader{leave})()
	control := http.NewResponseController(w)
	for {
		changed := p.hub.Changed()
		state, until := p.look()
		event := slices.Concat([]byte("retry: 1000\ndata: "), state, []byte("\n\n"))
		_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := w.Write(event); err != nil || control.Flush() != nil {
			return
		}
		passed := make(<-chan time.Time) // never, where time changes nothing
		if !until.IsZero() {
			passed = time.After(time.Until(until))
		}
		select {
		case <-changed:
		case <-passed:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(eventInterval):
		case <-ctx.Done():
			return
		}
	}
}

// enter admits a reader, and has the one that came first leave where there are
// too many. What it returns ends the reader.
func (p *Page) enter(r *reader) (exit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readers = append(p.readers, r); len(p.readers) > maxReaders {
		p.readers[0].leave()
		p.readers = slices.Delete(p.readers, 0, 1)
	}
	return func() {
		r.leave()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.readers = slices.DeleteFunc(p.readers, func(other *reader) bool { return other == r })
	}
}
