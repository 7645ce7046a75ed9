package hermesx

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/inspection"
)

// ErrIncomplete says that a list was read and is not complete. The message of the error says what
// is missing. The rows that were given are good, but do not treat them as all rows.
var ErrIncomplete = errors.New("the list is incomplete")

const (
	// AllReceiptsPage is how many receipts [Client.AllReceipts] asks for first, unless the
	// query has a Limit. So many fit into one answer even where every character of their
	// texts has to be escaped.
	AllReceiptsPage = 250
	// AllReceiptsMaxPage is how many receipts it asks for at most at once.
	AllReceiptsMaxPage = 5000
)

// AllReceipts reads all receipts that fit the query, page by page, the newest
// first, and gives each once: all that were stored when the reading began, save
// for those that were removed before it got to them. It goes by the rule that
// reading states, and where it cannot prove by that rule that the list is whole,
// or where a receipt could not be had, the sequence ends with an error that
// wraps [ErrIncomplete].
//
// [ReceiptQuery.Limit] is the size of a page, at most [AllReceiptsMaxPage].
// Without one, pages grow as long as they stay small in bytes; with one, they
// grow only where many receipts have the same time. An offset is an invalid
// request. A page that is too long for one answer is asked for in parts.
//
// The reading lasts as long as the server needs. It slows down before the rate
// limit, waits out what the server asks for, and after a good answer it also
// waits for a server or its database to come back: see [WithLongestWait]. The
// time limit and the repeats of the client are for each page.
//
// Every error is a [*feedback.Error] and ends the sequence, its receipt nil. Its
// Cursor goes on behind what was given, in another process too. The sequence
// starts over each time it is ranged over.
func (c *Client) AllReceipts(ctx context.Context, query ReceiptQuery, opts ...ListOption) iter.Seq2[*Receipt, error] {
	filters := query
	filters.Limit, filters.Offset, filters.Cursor = 0, 0, ""
	l := list[*Receipt]{limit: query.Limit, most: AllReceiptsMaxPage}
	if query.Limit == 0 {
		l.limit, l.grows = AllReceiptsPage, true
	}
	l.fetch = func(ctx context.Context, asked place, once bool) (page[*Receipt], error) {
		query := filters
		query.Limit, query.Offset = asked.limit, asked.offset
		got, reply, err := c.receipts(ctx, query, once)
		if err != nil {
			return page[*Receipt]{}, err
		}
		return page[*Receipt]{got.Receipts, got.Total, reply}, nil
	}
	_, invalid := query.encode()
	switch {
	case invalid != nil:
		return failed[*Receipt](invalid)
	case query.Offset != 0:
		return failed[*Receipt](inspection.Invalid("ReceiptQuery.Offset must be zero to read all receipts."))
	case query.Limit > AllReceiptsMaxPage:
		return failed[*Receipt](inspection.Invalid("ReceiptQuery.Limit is greater than 5,000, the largest page to read all receipts with."))
	}
	encoded, _ := filters.encode()
	start, ok := parseCursor(query.Cursor, receiptsList, encoded)
	if !ok {
		return failed[*Receipt](inspection.Invalid("ReceiptQuery.Cursor is not one of a reading of receipts with these filters."))
	}
	return readAll(ctx, c, l, start, opts)
}

