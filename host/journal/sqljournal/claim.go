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

// Claim is an open entry that this replica, and no other, asks about now.
type Claim struct {
	// Entry is what the journal has of the operation.
	Entry journal.Entry

	journal *Journal
	row     *row
}

// Claim gives up to limit open entries, at most [MaxClaim], whose time to be
// asked about has come, those that wait longest first. Until [WithClaim] has
// gone by, nobody else is given them. There may be none: [Journal.NextDue] says
// when there will be.
//
// A damaged row holds up no other: it is put off in the same way and given to
// nobody. Where nothing else has come, the error matches journal.ErrDamaged and
// names the row.
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

// claimIn looks for rows that no other transaction has locked, and puts their
// time off. damaged is the error of a damaged row among them.
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

// transact runs do in a transaction. An error of the commit leaves open whether
// it was done.
func (j *Journal) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := j.db.Pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Record notes a report of the claimed entry, sets when it is next asked about,
// and gives the entry as it is then. Where the report settles it, settled is
// called in the transaction that records that: it is done exactly once, or not
// at all where the transaction fails. It may run again in a second attempt, after
// the first was undone. Nil is allowed.
//
// Where the entry was changed since it was claimed, because the claim had run
// out or a person gave it up, the report still counts for what is there now; a
// closed one is journal.ErrClosed, and settled is not called.
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

// pause is how long after a report the next question comes: what the report
// asks for, doubled while nothing new is learned.
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

// NextDue gives how long it is until the first open entry is to be asked about:
// 0 where one is already. ok is false where none is open.
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
