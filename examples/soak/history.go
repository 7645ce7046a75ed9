package main

import (
	"sync"
	"time"
)

// history is what something was, and when: an operation at its Hub, or the
// login of a connection.
type history[T any] struct {
	clock clock

	mu    sync.Mutex
	spans []span[T]
}

// span is a value and the time in which it can have been seen. The time of a
// change belongs to both sides.
type span[T any] struct {
	value       T
	from, until time.Time // until is zero for what still is
}

// keepHistory is longer than any call lasts.
const keepHistory = time.Minute

// change makes a change and notes what came of it. Whoever looks meanwhile
// waits, and so can be asked about what it saw.
func (h *history[T]) change(do func() (T, error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := h.clock.now()
	value, err := do()
	if err != nil {
		return err
	}
	until := h.clock.now()
	if n := len(h.spans); n > 0 {
		h.spans[n-1].until = until
	}
	for len(h.spans) > 0 && !h.spans[0].until.IsZero() && until.Sub(h.spans[0].until) > keepHistory {
		h.spans = h.spans[1:]
	}
	h.spans = append(h.spans, span[T]{value: value, from: from})
	return nil
}

// set notes a value that nobody can have seen before.
func (h *history[T]) set(value T) {
	_ = h.change(func() (T, error) { return value, nil })
}

// between gives what it was at any moment from one instant to the other, both
// included.
func (h *history[T]) between(from, until time.Time) (values []T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.spans {
		if !s.from.After(until) && (s.until.IsZero() || !s.until.Before(from)) {
			values = append(values, s.value)
		}
	}
	return values
}

// now is what it is.
func (h *history[T]) now() (value T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.spans); n > 0 {
		value = h.spans[n-1].value
	}
	return value
}
