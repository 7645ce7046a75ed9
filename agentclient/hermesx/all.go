package hermesx

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/internal/inspection"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// ErrIncomplete says that a list was read, again and again, and that fewer rows
// were seen than the server counts. What was seen is real; what is missing may
// matter. A narrower query may do.
var ErrIncomplete = errors.New("the list is incomplete")

const (
	// AllReceiptsPage is how many receipts [Client.AllReceipts] asks for at
	// once by default: as many as fit into one answer however their texts have
	// to be escaped.
	AllReceiptsPage = 250
	// AllReceiptsMaxPage is the most that it asks for at once.
	AllReceiptsMaxPage = 5000
)

// AllReceipts reads all receipts that fit the query, page by page, and gives
// each once: the newest first, save for those that a later page or pass had to
// bring. Receipts that are stored while it reads may be among them.
//
// [ReceiptQuery.Limit] is the size of a page, at most [AllReceiptsMaxPage]. An
// offset is an invalid request. A page that is too long for one answer is asked
// for in halves.
//
// A server sorts by time alone and pages by offset, so rows can slip from one
// page to another and be missed. When fewer were seen than the server counts,
// the list is read a few times more with pages of other sizes, larger ones where
// that is allowed, the last time with one as large as the whole list. Where that does not bring
// the missing rows, the sequence ends with an error that wraps [ErrIncomplete].
//
// Every error is a [*feedback.Error] and ends the sequence, its receipt nil. The
// time limit and the repeats of the client are for each page. The sequence
// starts over each time it is ranged over.
func (c *Client) AllReceipts(ctx context.Context, query ReceiptQuery) iter.Seq2[*Receipt, error] {
	switch {
	case query.Offset != 0:
		return failed[*Receipt](inspection.Invalid("ReceiptQuery.Offset must be zero to read all receipts."))
	case query.Limit > AllReceiptsMaxPage:
		return failed[*Receipt](inspection.Invalid("ReceiptQuery.Limit is greater than 5,000, the largest page to read all receipts with."))
	case query.Limit == 0:
		query.Limit = AllReceiptsPage
	}
	return func(yield func(*Receipt, error) bool) {
		readAll(yield, query.Limit, AllReceiptsMaxPage, (*Receipt).key, func(limit, offset int) (rows[*Receipt], error) {
			query := query
			query.Limit, query.Offset = limit, offset
			page, err := c.Receipts(ctx, query)
			if err != nil {
				return rows[*Receipt]{}, err
			}
			return rows[*Receipt]{page.Receipts, countable(page.Total), page.RequestID}, nil
		})
	}
}

// AllAuditLogs does for audit entries what [Client.AllReceipts] does for
// receipts. [AuditQuery.Limit] is at most [AuditPageLimit].
//
// Because each page that is read adds an entry, the list is held still: after
// the first page, nothing is asked for that is newer than the newest entry on
// it.
func (c *Client) AllAuditLogs(ctx context.Context, query AuditQuery) iter.Seq2[*AuditEntry, error] {
	switch {
	case query.Offset != 0:
		return failed[*AuditEntry](inspection.Invalid("AuditQuery.Offset must be zero to read all entries."))
	case query.Limit == 0:
		query.Limit = AuditPageLimit
	}
	return func(yield func(*AuditEntry, error) bool) {
		query, still := query, false
		readAll(yield, query.Limit, AuditPageLimit, (*AuditEntry).key, func(limit, offset int) (rows[*AuditEntry], error) {
			query.Limit, query.Offset = limit, offset
			page, err := c.AuditLogs(ctx, query)
			if err != nil {
				return rows[*AuditEntry]{}, err
			}
			if !still && len(page.Entries) > 0 {
				query.To, still = afterNewest(page.Entries), true
			}
			return rows[*AuditEntry]{page.Entries, countable(page.Total), page.RequestID}, nil
		})
	}
}

// countable keeps what a server counts within what can be calculated with.
func countable(total int) int { return min(total, math.MaxInt/4) }

func (r *Receipt) key() string   { return r.ID }
func (e *AuditEntry) key() int64 { return e.ID }

// afterNewest gives the time just after the newest of some entries: a
// microsecond later, because servers keep no finer times.
func afterNewest(entries []*AuditEntry) time.Time {
	newest := entries[0].CreatedAt
	for _, entry := range entries {
		if entry.CreatedAt.After(newest) {
			newest = entry.CreatedAt
		}
	}
	return newest.Truncate(time.Microsecond).Add(time.Microsecond)
}

const (
	// passes is how often a list is read at most.
	passes = 4
	// idlePages is how many pages in a row without a new row end a pass.
	idlePages = 3
)

// rows are what a sweep has to know of a page.
type rows[T any] struct {
	rows      []T
	total     int
	requestID string
}

// sweep is one reading of a list, in several passes.
type sweep[T any, K comparable] struct {
	yield func(T, error) bool
	key   func(T) K
	fetch func(limit, offset int) (rows[T], error)

	seen map[K]bool
	// first is what the first page counted, total the most that any did: rows
	// do not go away.
	first, total int
	requestID    string // of the last page
}

// readAll gives each row of a list once, or an error at the end. Fetch gives a
// page; limit is the size of the first ones, most that of the largest.
func readAll[T any, K comparable](yield func(T, error) bool, limit, most int, key func(T) K, fetch func(limit, offset int) (rows[T], error)) {
	s := &sweep[T, K]{yield: yield, key: key, fetch: fetch, seen: map[K]bool{}, first: -1}
	for pass := range passes {
		if !s.pass(s.pageSize(pass, limit, most)) {
			return
		}
	}
	var none T
	yield(none, failures.New(failures.Failure{
		Event: failures.BadBody, Step: failures.ExecutionList, Status: http.StatusOK, Dispatched: true, RequestID: s.requestID,
		Message: "The list is incomplete: fewer rows were seen than the HermesX server counts. It must not be presented as complete; a narrower query may do.",
		Causes:  []error{ErrIncomplete},
	}))
}

// pageSize gives the size of the pages of a pass. Each pass has another one, so
// that what slipped through between two pages of one pass lies within a page of
// the next; the last is as large as the list, and as the list will be if it goes
// on growing.
func (s *sweep[T, K]) pageSize(pass, limit, most int) int {
	switch pass {
	case 0:
		return limit
	case passes - 1:
		return max(1, min(s.total+s.total-s.first, most))
	}
	return max(1, min(limit<<pass+pass, most-pass))
}

// pass reads the list from its beginning to its end, or to where all rows were
// seen that there are. It reports whether there is more to read.
func (s *sweep[T, K]) pass(size int) bool {
	// Where rows come in faster than it reads, there is no end but this.
	end := math.MaxInt
	for offset, idle := 0, 0; idle < idlePages && offset < end; {
		page, err := s.fetch(size, offset)
		if errors.Is(err, errTooLong) && size > 1 {
			size /= 2
			continue
		}
		if err != nil {
			var none T
			s.yield(none, err)
			return false
		}
		if offset == 0 {
			end = page.total + page.total/2 + idlePages*size
		}
		idle++
		for _, row := range page.rows {
			if key := s.key(row); !s.seen[key] {
				s.seen[key] = true
				idle = 0
				if !s.yield(row, nil) {
					return false
				}
			}
		}
		if s.first < 0 {
			s.first = page.total
		}
		s.total = max(s.total, page.total)
		s.requestID = page.requestID
		offset += len(page.rows)
		if len(page.rows) == 0 || offset >= page.total || len(s.seen) >= s.total {
			break
		}
	}
	return len(s.seen) < s.total
}

// failed is a sequence of one error.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
