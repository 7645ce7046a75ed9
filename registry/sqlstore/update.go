package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/sqldb"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	// saveLimit is how long the store tries to save refreshed tokens, because the
	// old refresh token has been used. A database that is set up for a failover
	// takes a minute at most for one. After that time the caller keeps the tokens
	// and may save them with another update.
	saveLimit = 60 * time.Second
	// takeover is how many lease times after the last renewal another process
	// takes a lease over. The process that holds it stops by itself after one lease
	// time, even where it was suspended, so that two processes never use one
	// refresh token. Where it had sent the refresh before, it has the rest of the
	// time to save the answer.
	takeover = 4
	// The pause before the store tries again to get a lease that another process
	// holds begins with firstPoll and doubles up to longestPoll.
	firstPoll   = 20 * time.Millisecond
	longestPoll = 500 * time.Millisecond
	// releaseLimit is how long the store tries to release a lease.
	releaseLimit = 2 * time.Second
)

// UpdateCredentials implements [registry.Store]. update runs in the goroutine of the
// caller, under a lease in the row of the connection. No transaction is open and no
// connection of the database is held meanwhile. The context of update ends when the
// lease cannot be renewed. The store tries the save for up to a minute, over lost
// connections and failovers.
//
// A process that ends in the middle of an update does not release its lease. Until
// another process may take that over, after four times the time of [WithLease], an
// update of this connection waits, or returns the error of its context. A lease that
// this store could not release, because the database was down, makes only other
// processes wait. The next update of this store takes it over at once, and saves
// the refreshed tokens before any other process can use the old refresh token.
func (s *Store) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	const doing = "updating a login"
	if update == nil {
		return invalid("the update must not be nil")
	}
	// This check comes before the lease, so that a call without a login to update
	// does not wait for another one.
	if _, err := s.Credentials(ctx, key); err != nil {
		return err
	}
	// Only one goroutine of this process tries to get the lease. The others wait
	// here, without asking the database.
	unlock, ok := s.updates.Lock(ctx, key)
	if !ok {
		return s.db.Ended(ctx, doing+": waiting for another update of "+key)
	}
	defer unlock()
	held, err := s.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer held.release()

	r, before, err := s.login(ctx, doing, key)
	if err != nil {
		return err
	}
	// The result is not needed: sealing once before the update makes a key service
	// that is down an error while the refresh token has not been used.
	if _, err := s.seal(ctx, key, before); err != nil {
		return err
	}
	after, err := update(held.context(ctx), before)
	if err != nil {
		return err
	}
	if after.Equal(before) {
		return nil
	}
	if err := r.Check(after); err != nil {
		return err
	}
	// The old refresh token has been used, so the save must not end with ctx.
	ctx = context.WithoutCancel(ctx)
	sealed, err := s.seal(ctx, key, after)
	if err != nil {
		return err
	}
	return s.save(ctx, key, r.login.V, sealed)
}

// save replaces the login before with after. Where a statement changed no row, an
// earlier one, whose answer was lost, may have done the work: so save compares what is
// stored with after.
func (s *Store) save(ctx context.Context, key string, before, after []byte) error {
	const doing = "saving a renewed login"
	return s.db.Try(ctx, doing, saveLimit, func(ctx context.Context) error {
		n, err := s.db.Exec(ctx, "UPDATE bailinghub_connections SET login = ? WHERE namespace = ? AND connection_key = ? AND login = ?", after, s.namespace, key, before)
		if err != nil || n > 0 {
			return err
		}
		r, err := s.find(ctx, doing, key)
		switch {
		case err == nil && bytes.Equal(r.login.V, after):
			return nil
		case err == nil || errors.Is(err, registry.ErrNotFound):
			return fail("the login of "+key+" was replaced or removed in the meantime", registry.ErrChanged)
		}
		return err
	})
}

// lease is the right to update one login. It ends when it is not renewed in time.
type lease struct {
	store  *Store
	key    string
	holder int64 // the fencing number of this lease
	left   int64 // that of one that this store could not give back; 0 for none

	mu    sync.Mutex
	until time.Time // by this process' monotonic clock

	over chan struct{} // closed when the lease could not be renewed
	stop context.CancelFunc
	done chan struct{} // closed when renew has returned
}

