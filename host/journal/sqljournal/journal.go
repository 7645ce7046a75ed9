package sqljournal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/fault"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/sqldb"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// name begins the text of every error.
var name = sqldb.Package{Name: "sqljournal", BadArgument: feedback.CodeInvalidRequest}

// The sentinels that errors.Is finds in the errors of a [Journal], besides those of package
// journal.
var (
	// ErrSchema: the table is not that of this version of the package.
	ErrSchema = name.Fail("the table is of another version")
)

func fail(text string, causes ...error) error { return name.Fail(text, causes...) }

func invalid(text string) error { return name.Invalid(text) }

// Journal is a journal in a database. It is safe for concurrent use by all
// processes and must not be copied.
type Journal struct {
	db        sqldb.DB
	namespace string
	claim     time.Duration
	longest   time.Duration
}

var _ journal.Journal = (*Journal)(nil)

// Option is an option of [Open], which refuses the zero Option.
type Option struct{ apply func(*Journal) error }

// WithNamespace keeps the operations of this journal apart from those of others
// in the same table. It is 1 to 64 characters a-z, 0-9, ".", "_" and "-", the
// first a letter or a digit; without this option it is "default".
func WithNamespace(namespace string) Option {
	return Option{func(j *Journal) error {
		if !namespaceForm.MatchString(namespace) {
			return invalid("the namespace must be 1 to 64 characters a-z, 0-9, ., _ and -, the first a letter or a digit")
		}
		j.namespace = namespace
		return nil
	}}
}

var namespaceForm = regexp.MustCompile(`\A[a-z0-9][a-z0-9._-]{0,63}\z`)

// WithClaim sets how long a claim lasts, from 1 second to 1 hour; without this option it is 2
// minutes. Where a replica ends, another one inspects its claimed operations after this time.
func WithClaim(d time.Duration) Option {
	return Option{func(j *Journal) error {
		if d < time.Second || d > time.Hour {
			return invalid("a claim must last 1 second to 1 hour")
		}
		j.claim = d
		return nil
	}}
}

// WithLongestPause sets the longest pause between two inspections of one operation, from 1
// second to 24 hours; without this option it is 10 minutes.
func WithLongestPause(d time.Duration) Option {
	return Option{func(j *Journal) error {
		if d < time.Second || d > 24*time.Hour {
			return invalid("the longest pause must be 1 second to 24 hours")
		}
		j.longest = d
		return nil
	}}
}

// Open gives the journal in the table of db, which the host configures and closes. It asks
// the database for its time, and so fails for a wrong address or dialect. The table need not
// exist yet: see [Journal.Migrate]. An error matches feedback.CodeInvalidRequest where an
// argument is wrong.
func Open(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, options ...Option) (*Journal, error) {
	const doing = "opening the journal"
	switch err := name.Ready(ctx, doing); {
	case err != nil:
		return nil, err
	case db == nil:
		return nil, invalid("the database must not be nil")
	case dialect == sqlstore.Dialect{}:
		return nil, invalid("the dialect must be PostgreSQL, MySQL or SQLite")
	}
	j := &Journal{
		db:        sqldb.DB{Package: name, Dialect: dialect, Pool: db},
		namespace: "default",
		claim:     2 * time.Minute,
		longest:   10 * time.Minute,
	}
	for _, option := range options {
		if option.apply == nil {
			return nil, invalid("an option must not be zero")
		}
		if err := option.apply(j); err != nil {
			return nil, err
		}
	}
	if err := j.db.Check(ctx, doing); err != nil {
		return nil, err
	}
	return j, nil
}

// Add implements [journal.Journal].
func (j *Journal) Add(ctx context.Context, entry journal.Entry) error {
	const doing = "adding an operation"
	if err := j.db.Ready(ctx, doing); err != nil {
		return err
	}
	add, err := j.newAddition(entry)
	if err != nil {
		return err
	}
	return j.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error { return add.to(ctx, j.db.Pool) })
}

