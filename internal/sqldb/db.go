package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

const (
	// RequestLimit is how long a read, or a write that can be refused without a
	// loss, is tried again over lost connections, a failover or a conflict with
	// others.
	RequestLimit = 10 * time.Second
	// attemptLimit is how long one attempt may take.
	attemptLimit = 15 * time.Second
	// firstPause and longestPause bound the pause between two attempts, which
	// doubles.
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// DB is the host's database, for one package.
type DB struct {
	Package
	Dialect
	Pool *sql.DB
}

// Querier is a pool or a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Check asks the database for its time, so that a wrong address or dialect
// shows.
func (db *DB) Check(ctx context.Context, doing string) error {
	return db.Try(ctx, doing, RequestLimit, func(ctx context.Context) error {
		var now int64
		return db.QueryRow(ctx, "SELECT {now}").Scan(&now)
	})
}

// QueryRow asks for one row; see [Dialect.SQL] for the query.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return db.Pool.QueryRowContext(ctx, db.SQL(query), args...)
}

// Exec executes a statement and gives how many rows it changed.
func (db *DB) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return db.ExecIn(ctx, db.Pool, query, args...)
}

// ExecIn is Exec in a transaction.
func (db *DB) ExecIn(ctx context.Context, in Querier, query string, args ...any) (int64, error) {
	result, err := in.ExecContext(ctx, db.SQL(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// IsNoRow reports that a query found nothing.
func IsNoRow(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// ErrAgain makes Try begin again: another process changed the same.
var ErrAgain = errors.New("another process changed the same")

// Try calls do until it succeeds, for as long as limit and ctx allow. What the
// dialect knows would fail again is not tried again; a [*fault.Error] of do is given
// as it is.
func (db *DB) Try(ctx context.Context, doing string, limit time.Duration, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		attempt, cancel := context.WithTimeout(limited, attemptLimit)
		err := do(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if own, ok := errors.AsType[*fault.Error](err); ok {
			return own
		}
		if limited.Err() == nil || last == nil {
			last = err // and not that the time is over, where there was a reason before
		}
		if db.final(err) || !Sleep(limited, Jitter(pause)) {
			break
		}
	}
	if err := db.Ended(ctx, doing); err != nil {
		return db.Fail(doing+": the database did not answer in time: "+last.Error(), err, last)
	}
	return db.Fail(doing+": the database failed: "+last.Error(), last)
}

// Jitter keeps many processes that wait for the same from asking at once.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Sleep reports whether d went by before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
