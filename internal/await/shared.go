package await

import (
	"context"
	"runtime"
	"sync"
)

// Shared makes one call at a time. Should the code that it calls ignore its
// context and never return, one goroutine is stuck in it, and not one for every
// caller. Callers with an equal key share a call; callers with another key wait
// until that call has ended. The zero value is ready for use, and safe for
// concurrent use.
type Shared[K comparable, T any] struct {
	mu      sync.Mutex
	current *sharedCall[K, T] // nil while no call runs
}

type sharedCall[K comparable, T any] struct {
	key  K
	end  context.CancelFunc
	done chan struct{} // closed when the call has ended

	// Both are guarded by the mu of the Shared.
	waiting   int  // how many callers wait for the call
	abandoned bool // at some time no caller waited, and so the context of the call was ended

	// The outcome, set before done is closed.
	value    T
	err      error
	returned bool
	panicked any
}

// Do returns what the call of f returns or, when ctx ends first, the error of
// ctx. The context of f has the values of the caller that began the call, and
// ends when no caller waits for the call any more.
//
// Do repeats a panic of f in the caller that began the call, with the same value,
// and runtime.Goexit likewise. The other callers then make a call of their own.
// So does a caller that joined a call whose context had been ended and that
// failed: the failure may only mean that others had given up.
func (s *Shared[K, T]) Do(ctx context.Context, key K, f func(context.Context) (T, error)) (T, error) {
	var none T
	for {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		s.mu.Lock()
		call, own := s.current, false
		if call == nil {
			call, own = s.begin(ctx, key, f), true
		}
		shares := call.key == key
		if shares {
			call.waiting++
		}
		s.mu.Unlock()

		select {
		case <-ctx.Done():
			if shares {
				s.leave(call)
			}
			return none, ctx.Err()
		case <-call.done:
		}
		switch {
		case !shares:
		case call.returned && (call.err == nil || !call.abandoned):
			return call.value, call.err
		case !own:
		case call.panicked != nil:
			panic(call.panicked)
		default:
			runtime.Goexit()
		}
	}
}

// begin starts a call. The caller holds mu.
func (s *Shared[K, T]) begin(ctx context.Context, key K, f func(context.Context) (T, error)) *sharedCall[K, T] {
	call := &sharedCall[K, T]{key: key, done: make(chan struct{})}
	ctx, call.end = context.WithCancel(Detach(ctx))
	s.current = call
	go func() {
		defer func() {
			if !call.returned {
				call.panicked = recover()
			}
			s.mu.Lock()
			s.current = nil
			s.mu.Unlock()
			call.end()
			close(call.done)
		}()
		call.value, call.err = f(ctx)
		call.returned = true
	}()
	return call
}

// leave takes one caller off a call, and ends its context after the last one.
func (s *Shared[K, T]) leave(call *sharedCall[K, T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.waiting--; call.waiting == 0 {
		call.abandoned = true
		call.end()
	}
}
