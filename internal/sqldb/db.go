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
	// RequestLimit is how long a read is tried again after lost connections, a
	// failover or conflicts with others. It also is the limit for a write whose
	// failure loses nothing.
	RequestLimit = 10 * time.Second
	// attemptLimit is how long one attempt may take.
	attemptLimit = 15 * time.Second
	// The pause between two attempts begins with firstPause and doubles up to
	// longestPause.
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// DB is the host's database, as one package uses it.
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

// Check asks the database for its time. That fails where the address or the dialect
// is wrong.
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

// ExecIn does what Exec does, in a transaction.
func (db *DB) ExecIn(ctx context.Context, in Querier, query string, args ...any) (int64, error) {
	result, err := in.ExecContext(ctx, db.SQL(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// IsNoRow reports whether err says that a query found no row.
func IsNoRow(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// ErrAgain makes [DB.Try] call its function again, because another process has
// changed the same row.
var ErrAgain = errors.New("another process changed the same")

// Try calls do until it succeeds, for as long as limit and ctx allow. It does not
// repeat an error that, as the dialect knows, would come again. It returns a
// [*fault.Error] of do at once and as it is.
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
			last = err // when the time is over, an earlier error tells more than err does
		}
		if db.final(err) || !Sleep(limited, Jitter(pause)) {
			break
		}
	}
	if err := db.Ended(ctx, doing); err != nil {
		return db.Fail(doing+": the database did not answer in time: "+last.Error(), err, last)
	}
	switch {
	case db.noTable(last):
		return db.Fail(doing+": a table is missing, so run Migrate, or apply Schema: "+last.Error(), last, ErrRefused)
	case db.final(last):
		return db.Fail(doing+": the database refused: "+last.Error(), last, ErrRefused)
	}
	return db.Fail(doing+": the database failed: "+last.Error(), last)
}

// ErrRefused is in an error of Try that another try would get again.
var ErrRefused = errors.New("the database refused")

// Jitter gives a random time between half of d and all of it. Without it, many
// processes that wait for the same row would ask at the same moments.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Sleep waits for d. It reports false where ctx ended before that.
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
