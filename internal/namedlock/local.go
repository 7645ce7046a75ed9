package namedlock

import (
	"context"
	"sync"
)

// Local is a set of named locks within a process. A lock exists while somebody
// holds it or waits for it. It goes to the goroutine that has waited for it
// longest. The zero value is ready for use. Local is safe for concurrent use and
// must not be copied.
type Local struct {
	mu    sync.Mutex
	locks map[string]*localLock
}

type localLock struct {
	// held has room for one value: whoever sends it holds the lock. A channel
	// lets blocked senders through in the order in which they came.
	held chan struct{}
	// users is how many goroutines hold the lock or wait for it. At 0 the lock
	// is removed from the map.
	users int
}

// Lock waits for the lock of name until ctx ends. Where ctx ended, ok is false
// and there is nothing to unlock.
func (l *Local) Lock(ctx context.Context, name string) (unlock func(), ok bool) {
	l.mu.Lock()
	lock := l.locks[name]
	if lock == nil {
		lock = &localLock{held: make(chan struct{}, 1)}
		if l.locks == nil {
			l.locks = map[string]*localLock{}
		}
		l.locks[name] = lock
	}
	lock.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(l.locks, name)
		}
	}
	select {
	case lock.held <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, false
	}
	unlock = func() {
		<-lock.held
		leave()
	}
	// When both cases were ready, select chose either: a caller whose context
	// has ended must not get the lock.
	if ctx.Err() != nil {
		unlock()
		return nil, false
	}
	return unlock, true
}
