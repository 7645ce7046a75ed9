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

// ErrHeld: others kept the lock until the wait for it ended.
var ErrHeld = errors.New("others kept the lock")

const (
	// Limit is how long a lock of a [Machine] is waited for, and lockPoll how
	// often it is tried (contract, section 5).
	Limit    = 20 * time.Second
	lockPoll = 50 * time.Millisecond
	// lockTenure is how long this process may pass a lock on among its own
	// before it leaves the port free for lockPause, in which every process that
	// polls gets its chance.
	lockTenure = time.Second
	lockPause  = 2 * lockPoll
)

// Machine are locks with names between all processes of a machine: who listens
// on the port of a name has its lock. The system frees it when the process ends,
// however it ends.
//
// Within the process, waiting is by name and in order, and one goroutine at a
// time polls a port. Two names of one port do not wait for each other here: the
// process has the port for both. So a change of a registry inside an update of
// one of its logins cannot wait for that very update. The zero value is ready.
// Machine is safe for concurrent use and must not be copied.
type Machine struct {
	// Listen takes a port; nil for a TCP listener on 127.0.0.1. It is for
	// tests, and set before the first lock.
	Listen func(port int) (io.Closer, error)

	names Local // who holds a name, or waits for its port
	turns Local // who polls a port

	mu    sync.Mutex
	ports map[int]*lockPort // those that were ever asked for
}

// Port gives the port of a name.
func Port(name string) int {
	sum := sha256.Sum256([]byte(name))
	return 10000 + int(binary.BigEndian.Uint32(sum[:4])%30000)
}

// Describe names a lock as messages do, with its port.
func Describe(name string) string {
	return fmt.Sprintf("the lock %s, port %d of 127.0.0.1", name, Port(name))
}

type lockPort struct {
	listener io.Closer
	// users are the names that are locked through the listener; without any
	// there is none.
	users int
	// since is when this process began to hold the port with hardly a pause,
	// and freed when it last let go of it.
	since, freed time.Time
}

// Lock waits for the lock of name, at most [Limit] and until ctx ends. After an
// error there is nothing to unlock. The error matches [ErrHeld] and names lock
// and port where others kept the lock, and matches the error of ctx where that
// has ended.
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

// take gets the port for one more name. Its error is that of ctx, or of the
// listener.
func (l *Machine) take(ctx context.Context, number int) error {
	pass, ok := l.turns.Lock(ctx, strconv.Itoa(number))
	if !ok {
		return ctx.Err()
	}
	defer pass()

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

// pause is how long a process that held a port since, and freed it, waits
// before it takes it again.
func pause(since, freed, now time.Time) time.Duration {
	if now.Sub(freed) < lockPoll && freed.Sub(since) >= lockTenure {
		return lockPause
	}
	return 0
}

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
	// Nothing here waits: the address needs no resolving.
	return config.Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
