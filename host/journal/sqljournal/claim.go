package sqljournal

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/sqldb"
)

// MaxClaim is how many entries [Journal.Claim] gives at most.
const MaxClaim = 1000

// Claim is an open entry that only this replica inspects now.
type Claim struct {
	// Entry is the entry of the operation.
	Entry journal.Entry

	journal *Journal
	row     *row
}

// Claim gives up to limit open entries, at most [MaxClaim], that are due to be inspected, the
// one that has been due longest first. No other replica gets them until the time of
// [WithClaim] has passed. There may be none: [Journal.NextDue] says when the next one is due.
//
// A damaged row does not keep Claim from giving the others. Claim postpones it in the same way
// but does not give it. Where there is no other entry, the error matches journal.ErrDamaged
// and names the row.
func (j *Journal) Claim(ctx context.Context, limit int) ([]Claim, error) {
	const doing = "claiming operations"
	if err := j.db.Ready(ctx, doing); err != nil {
		return nil, err
	}
	if limit < 1 || limit > MaxClaim {
		return nil, invalid("the limit of a claim must be 1 to 1000")
	}
	var claims []Claim
	var damaged error
	err := j.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		return j.transact(ctx, func(tx *sql.Tx) (err error) {
			claims, damaged, err = j.claimIn(ctx, tx, limit)
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case len(claims) == 0:
		return nil, damaged
	}
	return claims, nil
}

// claimIn finds due rows that no other transaction has locked, and postpones them. damaged is
// the error of a damaged row among them.
func (j *Journal) claimIn(ctx context.Context, tx *sql.Tx, limit int) (claims []Claim, damaged, err error) {
	numbers, err := j.numbers(ctx, tx, "SELECT number FROM bailinghub_operations WHERE namespace = ? AND state = 'prepared' AND due_at <= {now} ORDER BY due_at LIMIT "+strconv.Itoa(limit)+" {skip locked}", j.namespace)
	if err != nil || len(numbers) == 0 {
		return nil, nil, err
	}
	list := make([]string, len(numbers))
	for i, number := range numbers {
		list[i] = strconv.FormatInt(number, 10)
	}
	in := " WHERE number IN (" + strings.Join(list, ", ") + ")"
	if _, err := j.db.ExecIn(ctx, tx, "UPDATE bailinghub_operations SET due_at = {now} + ?, version = version + 1"+in, j.claim.Milliseconds()); err != nil {
		return nil, nil, err
	}
	rows, err := tx.QueryContext(ctx, j.db.SQL("SELECT "+columns+" FROM bailinghub_operations"+in+" ORDER BY number"))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	claims = make([]Claim, 0, len(numbers))
	for rows.Next() {
		var r row
		switch err := r.scan(rows.Scan); {
		case err == nil:
			claims = append(claims, Claim{r.Entry, j, &r})
		case errors.Is(err, journal.ErrDamaged):
			damaged = err
		default:
			return nil, nil, err
		}
	}
	return claims, damaged, rows.Err()
}

// transact runs do in a transaction. After an error of the commit, the changes may have been
// made or not.
func (j *Journal) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := j.db.Pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Record records a report of the claimed entry, sets when the entry is due again, and gives
// the changed entry. Where the report settles the operation, Record calls settled in the
// transaction that records that. What settled does in the transaction happens exactly once, or
// not at all where the transaction fails. settled may be called again in a second attempt,
// after the first one was rolled back. It may be nil.
//
// Where the entry was changed since it was claimed, because the claim has expired or a person
// gave the operation up, Record applies the report to the entry as it is now. For a closed
// entry it returns journal.ErrClosed and does not call settled.
func (c Claim) Record(ctx context.Context, report host.Report, settled func(context.Context, *sql.Tx, journal.Entry) error) (journal.Entry, error) {
	j := c.journal
	if j == nil {
		return journal.Entry{}, invalid("the claim was not made by Claim")
	}
	if err := j.db.Ready(ctx, "recording a report"); err != nil {
		return journal.Entry{}, err
	}
	return j.change(ctx, "recording a report", byNumber, c.row.number,
		func(r *row) (journal.Entry, error) { return r.Learn(report, r.now) },
		func(ctx context.Context, r *row, entry journal.Entry, mark string) (n int64, err error) {
			pause := j.pause(r, report)
			err = j.transact(ctx, func(tx *sql.Tx) error {
				n, err = j.update(ctx, tx, r, entry, mark, r.now.Add(pause).UnixMilli(), pause.Milliseconds())
				if err != nil || n == 0 || entry.IsOpen() || settled == nil {
					return err
				}
				if err := settled(ctx, tx, entry); err != nil {
					return fail("what was to be done with a settled operation failed, so it is not recorded as settled: "+err.Error(), err)
				}
				return nil
			})
			return n, err
		})
}

// pause gives how long after a report the entry is due again: as long as the report asks for,
// doubled with each report that says nothing new.
func (j *Journal) pause(r *row, report host.Report) time.Duration {
	pause := time.Duration(report.AskAgainAfterSeconds) * time.Second
	if pause <= 0 {
		pause = j.longest
	}
	last := r.Report
	if last.Answered == report.Answered && last.Progress == report.Progress && last.Code == report.Code && last.Next == report.Next {
		pause = max(pause, 2*time.Duration(r.pause)*time.Millisecond)
	}
	return max(time.Second, min(pause, max(j.longest, time.Duration(report.AskAgainAfterSeconds)*time.Second)))
}

// NextDue gives the time until the first open entry is due; 0 where one is due already. ok is
// false where no entry is open.
func (j *Journal) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	const doing = "reading what is due"
	if err := j.db.Ready(ctx, doing); err != nil {
		return 0, false, err
	}
	var now int64
	var due sql.NullInt64
	err = j.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		return j.db.QueryRow(ctx, "SELECT {now}, MIN(due_at) FROM bailinghub_operations WHERE namespace = ? AND state = 'prepared'", j.namespace).Scan(&now, &due)
	})
	if err != nil || !due.Valid {
		return 0, false, err
	}
	return max(0, time.Duration(due.Int64-now)*time.Millisecond), true, nil
}
