package namedlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/fault"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/namedlock"
	"github.com/bailinghub/bailinghub-go/internal/namedlock/locktest"
)

// newMachine gives the locks of one process.
func newMachine(listen func(port int) (io.Closer, error)) *namedlock.Machine {
	return &namedlock.Machine{Listen: listen}
}

// hold takes the lock of a name and fails the test where it cannot.
func hold(t *testing.T, locks *namedlock.Machine, name string) (unlock func()) {
	t.Helper()
	unlock, err := locks.Lock(t.Context(), name)
	if err != nil {
		t.Fatalf("Lock(%s): %v", name, err)
	}
	return unlock
}

// collision gives two names of locks that have one port.
func collision() (one, other string) {
	seen := map[int]string{}
	for i := 0; ; i++ {
		name := fmt.Sprint("file:/registry/", i)
		if before, found := seen[namedlock.Port(name)]; found {
			return before, name
		}
		seen[namedlock.Port(name)] = name
	}
}

// The lock is the port itself, for whoever looks at it from outside.
func TestLockTakesItsPort(t *testing.T) {
	t.Parallel()
	locks := new(namedlock.Machine)
	name := lockport.Registry(lockport.Quiet(t.TempDir(), "registry"))
	address := fmt.Sprint("127.0.0.1:", namedlock.Port(name))
	unlock := hold(t, locks, name)
	if foreign, err := net.Listen("tcp", address); err == nil {
		_ = foreign.Close()
		t.Error("another program can listen on the port of a lock that is held")
	}
	unlock()
	foreign, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("listening on the port of a lock that is free: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	if _, err := locks.Lock(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock while a foreign program has the port: %v", err)
	}
	if err := foreign.Close(); err != nil {
		t.Fatal(err)
	}
	hold(t, locks, name)()
}

func TestLockGivesUp(t *testing.T) {
	t.Parallel()
	const name = "file:/registry/a"
	where := []string{name, fmt.Sprintf("port %d of 127.0.0.1", namedlock.Port(name))}
	for _, test := range []struct {
		how     string
		context func(context.Context) (context.Context, context.CancelFunc)
		after   time.Duration
		matches error
		says    string
	}{
		{"after 20 s", context.WithCancel, 20 * time.Second, nil, "was not free within 20s"},
		{"at the deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 7*time.Second)
		}, 7 * time.Second, context.DeadlineExceeded, "deadline passed"},
		{"when cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, time.Second, context.Canceled, "cancelled"},
	} {
		for _, waits := range []string{"for another process", "for this process"} {
			t.Run(test.how+" "+waits, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var machine locktest.Ports
					here, there := newMachine(machine.Listen), newMachine(machine.Listen)
					holder := there
					if waits == "for this process" {
						holder = here
					}
					unlock := hold(t, holder, name)
					before, start := machine.Tries(), time.Now()
					ctx, cancel := test.context(t.Context())
					defer cancel()
					_, err := here.Lock(ctx, name)
					if took := time.Since(start); took != test.after {
						t.Errorf("it gave up after %v, want %v", took, test.after)
					}
					wants := before
					if holder == there {
						wants += int(test.after / (50 * time.Millisecond))
					}
					// At the end the timer and the limit are due at once.
					if tries := machine.Tries(); tries < wants || tries > wants+1 {
						t.Errorf("the port was tried %d times, want %d", tries-before, wants-before)
					}
					if _, safe := errors.AsType[*fault.Error](err); !safe || test.matches != nil && !errors.Is(err, test.matches) {
						t.Errorf("error %v, want a *fault.Error that matches %v", err, test.matches)
					}
					if !errors.Is(err, namedlock.ErrHeld) {
						t.Errorf("error %v, want one that matches ErrHeld", err)
					}
					if test.matches == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
						t.Errorf("error %v matches that of a context, which has not ended", err)
					}
					for _, part := range append(where, test.says) {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("error %q does not say %q", err, part)
						}
					}
					unlock()
					hold(t, here, name)()
				})
			})
		}
	}
}

