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

// KeepOption is an option of [Journal.Keep], which refuses the zero KeepOption.
type KeepOption struct{ apply func(*keeping) error }

type keeping struct {
	settled func(context.Context, *sql.Tx, journal.Entry) error
	told    func(journal.Entry)
	failed  func(error)
	batch   int
}

// OnSettled calls f for each operation that is settled, in the transaction that records it.
// What f writes through that transaction is written exactly once. f itself may be called
// again where the transaction was rolled back; see [Claim.Record]. After an error of f the
// operation stays open, and is inspected again when its claim has expired.
func OnSettled(f func(context.Context, *sql.Tx, journal.Entry) error) KeepOption {
	return KeepOption{func(k *keeping) error {
		if f == nil {
			return invalid("OnSettled: the function must not be nil")
		}
		k.settled = f
		return nil
	}}
}

// OnReport calls f after each recorded report, settled or not, in the goroutine of Keep. f may
// be called twice for a report, or not at all where a replica ends.
func OnReport(f func(journal.Entry)) KeepOption {
	return KeepOption{func(k *keeping) error {
		if f == nil {
			return invalid("OnReport: the function must not be nil")
		}
		k.told = f
		return nil
	}}
}

// OnError calls f, in the goroutine of Keep, with each error after which Keep continues:
// the database cannot be reached, or a report was not recorded. Without this option nobody
// gets these errors.
func OnError(f func(error)) KeepOption {
	return KeepOption{func(k *keeping) error {
		if f == nil {
			return invalid("OnError: the function must not be nil")
		}
		k.failed = f
		return nil
	}}
}

// WithBatch sets how many operations Keep claims and inspects at once, from 1 to [MaxClaim];
// without this option 100. It should be able to inspect that many within the time of
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

// longestWait is how long Keep waits at most before it asks for due operations again, because
// another process may have added one.
const longestWait = 5 * time.Second

// Keep inspects due operations in batches and records each report, until ctx ends. Every
// replica of a host runs it in the background. It returns the error of ctx, of an option, or
// of a database that refuses the very first statement, because the table is missing, for
// example. After a later error of the database it pauses and tries again ([OnError]).
// transport is that of the host.
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

// ask inspects claimed operations in one batch. An operation whose report cannot be recorded
// is inspected again when its claim has expired.
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
			return ctx.Err() // an inspection that ctx ended gives no report to record
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
