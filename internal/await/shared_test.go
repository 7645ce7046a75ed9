package await_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/await"
)

// stuck is a call that ignores its context until it is released.
type stuck struct {
	calls   atomic.Int64
	release chan struct{}
	ctx     context.Context
}

func (s *stuck) call(ctx context.Context) (int64, error) {
	s.ctx = ctx
	n := s.calls.Add(1)
	<-s.release
	return n, nil
}

func TestSharedCallsOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shared await.Shared[string, int64]
		s := stuck{release: make(chan struct{})}
		for range 100 { // each gives up
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := shared.Do(ctx, "", s.call); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if n := s.calls.Load(); n != 1 {
			t.Errorf("%d calls, each in a goroutine of its own", n)
		}
		if s.ctx.Err() == nil {
			t.Error("nobody waits, and the context of the call goes on")
		}
		var all sync.WaitGroup
		for range 100 { // all share what it brings after all
			all.Go(func() {
				if n, err := shared.Do(t.Context(), "", s.call); n != 1 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			})
		}
		all.Go(func() { // and this one wants something else
			if n, err := shared.Do(t.Context(), "other", s.call); n != 2 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		})
		synctest.Wait()
		close(s.release)
		all.Wait()
	})
}

// What became of a call because nobody waited for it is nothing to those who
// come later; a call that somebody waits for goes on when others leave.
func TestSharedCallsThatWereLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shared await.Shared[string, int64]
		calls := 0
		slow := func(ctx context.Context) (int64, error) {
			calls++
			select {
			case <-ctx.Done():
				time.Sleep(time.Second) // on its way out
				return 0, ctx.Err()
			case <-time.After(10 * time.Second):
				return int64(calls), nil
			}
		}
		early, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := shared.Do(early, "", slow); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if n, err := shared.Do(t.Context(), "", slow); n != 1 || err != nil {
				t.Errorf("the one who stays: %d, %v", n, err)
			}
		})
		synctest.Wait()
		leave()
		all.Wait()

		alone, leave := context.WithCancel(t.Context())
		all.Go(func() { _, _ = shared.Do(alone, "", slow) })
		synctest.Wait()
		leave()
		synctest.Wait()
		if n, err := shared.Do(t.Context(), "", slow); n != 3 || err != nil {
			t.Errorf("the one who comes later: %d, %v", n, err)
		}
		all.Wait()
	})
}

func TestSharedPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shared await.Shared[string, int64]
		var calls, panics atomic.Int64
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				defer func() {
					if recover() == "mine" {
						panics.Add(1)
					}
				}()
				_, _ = shared.Do(t.Context(), "", func(context.Context) (int64, error) {
					calls.Add(1)
					time.Sleep(time.Second)
					panic("mine")
				})
			})
		}
		all.Go(func() {
			_, _ = shared.Do(t.Context(), "", func(context.Context) (int64, error) {
				runtime.Goexit()
				return 0, nil
			})
			t.Error("after Goexit")
		})
		all.Wait()
		if calls.Load() != panics.Load() || panics.Load() < 2 {
			t.Errorf("%d panics of %d calls", panics.Load(), calls.Load())
		}
		if n, err := shared.Do(t.Context(), "", func(context.Context) (int64, error) { return 7, nil }); n != 7 || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}
