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
	// saveLimit is how long the save of a rotation is tried: its old refresh
	// token is used up, and a failover of a database takes a minute at most
	// where it is set up for that. After it the caller keeps the rotation and
	// may save it with another update.
	saveLimit = 60 * time.Second
	// takeover is how many leases after the last sign of life of a process
	// another one takes over. A process stops by itself after one, so that two
	// never use one refresh token, also where one was suspended for a while; and
	// one that had sent it before has the rest of the time to save the answer.
	takeover = 4
	// firstPoll and longestPoll bound the pause between two looks at a lease
	// that another process holds. It doubles.
	firstPoll   = 20 * time.Millisecond
	longestPoll = 500 * time.Millisecond
	// releaseLimit is how long giving a lease back is tried.
	releaseLimit = 2 * time.Second
)

// UpdateCredentials implements [registry.Store]. Update runs in the goroutine of
// the caller, under a lease in the row of the connection: no transaction is open
// and no connection of the database is held meanwhile. Its context ends when the
// lease cannot be kept. The save is tried again over lost connections and
// failovers for up to a minute.
//
// A process that ends in the middle of an update leaves its lease; it is taken
// over after four times [WithLease], and until then an update of this connection
// waits, or fails with the context. A lease that could not be given back, because
// the database was away, holds up other processes alone: the next update of this
// store takes it over at once, and saves what it has before anybody else can use
// the old refresh token.
func (s *Store) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	const doing = "updating a login"
	if update == nil {
		return invalid("the update must not be nil")
	}
	// Where there is nothing to update, nobody waits.
	if _, err := s.Credentials(ctx, key); err != nil {
		return err
	}
	// One goroutine of this process waits for the lease, and the others for it.
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
	// A key service that is down shows before the refresh token is used up.
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
	// From here on ctx may have ended: the old refresh token is used up.
	ctx = context.WithoutCancel(ctx)
	sealed, err := s.seal(ctx, key, after)
	if err != nil {
		return err
	}
	return s.save(ctx, key, r.login.V, sealed)
}

// save replaces a login where it still is the one that was read. A statement
// whose answer was lost may have done it: what is stored then tells.
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

// lease is the right to update one login, for as long as it is renewed.
type lease struct {
	store  *Store
	key    string
	holder int64 // the fencing number of this lease
	left   int64 // that of one that this store could not give back; 0 for none

	mu    sync.Mutex
	until time.Time // by this process' monotonic clock

	over chan struct{} // closed when the lease cannot be kept
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

// tryAcquire makes one attempt; l.until is in the future where it went well. It
// gives the fencing number of the lease that it took over, 0 for none.
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

// renew keeps the lease until it is told to stop, or until it cannot.
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

// release gives the lease back, unless another process has taken it over. It is
// tried for a moment only: a lease that stays is taken over in time, by this
// store at once.
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

// context gives a context that ends with ctx, and when the lease does. Its Err
// looks at the clock and not at a timer: a process that was suspended for longer
// than the lease sees that before it does anything else.
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
