package await

import (
	"context"
	"runtime"
	"sync"
)

// Shared makes one call at a time, whatever the code that is called does with
// its context, so that no more than one is ever stuck in it. Callers with an
// equal key share a call; those with another one wait until it has ended. The
// zero value is ready, and safe for concurrent use.
type Shared[K comparable, T any] struct {
	mu  sync.Mutex
	now *sharedCall[K, T] // nil where nobody is called
}

type sharedCall[K comparable, T any] struct {
	key     K
	end     context.CancelFunc
	done    chan struct{} // closed at its end
	waiting int           // how many callers share it; guarded by the mu of its Shared
	left    bool          // nobody waited for it at some time; so guarded, too

	// The outcome, set before done is closed.
	value    T
	err      error
	returned bool
	panicked any
}

// Do returns what the call returns, or the error of ctx as soon as that is
// done, whichever comes first. The context of f has the values of the caller
// that began the call, and ends when nobody waits for it any more.
//
// A panic of f is raised again in the caller that began the call, with the same
// value; so is runtime.Goexit. The others call for themselves then, and so do
// those who came to a call that nobody waited for and that failed.
func (s *Shared[K, T]) Do(ctx context.Context, key K, f func(context.Context) (T, error)) (T, error) {
	var none T
	for {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		s.mu.Lock()
		call, own := s.now, false
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
		case call.returned && (call.err == nil || !call.left):
			return call.value, call.err
		case !own:
		case call.panicked != nil:
			panic(call.panicked)
		default:
			runtime.Goexit()
		}
	}
}

// begin makes a call; mu is held.
func (s *Shared[K, T]) begin(ctx context.Context, key K, f func(context.Context) (T, error)) *sharedCall[K, T] {
	call := &sharedCall[K, T]{key: key, done: make(chan struct{})}
	ctx, call.end = context.WithCancel(Detach(ctx))
	s.now = call
	go func() {
		defer func() {
			if !call.returned {
				call.panicked = recover()
			}
			s.mu.Lock()
			s.now = nil
			s.mu.Unlock()
			call.end()
			close(call.done)
		}()
		call.value, call.err = f(ctx)
		call.returned = true
	}()
	return call
}

func (s *Shared[K, T]) leave(call *sharedCall[K, T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.waiting--; call.waiting == 0 {
		call.left = true
		call.end()
	}
}
