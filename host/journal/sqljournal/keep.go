package sqljournal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/sqldb"
)

// KeepOption says more about [Journal.Keep]. The zero KeepOption is refused.
type KeepOption struct{ apply func(*keeping) error }

type keeping struct {
	settled func(context.Context, *sql.Tx, journal.Entry) error
	told    func(journal.Entry)
	failed  func(error)
	batch   int
}

// OnSettled calls f for each operation that is settled, in the transaction that
// records it: what f writes through that is written exactly once. F itself may run
// again where the transaction was undone; see [Claim.Record]. An error of f leaves the operation open;
// it is asked about again when its claim has run out.
func OnSettled(f func(context.Context, *sql.Tx, journal.Entry) error) KeepOption {
	return KeepOption{func(k *keeping) error {
		if f == nil {
			return invalid("OnSettled: the function must not be nil")
		}
		k.settled = f
		return nil
	}}
}

// OnReport calls f after each report that was recorded, settled or not, in the
// goroutine of Keep. It may come twice, or not at all where a replica ends.
func OnReport(f func(journal.Entry)) KeepOption {
	return KeepOption{func(k *keeping) error {
		if f == nil {
			return invalid("OnReport: the function must not be nil")
		}
		k.told = f
		return nil
	}}
}

// OnError calls f, in the goroutine of Keep, with each error after which Keep goes on:
// the database cannot be reached, or a report was not recorded. Without it they are not
// told.
func OnError(f func(error)) KeepOption {
	return KeepOption{func(k *keeping) error {
		if f == nil {
			return invalid("OnError: the function must not be nil")
		}
		k.failed = f
		return nil
	}}
}

// WithBatch sets how many operations are claimed and asked about at once: 1 to
// [MaxClaim], 100 without this option. They should be asked about within
// [WithClaim].
func WithBatch(n int) KeepOption {
	return KeepOption{func(k *keeping) error {
		if n < 1 || n > MaxClaim {
			return invalid("WithBatch: a batch has 1 to 1000 operations")
		}
		k.batch = n
		return nil
	}}
}

// longestWait is how long Keep waits at most before it looks for what is due:
// another process may have added it.
const longestWait = 5 * time.Second

// Keep asks about what is due, in batches, and records each report, until ctx
// ends: what every replica of a host runs in the background. It returns the
// error of ctx, or of an option, or of a database that refuses the very first
// question: the table may be missing. A database that fails later is tried again, with
// a pause ([OnError]). transport is the host's own.
func (j *Journal) Keep(ctx context.Context, transport *host.Transport, options ...KeepOption) error {
	const doing = "keeping the journal"
	if err := j.db.Ready(ctx, doing); err != nil {
		return err
	}
	if transport == nil {
		return invalid("the transport must not be nil")
	}
	k := keeping{batch: 100}
	for _, option := range options {
		if option.apply == nil {
			return invalid("an option must not be zero")
		}
		if err := option.apply(&k); err != nil {
			return err
		}
	}
	for first := true; ctx.Err() == nil; first = false {
		claims, err := j.Claim(ctx, k.batch)
		switch {
		case first && errors.Is(err, sqldb.ErrRefused):
			return err // a missing table, for example: nothing that passes
		case err == nil && len(claims) > 0:
			if err = k.ask(ctx, transport, claims); err == nil {
				continue
			}
		}
		wait := longestWait
		if err == nil {
			if due, ok, err := j.NextDue(ctx); err == nil && ok {
				wait = min(wait, due)
			}
		} else if k.failed != nil && ctx.Err() == nil {
			k.failed(err)
		}
		sqldb.Sleep(ctx, sqldb.Jitter(max(wait, 20*time.Millisecond)))
	}
	return j.db.Ended(ctx, doing)
}

// ask asks about claimed operations in one batch. An operation whose report
// cannot be recorded is left: its claim runs out.
func (k *keeping) ask(ctx context.Context, transport *host.Transport, claims []Claim) error {
	originals := make([]host.Original, len(claims))
	byInvocation := make(map[string]Claim, len(claims))
	for i, claim := range claims {
		originals[i] = claim.Entry.Original
		byInvocation[claim.Entry.Original.InvocationID] = claim
	}
	var failed error
	for observed := range transport.InspectInvocations(ctx, originals) {
		if ctx.Err() != nil {
			return ctx.Err() // what was not asked to its end is no report
		}
		entry, err := byInvocation[observed.Original.InvocationID].Record(ctx, observed.Report(), k.settled)
		switch {
		case err == nil && k.told != nil:
			k.told(entry)
		case err != nil && !errors.Is(err, journal.ErrClosed) && !errors.Is(err, journal.ErrNotFound):
			failed = err
		}
	}
	return failed
}
