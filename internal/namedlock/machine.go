package namedlock

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// ErrHeld says that others held the lock until the wait for it ended.
var ErrHeld = errors.New("others kept the lock")

const (
	// Limit is how long Lock of a [Machine] waits, and lockPoll is the time
	// between two attempts (contract, section 5).
	Limit    = 20 * time.Second
	lockPoll = 50 * time.Millisecond
	// lockTenure is how long this process may pass a port on among its own
	// goroutines. After that it leaves the port free for lockPause, in which
	// every other process that polls gets its chance. Without the pause, a busy
	// process would keep all others from the lock.
	lockTenure = time.Second
	lockPause  = 2 * lockPoll
)

// Machine is a set of named locks between all processes of a machine: the process
// that listens on the port of a name has its lock. The system frees the port when
// the process ends, however it ends.
//
// Within the process, goroutines wait for a name in order, and only one at a time
// polls a port. Two names with the same port do not exclude each other within the
// process: it holds the port for both. Otherwise a change of a registry inside an
// update of one of its logins would wait for that update, and so for itself,
// where the two names happen to have the same port. The zero value is ready for
// use. Machine is safe for concurrent use and must not be copied.
type Machine struct {
	// Listen takes a port; nil for a TCP listener on 127.0.0.1. It is for
	// tests, and set before the first lock.
	Listen func(port int) (io.Closer, error)

	names   Local // held by whoever has a name or waits for its port
	polling Local // held by whoever polls a port

	mu    sync.Mutex
	ports map[int]*lockPort // every port that was ever asked for
}

// Port gives the port of a name.
func Port(name string) int {
	sum := sha256.Sum256([]byte(name))
	return 10000 + int(binary.BigEndian.Uint32(sum[:4])%30000)
}

// Describe names a lock in a message, with its port.
func Describe(name string) string {
	return fmt.Sprintf("the lock %s, port %d of 127.0.0.1", name, Port(name))
}

type lockPort struct {
	listener io.Closer
	// users is how many names are locked through the listener. At 0 there is no
	// listener.
	users int
	// since is when this process began to hold the port, not counting pauses
	// shorter than lockPoll. freed is when it last closed the listener.
	since, freed time.Time
}

// Lock waits for the lock of name, at most for [Limit] and until ctx ends. After
// an error there is nothing to unlock. Where others kept the lock, the error
// matches [ErrHeld] and names the lock and its port. Where ctx ended, the error
// matches that of ctx.
func (l *Machine) Lock(ctx context.Context, name string) (unlock func(), err error) {
	limited, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	port := Port(name)
	gaveUp := func() error {
		if err := fault.Ended(ctx, "waiting for "+Describe(name), ErrHeld); err != nil {
			return err
		}
		return fault.New(fmt.Sprintf("the lock %s was not free within %v: port %d of 127.0.0.1 stayed taken, by a process that wants the same lock or by another program", name, Limit, port), ErrHeld)
	}

	leave, ok := l.names.Lock(limited, name)
	if !ok {
		return nil, gaveUp()
	}
	switch err := l.take(limited, port); {
	case err == nil:
		return func() { l.release(port); leave() }, nil
	case limited.Err() != nil:
		leave()
		return nil, gaveUp()
	default:
		leave()
		return nil, fault.System("taking "+Describe(name), err)
	}
}

// take waits for the port on behalf of one more name. Its error is that of ctx,
// or of the listener.
func (l *Machine) take(ctx context.Context, number int) error {
	unlock, ok := l.polling.Lock(ctx, strconv.Itoa(number))
	if !ok {
		return ctx.Err()
	}
	defer unlock()

	l.mu.Lock()
	port := l.ports[number]
	if port == nil {
		port = &lockPort{}
		if l.ports == nil {
			l.ports = map[int]*lockPort{}
		}
		l.ports[number] = port
	}
	if port.users > 0 {
		port.users++
		l.mu.Unlock()
		return nil
	}
	freed, since := port.freed, port.since
	l.mu.Unlock()

	listen := l.Listen
	if listen == nil {
		listen = listenOn
	}
	for wait := pause(since, freed, time.Now()); ; wait = lockPoll {
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
		listener, err := listen(number)
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			port.listener, port.users = listener, 1
			if now := time.Now(); now.Sub(freed) >= lockPoll {
				port.since = now
			}
			return nil
		}
		if !inUse(err) {
			return err
		}
	}
}

// pause gives how long this process waits before it takes a port that it held
// from since until freed: see lockTenure.
func pause(since, freed, now time.Time) time.Duration {
	if now.Sub(freed) < lockPoll && freed.Sub(since) >= lockTenure {
		return lockPause
	}
	return 0
}

// release gives the port back for one name, and closes the listener after the
// last one.
func (l *Machine) release(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	port := l.ports[number]
	if port.users--; port.users == 0 {
		_ = port.listener.Close()
		port.listener, port.freed = nil, time.Now()
	}
}

// listenOn takes a port as the other SDK does: a plain TCP listener.
func listenOn(port int) (io.Closer, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	// The address needs no resolving, so that Listen does not wait and needs no
	// context.
	return config.Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