// AddTx does what Add does, in a transaction of the host. The entry is added when the host
// commits the transaction, together with everything else that the host has written in it. Only
// then may the host send the operation. After journal.ErrExists the transaction can still be
// used. AddTx does not try anything again.
func (j *Journal) AddTx(ctx context.Context, tx *sql.Tx, entry journal.Entry) error {
	const doing = "adding an operation"
	if err := j.db.Ready(ctx, doing); err != nil {
		return err
	}
	if tx == nil {
		return invalid("the transaction must not be nil")
	}
	add, err := j.newAddition(entry)
	if err != nil {
		return err
	}
	if err := add.to(ctx, tx); err != nil {
		if own, ok := errors.AsType[*fault.Error](err); ok {
			return own
		}
		return fail(doing+": the database failed: "+err.Error(), err)
	}
	return nil
}

// addition is an entry to add.
type addition struct {
	*Journal
	entry    journal.Entry
	original []byte
	mark     string // of this addition
}

func (j *Journal) newAddition(entry journal.Entry) (addition, error) {
	entry, err := entry.Prepare(time.Now()) // the statement takes the times from the database
	if err != nil {
		return addition{}, err
	}
	original, err := json.Marshal(entry.Original)
	if err != nil {
		return addition{}, invalid("the original cannot be kept")
	}
	return addition{j, entry, original, newMark()}, nil
}

// newMark makes a mark that no other attempt has.
func newMark() string {
	var mark [16]byte
	_, _ = rand.Read(mark[:]) // never fails
	return hex.EncodeToString(mark[:])
}

func (a addition) to(ctx context.Context, in sqldb.Querier) error {
	_, err := a.db.ExecIn(ctx, in, `INSERT INTO bailinghub_operations
(namespace, invocation_id, call_hash, call_id, original, about, state, report, note, created_at, updated_at, added, changed, due_at)
SELECT ?, ?, ?, ?, ?, ?, ?, '', '', t.clock, t.clock, ?, '', t.clock FROM (SELECT {now} AS clock) AS t WHERE 1 = 1 {or nothing}`,
		a.namespace, a.entry.Original.InvocationID, callHash(a.entry.CallID), a.entry.CallID, string(a.original), a.entry.About, string(a.entry.State), a.mark)
	if err != nil {
		return err
	}
	// How many rows that were says too little: MySQL may count one that was there,
	// and an attempt whose answer was lost may have added it.
	var found int
	err = in.QueryRowContext(ctx, a.db.SQL("SELECT COUNT(*) FROM bailinghub_operations WHERE namespace = ? AND invocation_id = ? AND added = ?"), a.namespace, a.entry.Original.InvocationID, a.mark).Scan(&found)
	if err != nil || found > 0 {
		return err
	}
	return fail("there is an operation of this call, or of this invocation, already", journal.ErrExists)
}

// callHash gives the hash of a call id, by which the table is indexed.
func callHash(callID string) string {
	sum := sha256.Sum256([]byte(callID))
	return hex.EncodeToString(sum[:])
}

// row is one row of the table.
type row struct {
	journal.Entry
	number, version, pause int64
	changed                string    // the mark of the last change
	now                    time.Time // by the database's clock, when it was read
}

const columns = "{now}, number, invocation_id, call_hash, call_id, original, about, state, report, note, sending_at, created_at, updated_at, version, pause, changed"

func (r *row) scan(scan func(...any) error) error {
	var now, sending, created, updated int64
	var invocationID, hash, original, report, state string
	err := scan(&now, &r.number, &invocationID, &hash, &r.CallID, &original, &r.About, &state, &report, &r.Note, &sending, &created, &updated, &r.version, &r.pause, &r.changed)
	if err != nil {
		return err
	}
	r.State, r.now, r.CreatedAt, r.UpdatedAt = journal.State(state), instant(now), instant(created), instant(updated)
	if sending != 0 {
		r.SendingAt = instant(sending)
	}
	err = json.Unmarshal([]byte(original), &r.Original)
	if err == nil && report != "" {
		err = json.Unmarshal([]byte(report), &r.Report)
	}
	known := slices.Contains([]journal.State{journal.StatePrepared, journal.StateSettled, journal.StateGivenUp}, r.State)
	if err != nil || r.Original.Check() != nil || r.Original.InvocationID != invocationID || callHash(r.CallID) != hash || !known {
		return fail("row "+strconv.FormatInt(r.number, 10)+" of bailinghub_operations is damaged: it is neither used nor repaired", journal.ErrDamaged)
	}
	return nil
}