// AllAuditLogs does for audit entries what [Client.AllReceipts] does for
// receipts. [AuditQuery.Limit] is at most [AuditPageLimit].
//
// Reading is logged as well. The entries of the reading itself are newer than
// all that was there when it began, and are not among what is given. At the end
// they are looked for: a log that lacks them is not one that can be called
// whole (the server's database role may not be allowed to see it, and then it
// looks empty), and the sequence ends with [ErrIncomplete].
func (c *Client) AllAuditLogs(ctx context.Context, query AuditQuery, opts ...ListOption) iter.Seq2[*AuditEntry, error] {
	filters := query
	filters.Limit, filters.Offset, filters.Cursor = 0, 0, ""
	l := list[*AuditEntry]{limit: query.Limit, most: AuditPageLimit, bounded: true, logged: true}
	if query.Limit == 0 {
		l.limit = AuditPageLimit
	}
	l.fetch = func(ctx context.Context, asked place, once bool) (page[*AuditEntry], error) {
		query := filters
		query.Limit, query.Offset = asked.limit, asked.offset
		if !asked.before.IsZero() && (query.To.IsZero() || asked.before.Before(query.To)) {
			query.To = asked.before
		}
		got, reply, err := c.auditLogs(ctx, query, once)
		if err != nil {
			return page[*AuditEntry]{}, err
		}
		return page[*AuditEntry]{got.Entries, got.Total, reply}, nil
	}
	_, invalid := query.encode()
	switch {
	case invalid != nil:
		return failed[*AuditEntry](invalid)
	case query.Offset != 0:
		return failed[*AuditEntry](inspection.Invalid("AuditQuery.Offset must be zero to read all entries."))
	}
	encoded, _ := filters.encode()
	start, ok := parseCursor(query.Cursor, auditList, encoded)
	if !ok {
		return failed[*AuditEntry](inspection.Invalid("AuditQuery.Cursor is not one of a reading of audit entries with these filters."))
	}
	return readAll(ctx, c, l, start, opts)
}

func (r *Receipt) key() string      { return r.ID }
func (r *Receipt) at() time.Time    { return r.CreatedAt }
func (e *AuditEntry) key() string   { return strconv.FormatInt(e.ID, 10) }
func (e *AuditEntry) at() time.Time { return e.CreatedAt }

// A ListOption is an option of [Client.AllReceipts], [Client.AllAuditLogs] and
// [Client.Correlate], which read whole lists.
type ListOption func(*listSettings) error

type listSettings struct {
	longestWait time.Duration
	progress    func(Progress)
}

// DefaultLongestWait is the longest that a list waits at a time by default:
// twice the window of a server's rate limit.
const DefaultLongestWait = 2 * time.Minute

// WithLongestWait sets how long a list waits at a time, for the server's rate
// limit or for the server to come back; the default is [DefaultLongestWait]. A
// wait that would be longer, or would last to the deadline of the context, is not
// begun: the sequence ends with the error of the answer, and the error has the
// cursor to go on from. With 0 nothing is waited for; a negative time is an
// invalid request.
func WithLongestWait(longest time.Duration) ListOption {
	return func(s *listSettings) error {
		if longest < 0 {
			return inspection.Invalid("WithLongestWait: the time is negative.")
		}
		s.longestWait = longest
		return nil
	}
}

// WithProgress makes the reading call report after each page and before each wait, in the
// goroutine that loops over the list. The reading waits until report returns. Nil calls nothing.
func WithProgress(report func(Progress)) ListOption {
	return func(s *listSettings) error {
		s.progress = report
		return nil
	}
}

// Progress says how far the reading of a list has come.
type Progress struct {
	// Rows is how many rows the reading has given, without those that were given
	// before its cursor.
	Rows int
	// Counted is how many rows the server counted in the last answer, of those
	// that the reading still asked about; 0 before the first answer.
	Counted int
	// Wait is how long the reading waits before its next request, now; 0 where a
	// page was read.
	Wait time.Duration
	// RateLimited says that Wait is for the server's rate limit. Where it is
	// false and Wait is not 0, the server could not answer.
	RateLimited bool
	// Cursor goes on behind the rows that were given, as [feedback.Error.Cursor]
	// does; "" where none was given.
	Cursor string
}

func apply(opts []ListOption) (*listSettings, error) {
	settings := &listSettings{longestWait: DefaultLongestWait}
	for _, option := range opts {
		if option == nil {
			return nil, inspection.Invalid("A ListOption is nil.")
		}
		if err := option(settings); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// failed is a sequence of one error.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
