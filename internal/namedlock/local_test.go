package namedlock_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/internal/namedlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Who waits longest is next, other names wait for nobody, and whoever gives up
// leaves nothing behind.
func TestLocal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var locks namedlock.Local
		unlock, ok := locks.Lock(t.Context(), "a")
		if !ok {
			t.Fatal("a lock that nobody has was not had")
		}
		if unlockOther, ok := locks.Lock(t.Context(), "b"); !ok {
			t.Error("another name waits")
		} else {
			unlockOther()
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, ok := locks.Lock(short, "a"); ok || time.Since(start) != time.Second {
			t.Errorf("a lock that another has: %v after %v, want none after 1s", ok, time.Since(start))
		}
		var order []int
		for i := range 5 {
			go func() {
				unlock, ok := locks.Lock(t.Context(), "a")
				if !ok {
					t.Error("a lock that came free was not had")
					return
				}
				order = append(order, i) // the race detector watches the lock
				unlock()
			}()
			synctest.Wait()
		}
		unlock()
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(order, want) {
			t.Errorf("they came through as %v, want %v", order, want)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			if _, ok := locks.Lock(ended, "a"); ok {
				t.Fatal("a lock was had with a context that has ended")
			}
		}
	})
}