func TestLockDoesNotBeginWithAnEndedContext(t *testing.T) {
	t.Parallel()
	var machine locktest.Ports
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	locks := newMachine(machine.Listen)
	for range 100 {
		if _, err := locks.Lock(ctx, "file:a"); !errors.Is(err, context.Canceled) {
			t.Fatalf("Lock: %v, want that the context was cancelled", err)
		}
	}
	if machine.Tries() != 0 {
		t.Error("the port was tried")
	}
}

// Only a port that is in use is worth waiting for.
func TestLockReturnsOtherErrorsAtOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range []syscall.Errno{syscall.EMFILE, syscall.EACCES, syscall.EADDRNOTAVAIL} {
		machine := locktest.Ports{Fault: fault}
		locks := newMachine(machine.Listen)
		_, err := locks.Lock(t.Context(), "file:/registry/a")
		if !errors.Is(err, fault) || machine.Tries() != 1 {
			t.Errorf("Lock: %v after %d tries, want %v after one", err, machine.Tries(), fault)
		}
		want := fmt.Sprintf("taking the lock file:/registry/a, port %d of 127.0.0.1: %v", namedlock.Port("file:/registry/a"), fault)
		if err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		machine.Fault = nil
		hold(t, locks, "file:/registry/a")()
	}
}

// A thousand that wait try the port no more often than one, and come through in
// the order in which they came.
func TestLockIsFairAndCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const name, waiters = "registry:/registry", 1000
		var machine locktest.Ports
		here, there := newMachine(machine.Listen), newMachine(machine.Listen)
		unlock := hold(t, there, name)
		before := machine.Tries()
		var order []int
		var group sync.WaitGroup
		for i := range waiters {
			group.Go(func() {
				unlock, err := here.Lock(t.Context(), name)
				if err != nil {
					t.Errorf("Lock among many: %v", err)
					return
				}
				order = append(order, i) // the race detector watches the lock
				unlock()
			})
			synctest.Wait()
		}
		<-time.After(10*time.Second - time.Millisecond)
		if tries := machine.Tries() - before; tries != 200 {
			t.Errorf("%d that wait 10 s tried the port %d times, want 200", waiters, tries)
		}
		unlock()
		group.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("waiter %d came through as number %d", got, i)
			}
		}
		if len(order) != waiters {
			t.Errorf("%d came through, want %d", len(order), waiters)
		}
	})
}

// A process that never stops wanting a lock leaves it to others now and then.
func TestLockIsNotKeptFromOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const name = "registry:/registry"
		var machine locktest.Ports
		busy, other := newMachine(machine.Listen), newMachine(machine.Listen)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for {
					unlock, err := busy.Lock(ctx, name)
					if err != nil {
						return
					}
					<-time.After(10 * time.Millisecond)
					unlock()
				}
			})
		}
		synctest.Wait()
		for range 20 {
			start := time.Now()
			hold(t, other, name)()
			if took := time.Since(start); took > 1500*time.Millisecond {
				t.Errorf("the other process waited %v", took)
			}
		}
		cancel()
		group.Wait()
	})
}

// Two names can have one port. Processes wait for each other then; within one,
// which has the port for both, nobody does.
func TestTwoLocksOfOnePort(t *testing.T) {
	t.Parallel()
	one, other := collision()
	synctest.Test(t, func(t *testing.T) {
		var machine locktest.Ports
		here, there := newMachine(machine.Listen), newMachine(machine.Listen)
		unlockOne := hold(t, here, one)
		unlockOther := hold(t, here, other)
		for _, unlock := range []func(){unlockOne, unlockOther} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := there.Lock(ctx, other)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock of a port that is held under another name: %v", err)
			}
			cancel()
			unlock()
		}
		unlock := hold(t, there, other)
		before := machine.Tries()
		var group sync.WaitGroup
		for _, name := range []string{one, other, one, other} {
			group.Go(func() {
				if unlock, err := here.Lock(t.Context(), name); err != nil {
					t.Errorf("Lock: %v", err)
				} else {
					unlock()
				}
			})
		}
		<-time.After(10*time.Second - time.Millisecond)
		// This process had the port for long, and leaves it alone at first.
		if tries := machine.Tries() - before; tries < 195 || tries > 200 {
			t.Errorf("two names that wait 10 s for one port tried it %d times, want 200", tries)
		}
		unlock()
		group.Wait()
	})
}
