package hermesx

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
)

// ReceiptQuery says which receipts are wanted. The zero value means all of the
// tenant. Filters are compared by the server, whole and letter by letter; a
// receipt that does not fit them is refused as an invalid response.
type ReceiptQuery struct {
	// SessionID is the session that caused the calls; "" for any.
	SessionID string
	// ToolName is the tool; "" for any.
	ToolName string
	// Status is how the calls ended; "" for any.
	Status Status
	// Limit is how many receipts a page has at most; 0 for the server's own
	// number, 50 today, or in [Client.AllReceipts] for [AllReceiptsPage].
	Limit int
	// Offset is how many receipts come before the page.
	Offset int
	// Cursor has [Client.AllReceipts] go on where an earlier reading with the
	// same filters ended with an error: its [feedback.Error.Cursor]. "" begins
	// with the newest.
	Cursor string
}

// AuditQuery says which audit entries are wanted. The zero value means all of
// the tenant.
type AuditQuery struct {
	// Action is the method and the path, as in "POST /v1/agent/chat", compared
	// whole and letter by letter; "" for any.
	Action string
	// From is the earliest time, and To the time before which all lies, both
	// to the microsecond; zero for no bound.
	From, To time.Time
	// Limit is how many entries a page has, at most [AuditPageLimit]; 0 for the
	// server's own number, 50 today, or in [Client.AllAuditLogs] for
	// AuditPageLimit.
	Limit int
	// Offset is how many entries come before the page.
	Offset int
	// Cursor has [Client.AllAuditLogs] go on where an earlier reading with the
	// same filters ended with an error: its [feedback.Error.Cursor]. "" begins
	// with the newest.
	Cursor string
}

// AuditPageLimit is how many entries a server gives in one page. Asked for
// more it gives 50, without a word, so a greater limit is an invalid request.
const AuditPageLimit = 100

// maxFilter is how many bytes a filter may have: with all of them the URL stays
// below what servers take.
const maxFilter = 512

// encode gives the query string, with what the server would silently replace
// refused.
func (q ReceiptQuery) encode() (string, *feedback.Error) {
	values := url.Values{}
	for _, filter := range []struct{ field, name, value string }{
		{"SessionID", "session_id", q.SessionID}, {"ToolName", "tool_name", q.ToolName}, {"Status", "status", string(q.Status)},
	} {
		if err := set(values, "ReceiptQuery."+filter.field, filter.name, filter.value); err != nil {
			return "", err
		}
	}
	if err := setPage(values, "ReceiptQuery", q.Limit, q.Offset); err != nil {
		return "", err
	}
	return values.Encode(), nil
}

// fits reports whether a receipt is one that was asked for.
func (q ReceiptQuery) fits(r *Receipt) bool {
	return (q.SessionID == "" || q.SessionID == r.SessionID) &&
		(q.ToolName == "" || q.ToolName == r.ToolName) &&
		(q.Status == "" || q.Status == r.Status)
}

func (q AuditQuery) encode() (string, *feedback.Error) {
	values := url.Values{}
	if err := set(values, "AuditQuery.Action", "action", q.Action); err != nil {
		return "", err
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return "", inspection.Invalid("AuditQuery.From is not before AuditQuery.To.")
	}
	for _, bound := range []struct {
		field, name string
		at          time.Time
	}{{"From", "from", q.From}, {"To", "to", q.To}} {
		if bound.at.IsZero() {
			continue
		}
		if year := bound.at.Year(); year < 0 || year > 9999 || bound.at.UTC().Year() < 0 {
			return "", inspection.Invalid("AuditQuery." + bound.field + " is not in the years 0 to 9999.")
		}
		at := upToMicrosecond(bound.at.UTC())
		if at.After(lastTime) {
			at = lastTime
		}
		values.Set(bound.name, at.Format(time.RFC3339Nano))
	}
	if q.Limit > AuditPageLimit {
		return "", inspection.Invalid("AuditQuery.Limit is greater than 100: the server would give 50.")
	}
	if err := setPage(values, "AuditQuery", q.Limit, q.Offset); err != nil {
		return "", err
	}
	return values.Encode(), nil
}

// lastTime is the last time that can be written, to the microsecond. Rounding up
// and changing to UTC lead beyond it.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// fits reports whether an entry is one that was asked for.
func (q AuditQuery) fits(e *AuditEntry) bool {
	return (q.Action == "" || q.Action == e.Action) &&
		(q.From.IsZero() || !e.CreatedAt.Before(q.From)) &&
		(q.To.IsZero() || e.CreatedAt.Before(upToMicrosecond(q.To)))
}

// upToMicrosecond rounds up: a server keeps microseconds and rounds what is
// finer to the nearest, which would move a bound past an entry.
func upToMicrosecond(t time.Time) time.Time {
	if down := t.Truncate(time.Microsecond); !down.Equal(t) {
		return down.Add(time.Microsecond)
	}
	return t
}

func set(values url.Values, field, name, value string) *feedback.Error {
	switch {
	case value == "":
		return nil
	case len(value) > maxFilter || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return inspection.Invalid(field + " is not valid UTF-8 of at most 512 bytes without a NUL.")
	}
	values.Set(name, value)
	return nil
}

func setPage(values url.Values, query string, limit, offset int) *feedback.Error {
	switch {
	case limit < 0:
		return inspection.Invalid(query + ".Limit is negative: the server would give its own number.")
	case offset < 0:
		return inspection.Invalid(query + ".Offset is negative.")
	}
	if limit > 0 {
		values.Set("limit", strconv.Itoa(limit))
	}
	if offset > 0 {
		values.Set("offset", strconv.Itoa(offset))
	}
	return nil
}
