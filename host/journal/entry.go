package journal

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// State is the state of an operation in a journal. No state means that the operation was not
// sent: every operation in the journal may have been sent.
type State string

const (
	// StatePrepared: the operation may have been sent, and nothing has settled it yet.
	// It is open: inspect it.
	StatePrepared State = "prepared"
	// StateSettled: a report has settled the operation. The entry does not change any
	// more.
	StateSettled State = "settled"
	// StateGivenUp: a person has decided that the operation is not inspected any more;
	// the note says why. The entry does not change any more.
	StateGivenUp State = "given_up"
)

// The greatest lengths of the texts of an entry, in bytes.
const (
	MaxCallID = 1 << 10
	MaxAbout  = 16 << 10
	MaxNote   = 4 << 10
)

// Entry is what a journal keeps of one operation. It holds no secret. Its JSON
// is stable.
type Entry struct {
	// CallID is the framework's own id of the tool call that asked for the
	// operation: 1 to [MaxCallID] bytes of UTF-8 without NUL. A repeated call is noticed
	// by it.
	CallID string `json:"call_id"`
	// Original is the invocation id and the authorization of the operation, as
	// [host.Transport.Capture] gave it.
	Original host.Original `json:"original"`
	// About says in the host's own words what the operation is for: at most
	// [MaxAbout] bytes of UTF-8 without NUL. It may be empty.
	About string `json:"about,omitempty"`
	// State is the state of the operation.
	State State `json:"state"`
	// SendingAt is when the host began to send the operation; zero where the host has
	// not called [Journal.Sending].
	SendingAt time.Time `json:"sending_at,omitzero"`
	// Report is the last report with evidence. Where no report has had any, it is the
	// last one, which says why; zero where the operation was never inspected.
	Report host.Report `json:"report,omitzero"`
	// Note says why a person gave the operation up, in at most [MaxNote] bytes
	// of UTF-8 without NUL.
	Note string `json:"note,omitempty"`
	// CreatedAt is when the entry was added, and UpdatedAt when it was changed last,
	// both in UTC and to the millisecond.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// IsOpen reports whether the operation still has to be inspected.
func (e Entry) IsOpen() bool { return e.State == StatePrepared }

// Prepare checks an entry before it is added, and sets its state and times. It is for
// implementations of a journal. The entry must not have a state other than [StatePrepared],
// nor anything that comes later: a report, a note or the time of the sending. The error
// matches [feedback.CodeInvalidRequest].
func (e Entry) Prepare(now time.Time) (Entry, error) {
	switch {
	case checkCallID(e.CallID) != nil:
		return Entry{}, checkCallID(e.CallID)
	case e.State != "" && e.State != StatePrepared, e.Report != host.Report{}, e.Note != "", !e.SendingAt.IsZero():
		return Entry{}, invalid("an entry is added before it is sent: it has no report, note, time of sending or state other than prepared")
	case !isText(e.About, MaxAbout):
		return Entry{}, invalid("about must be at most 16 KiB of valid UTF-8 without NUL")
	}
	if err := e.Original.Check(); err != nil {
		return Entry{}, fail("the original is not valid: "+err.Error(), err)
	}
	e.State = StatePrepared
	e.CreatedAt = instant(now)
	e.UpdatedAt = e.CreatedAt
	return e, nil
}

// BeginSending marks an open entry as being sent. It is for implementations of a journal.
// The second time it returns [ErrSending].
func (e Entry) BeginSending(now time.Time) (Entry, error) {
	switch {
	case !e.IsOpen():
		return Entry{}, errClosed(e)
	case !e.SendingAt.IsZero():
		return Entry{}, errSending()
	}
	e.SendingAt = instant(now)
	e.UpdatedAt = e.SendingAt
	return e, nil
}

// CheckWithdraw returns an error where an entry may not be withdrawn. It is for
// implementations of a journal.
func (e Entry) CheckWithdraw() error {
	switch {
	case !e.IsOpen():
		return errClosed(e)
	case !e.SendingAt.IsZero():
		return errSending()
	}
	return nil
}

// Learn records a report in an open entry. It is for implementations of a journal. Only a
// report that is answered and settled closes the entry. A report without an answer never
// replaces one with evidence.
func (e Entry) Learn(report host.Report, now time.Time) (Entry, error) {
	switch {
	case report.InvocationID != e.Original.InvocationID:
		return Entry{}, invalid("the report is of another invocation")
	case !e.IsOpen():
		return Entry{}, errClosed(e)
	case !report.Answered && e.Report.Answered:
		return e, nil
	}
	e.Report = report
	if report.Answered && report.Settled {
		e.State = StateSettled
	}
	e.UpdatedAt = instant(now)
	return e, nil
}

// Abandon closes an open entry because a person decided so. It is for implementations of a
// journal.
func (e Entry) Abandon(note string, now time.Time) (Entry, error) {
	switch {
	case note == "" || !isText(note, MaxNote):
		return Entry{}, invalid("the note must say who gave the operation up and why, in at most 4 KiB of valid UTF-8 without NUL")
	case !e.IsOpen():
		return Entry{}, errClosed(e)
	}
	e.State, e.Note = StateGivenUp, note
	e.UpdatedAt = instant(now)
	return e, nil
}

func checkCallID(id string) error {
	if id == "" || !isText(id, MaxCallID) {
		return invalid("the call id must be 1 to 1,024 bytes of valid UTF-8 without NUL")
	}
	return nil
}

func checkInvocationID(id string) error {
	if !identifier.InvocationID(id) {
		return invalid("the invocation id must be 64 lower-case hexadecimal digits")
	}
	return nil
}

// isText reports whether s is a text of at most so many bytes that every database can keep.
func isText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
