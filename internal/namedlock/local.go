package namedlock

import (
	"context"
	"sync"
)

// Local are locks with names within a process, made when first asked for. Who
// waits longest is next. The zero value is ready. Local is safe for concurrent
// use and must not be copied.
type Local struct {
	mu    sync.Mutex
	locks map[string]*localLock
}

type localLock struct {
	// held has room for one: to send is to lock. Blocked senders come through
	// in their order.
	held chan struct{}
	// users hold the lock or wait for it; at 0 it is dropped from the map.
	users int
}

// Lock waits for the lock of name until ctx ends; ok is false then, and there
// is nothing to unlock.
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
	// Where both were ready, select has chosen either.
	if ctx.Err() != nil {
		unlock()
		return nil, false
	}
	return unlock, true
}