// acquire waits for the lease of a key until ctx ends.
func (s *Store) acquire(ctx context.Context, key string) (*lease, error) {
	const doing = "waiting for the lease of a login"
	l := &lease{store: s, key: key, holder: 1 + rand.Int64N(1<<62), over: make(chan struct{}), done: make(chan struct{})}
	if left, ok := s.left.Load(key); ok {
		l.left = left.(int64)
	}
	for pause := firstPoll; ; pause = min(2*pause, longestPoll) {
		from, err := l.tryAcquire(ctx)
		if err != nil {
			return nil, err
		}
		if l.until.After(time.Now()) {
			s.left.CompareAndDelete(key, l.left)
			if from != 0 && from != l.left {
				s.logger.WarnContext(ctx, "the update of a login was taken over from a process that did not end it; if that process had renewed the session, the session is lost", slog.String("connection_key", key))
			}
			break
		}
		if !sqldb.Sleep(ctx, sqldb.Jitter(pause)) {
			return nil, s.db.Ended(ctx, doing+": another process is renewing "+key)
		}
	}
	renewal, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.renew(renewal)
	return l, nil
}

// tryAcquire tries once to get the lease; where it succeeds, l.until is in the future.
// from is the fencing number of the lease that it took over; 0 for none.
func (l *lease) tryAcquire(ctx context.Context) (from int64, err error) {
	s := l.store
	const doing = "taking the lease of a login"
	err = s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		var now, last, until int64
		err := s.db.QueryRow(ctx, "SELECT {now}, lease_holder, lease_until FROM bailinghub_connections WHERE namespace = ? AND connection_key = ?", s.namespace, l.key).Scan(&now, &last, &until)
		switch {
		case sqldb.IsNoRow(err):
			return fail("there is no such connection", registry.ErrNotFound)
		case err != nil:
			return err
		case last != 0 && last != l.holder && last != l.left && until > now:
			return nil
		}
		if last != l.holder { // else an attempt whose answer was lost has taken it
			from = last
		}
		start := time.Now()
		n, err := s.db.Exec(ctx, "UPDATE bailinghub_connections SET lease_holder = ?, lease_until = {now} + ? WHERE namespace = ? AND connection_key = ? AND lease_holder = ?",
			l.holder, (takeover * s.lease).Milliseconds(), s.namespace, l.key, last)
		if err == nil && (n > 0 || last == l.holder) {
			l.until = start.Add(s.lease)
		}
		return err
	})
	return from, err
}

// renew renews the lease again and again, until ctx ends or the lease is lost.
func (l *lease) renew(ctx context.Context) {
	defer close(l.done)
	s := l.store
	for sqldb.Sleep(ctx, s.lease/3) {
		start := time.Now()
		limited, cancel := context.WithDeadline(ctx, l.end())
		n, err := s.db.Exec(limited, "UPDATE bailinghub_connections SET lease_until = {now} + ? WHERE namespace = ? AND connection_key = ? AND lease_holder = ?",
			(takeover * s.lease).Milliseconds(), s.namespace, l.key, l.holder)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && n > 0:
			l.mu.Lock()
			l.until = start.Add(s.lease)
			l.mu.Unlock()
		case err == nil || !time.Now().Before(l.end()): // taken over, or not renewed in time
			close(l.over)
			return
		}
	}
}

func (l *lease) end() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// release releases the lease, unless another process has taken it over. It tries for
// releaseLimit only: a lease that remains can be taken over, by this store at once and
// by another process later.
func (l *lease) release() {
	l.stop()
	<-l.done
	s := l.store
	err := s.db.Try(context.Background(), "giving back the lease of a login", releaseLimit, func(ctx context.Context) error {
		_, err := s.db.Exec(ctx, "UPDATE bailinghub_connections SET lease_holder = 0, lease_until = 0 WHERE namespace = ? AND connection_key = ? AND lease_holder = ?", s.namespace, l.key, l.holder)
		return err
	})
	if err != nil {
		s.left.Store(l.key, l.holder)
	}
}

// errLeaseLost is the cause of the context of an update whose lease was lost.
var errLeaseLost = fail("the lease of the login could not be kept, so the update must not begin anything")

// context gives a context that ends when ctx or the lease ends. Its Err reads the clock
// and does not rely on a timer: after a process was suspended for longer than the
// lease, its timers fire some time later, and the update could send a request before
// that.
func (l *lease) context(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		<-l.done
		select {
		case <-l.over:
			cancel(errLeaseLost)
		default:
			cancel(nil)
		}
	}()
	return leaseContext{ctx, l, cancel}
}

type leaseContext struct {
	context.Context
	lease  *lease
	cancel context.CancelCauseFunc
}

// Err implements [context.Context].
func (c leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(c.lease.end()) {
		c.cancel(errLeaseLost)
	}
	return c.Context.Err()
}
