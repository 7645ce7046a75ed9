package journal

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// State is how an operation stands in a journal. There is none that means that
// the operation was not sent: what is in the journal may have been.
type State string

const (
	// StatePrepared: the operation may have been sent, and nothing has settled
	// it yet. It is open: ask about it.
	StatePrepared State = "prepared"
	// StateSettled: a report has settled it. It does not change any more.
	StateSettled State = "settled"
	// StateGivenUp: a person has decided to ask about it no more; the note says
	// why. It does not change any more.
	StateGivenUp State = "given_up"
)

// What the texts of an entry may be at most, in bytes.
const (
	MaxCallID = 1 << 10
	MaxAbout  = 16 << 10
	MaxNote   = 4 << 10
)

// Entry is what a journal keeps of one operation. It holds no secret. Its JSON
// is stable.
type Entry struct {
	// CallID is the framework's own id of the tool call that asked for the
	// operation: 1 to [MaxCallID] bytes of UTF-8 without NUL. By it a call that comes a
	// second time is noticed.
	CallID string `json:"call_id"`
	// Original is what the operation is sent under, as [host.Transport.Capture]
	// gave it.
	Original host.Original `json:"original"`
	// About says in the host's own words what the operation is for: at most
	// [MaxAbout] bytes of UTF-8 without NUL. It may be empty.
	About string `json:"about,omitempty"`
	// State is how the operation stands.
	State State `json:"state"`
	// SendingAt is when the host began to send it ([Journal.Sending]); zero where
	// it did not say so.
	SendingAt time.Time `json:"sending_at,omitzero"`
	// Report is the last evidence, or where there has not been any, why there is
	// none; zero where nobody has asked yet.
	Report host.Report `json:"report,omitzero"`
	// Note says why a person gave the operation up, in at most [MaxNote] bytes
	// of UTF-8 without NUL.
	Note string `json:"note,omitempty"`
	// CreatedAt and UpdatedAt are when the journal took the entry, and changed
	// it last, in UTC and to the millisecond.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// IsOpen reports whether the operation is to be asked about.
func (e Entry) IsOpen() bool { return e.State == StatePrepared }

// Prepare checks an entry that is to be added and completes it: for those who
// write a journal. It may have no state but [StatePrepared], and nothing that
// comes later (a report, a note, the time of the sending); its state and times
// are set, whatever they were. The error matches [feedback.CodeInvalidRequest].
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

// BeginSending marks an open entry as being sent: for those who write a
// journal. A second time is [ErrSending].
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

// CheckWithdraw says why an entry may not be withdrawn: for those who write a
// journal.
func (e Entry) CheckWithdraw() error {
	switch {
	case !e.IsOpen():
		return errClosed(e)
	case !e.SendingAt.IsZero():
		return errSending()
	}
	return nil
}

// Learn records a report in an open entry: for those who write a journal. Only
// a report that was answered and is settled closes it, and one without an
// answer never takes the place of evidence.
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

// Abandon closes an open entry by a person's decision: for those who write a
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

// isText reports whether s is text that every database can keep.
func isText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
