package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/lockport"
)

const (
	// lockLimit is how long a lock between processes is waited for, and
	// lockPoll how often it is tried (contract, section 5).
	lockLimit = 20 * time.Second
	lockPoll  = 50 * time.Millisecond
	// lockTenure is how long this process may pass a lock on among its own
	// before it leaves the port free for lockPause, in which every process that
	// polls gets its chance.
	lockTenure = time.Second
	lockPause  = 2 * lockPoll
)

// portLocks are locks with names between all processes of a machine, those of
// the other SDK too: who listens on the port of a name has its lock. The system
// frees it when the process ends, however it ends.
//
// Within the process, waiting is by name and in order, and one goroutine at a
// time polls a port. Two names of one port do not wait for each other here: the
// process has the port for both. So a change of the registry inside an update
// cannot wait for that very update. The zero value is ready.
type portLocks struct {
	// listen takes the port; nil for a TCP listener on 127.0.0.1.
	listen func(port int) (io.Closer, error)

	names keyLocks // who holds a name, or waits for its port
	turns keyLocks // who polls a port

	mu    sync.Mutex
	ports map[int]*lockPort // those that were ever asked for
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

// lock waits for the lock of name, at most lockLimit and until ctx ends. After
// an error there is nothing to unlock.
func (l *portLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	limited, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	port := lockport.Of(name)
	gaveUp := func() error {
		if err := ended(ctx, "waiting for "+described(name), ErrLocked); err != nil {
			return err
		}
		return fail(fmt.Sprintf("the lock %s was not free within %v: port %d of 127.0.0.1 stayed taken, by a process that uses this registry or by another program", name, lockLimit, port), ErrLocked)
	}

	leave, ok := l.names.lock(limited, name)
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
		return nil, systemError("taking "+described(name), err)
	}
}

// described names a lock as messages do.
func described(name string) string {
	return fmt.Sprintf("the lock %s, port %d of 127.0.0.1", name, lockport.Of(name))
}

// take gets the port for one more name. Its error is that of ctx, or of the
// listener.
func (l *portLocks) take(ctx context.Context, number int) error {
	pass, ok := l.turns.lock(ctx, strconv.Itoa(number))
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

	listen := l.listen
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
		if !errors.Is(err, syscall.EADDRINUSE) {
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

func (l *portLocks) release(number int) {
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