func instant(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

func (j *Journal) read(ctx context.Context, condition string, arg any) (*row, error) {
	var r row
	err := r.scan(j.db.QueryRow(ctx, "SELECT "+columns+" FROM bailinghub_operations WHERE namespace = ? AND "+condition, j.namespace, arg).Scan)
	if sqldb.IsNoRow(err) {
		return nil, fail("there is no such operation", journal.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func (j *Journal) find(ctx context.Context, condition string, arg any) (journal.Entry, error) {
	var r *row
	err := j.db.Try(ctx, "reading an operation", sqldb.RequestLimit, func(ctx context.Context) (err error) {
		r, err = j.read(ctx, condition, arg)
		return err
	})
	if err != nil {
		return journal.Entry{}, err
	}
	return r.Entry, nil
}

// Find implements [journal.Journal].
func (j *Journal) Find(ctx context.Context, callID string) (journal.Entry, error) {
	if err := j.readyCall(ctx, callID); err != nil {
		return journal.Entry{}, err
	}
	return j.find(ctx, byCall, callHash(callID))
}

// FindInvocation implements [journal.Journal].
func (j *Journal) FindInvocation(ctx context.Context, invocationID string) (journal.Entry, error) {
	if err := j.readyInvocation(ctx, invocationID); err != nil {
		return journal.Entry{}, err
	}
	return j.find(ctx, byInvocation, invocationID)
}

const (
	byCall       = "call_hash = ?"
	byInvocation = "invocation_id = ?"
	byNumber     = "number = ?"
)

func (j *Journal) readyCall(ctx context.Context, callID string) error {
	if err := j.db.Ready(ctx, "reading an operation"); err != nil {
		return err
	}
	if callID == "" || len(callID) > journal.MaxCallID {
		return invalid("the call id must be 1 to 1,024 bytes")
	}
	return nil
}

func (j *Journal) readyInvocation(ctx context.Context, invocationID string) error {
	if err := j.db.Ready(ctx, "reading an operation"); err != nil {
		return err
	}
	if !identifier.InvocationID(invocationID) {
		return invalid("the invocation id must be 64 lower-case hexadecimal digits")
	}
	return nil
}

// change reads an operation, calls decide to change its entry, and writes the result with a
// mark. Where another process has changed the operation in between, it begins again. By the
// mark it recognizes an earlier attempt that succeeded and whose answer was lost.
func (j *Journal) change(ctx context.Context, doing, condition string, arg any, decide func(*row) (journal.Entry, error), write func(ctx context.Context, r *row, entry journal.Entry, mark string) (int64, error)) (journal.Entry, error) {
	var done journal.Entry
	mark := newMark()
	err := j.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		r, err := j.read(ctx, condition, arg)
		if err != nil {
			return err
		}
		if r.changed == mark {
			done = r.Entry
			return nil
		}
		if done, err = decide(r); err != nil {
			return fail(err.Error(), err) // as a *fault.Error, which Try does not repeat
		}
		n, err := write(ctx, r, done, mark)
		if err == nil && n == 0 {
			return sqldb.ErrAgain
		}
		return err
	})
	if err != nil {
		return journal.Entry{}, err
	}
	return done, nil
}

// update writes a changed entry.
func (j *Journal) update(ctx context.Context, in sqldb.Querier, r *row, entry journal.Entry, mark string, due, pause int64) (int64, error) {
	var report []byte
	if entry.Report != (host.Report{}) {
		var err error
		if report, err = json.Marshal(entry.Report); err != nil {
			return 0, invalid("the report cannot be kept")
		}
	}
	sending := int64(0)
	if !entry.SendingAt.IsZero() {
		sending = entry.SendingAt.UnixMilli()
	}
	return j.db.ExecIn(ctx, in, "UPDATE bailinghub_operations SET state = ?, report = ?, note = ?, sending_at = ?, updated_at = ?, version = version + 1, changed = ?, due_at = ?, pause = ? WHERE number = ? AND version = ?",
		string(entry.State), string(report), entry.Note, sending, entry.UpdatedAt.UnixMilli(), mark, due, pause, r.number, r.version)
}

// Sending implements [journal.Journal].
func (j *Journal) Sending(ctx context.Context, callID string) error {
	if err := j.readyCall(ctx, callID); err != nil {
		return err
	}
	_, err := j.change(ctx, "noting that an operation is sent", byCall, callHash(callID),
		func(r *row) (journal.Entry, error) { return r.BeginSending(r.now) },
		func(ctx context.Context, r *row, entry journal.Entry, mark string) (int64, error) {
			return j.update(ctx, j.db.Pool, r, entry, mark, r.now.UnixMilli(), 0)
		})
	return err
}

// Withdraw implements [journal.Journal].
func (j *Journal) Withdraw(ctx context.Context, callID string) error {
	if err := j.readyCall(ctx, callID); err != nil {
		return err
	}
	var number int64 // of the row; 0 before it was found
	_, err := j.change(ctx, "withdrawing an operation", byCall, callHash(callID),
		func(r *row) (journal.Entry, error) {
			if number != 0 && r.number != number {
				return journal.Entry{}, journal.ErrNotFound // it was withdrawn, and the same call was added again
			}
			number = r.number
			gone := r.Entry
			gone.State = ""
			return gone, r.CheckWithdraw()
		},
		func(ctx context.Context, r *row, _ journal.Entry, _ string) (int64, error) {
			return j.db.Exec(ctx, "DELETE FROM bailinghub_operations WHERE number = ? AND version = ?", r.number, r.version)
		})
	if number != 0 && errors.Is(err, journal.ErrNotFound) {
		return nil // an earlier attempt, whose answer was lost, has withdrawn it
	}
	return err
}

// Record implements [journal.Journal].
func (j *Journal) Record(ctx context.Context, invocationID string, report host.Report) (journal.Entry, error) {
	if err := j.readyInvocation(ctx, invocationID); err != nil {
		return journal.Entry{}, err
	}
	return j.change(ctx, "recording a report", byInvocation, invocationID,
		func(r *row) (journal.Entry, error) { return r.Learn(report, r.now) },
		func(ctx context.Context, r *row, entry journal.Entry, mark string) (int64, error) {
			pause := j.pause(r, report)
			return j.update(ctx, j.db.Pool, r, entry, mark, r.now.Add(pause).UnixMilli(), pause.Milliseconds())
		})
}

// GiveUp implements [journal.Journal].
func (j *Journal) GiveUp(ctx context.Context, invocationID, note string) error {
	if err := j.readyInvocation(ctx, invocationID); err != nil {
		return err
	}
	_, err := j.change(ctx, "giving an operation up", byInvocation, invocationID,
		func(r *row) (journal.Entry, error) { return r.Abandon(note, r.now) },
		func(ctx context.Context, r *row, entry journal.Entry, mark string) (int64, error) {
			return j.update(ctx, j.db.Pool, r, entry, mark, r.now.UnixMilli(), 0)
		})
	return err
}

// Open implements [journal.Journal] with one query for each entry. Where many replicas inspect
// the open operations, use [Journal.Claim], which gives each operation to one of them.
func (j *Journal) Open(ctx context.Context) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		if err := j.db.Ready(ctx, "reading what is open"); err != nil {
			yield(journal.Entry{}, err)
			return
		}
		for last := int64(0); ; {
			numbers, err := j.openAfter(ctx, last)
			if err != nil {
				yield(journal.Entry{}, err)
				return
			}
			for _, last = range numbers {
				entry, err := j.find(ctx, byNumber, last)
				switch {
				case errors.Is(err, journal.ErrNotFound), err == nil && !entry.IsOpen():
					continue
				case err != nil:
					yield(journal.Entry{}, err)
					return
				}
				if !yield(entry, nil) {
					return
				}
			}
			if len(numbers) < openPage {
				return
			}
		}
	}
}

// openPage is how many row numbers are read at once.
const openPage = 1000

func (j *Journal) openAfter(ctx context.Context, last int64) (numbers []int64, err error) {
	err = j.db.Try(ctx, "reading what is open", sqldb.RequestLimit, func(ctx context.Context) error {
		numbers, err = j.numbers(ctx, j.db.Pool, "SELECT number FROM bailinghub_operations WHERE namespace = ? AND state = 'prepared' AND number > ? ORDER BY number LIMIT 1000", j.namespace, last)
		return err
	})
	return numbers, err
}

func (j *Journal) numbers(ctx context.Context, in sqldb.Querier, query string, args ...any) (numbers []int64, err error) {
	rows, err := in.QueryContext(ctx, j.db.SQL(query), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var number int64
		if err := rows.Scan(&number); err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, rows.Err()
}
