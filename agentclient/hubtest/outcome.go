package hubtest

import "time"

// An Outcome is the outcome of a dispatch: what the business system does with the operation, and
// how much of that the Hub learns. The zero value is an answer with status 200 and no body.
type Outcome struct {
	kind   outcomeKind
	status int
	text   string
	after  time.Duration
	limit  *RateLimit
}

type outcomeKind int

const (
	answered outcomeKind = iota
	hanging
	answerLost
	responseRecorded
	evidenceDegraded
	rejected
	rateLimited
)

// Executed is an operation that the business system did: status 200 and this text.
func Executed(text string) Outcome { return Answered(200, text) }

// Answered is what the business system said: executed for a status from 200 to
// 299, business_rejected for every other one.
func Answered(status int, text string) Outcome {
	return Outcome{kind: answered, status: status, text: text}
}

// Hanging is an operation that reached the business system and has no answer yet: it stays in flight
// until [Hub.Finish].
func Hanging() Outcome { return Outcome{kind: hanging} }

// AnswerLost is an operation that reached the business system, whose answer to the Hub was lost. The
// Hub does not know whether it was executed, and says so in every receipt. To lose the Hub's answer
// to the host, use a [Fault] with [DropAnswer].
func AnswerLost() Outcome { return Outcome{kind: answerLost} }

// ResponseRecorded is an operation whose answer the Hub has recorded, but whose evidence is not yet
// complete. [Hub.Finish] completes it.
func ResponseRecorded(status int, text string) Outcome {
	return Outcome{kind: responseRecorded, status: status, text: text}
}

// EvidenceDegraded is an operation whose answer came, but whose evidence the Hub could not keep.
func EvidenceDegraded() Outcome { return Outcome{kind: evidenceDegraded} }

// Rejected is an operation that the Hub rejected before it reached the business system.
func Rejected() Outcome { return Outcome{kind: rejected} }

// RateLimited is an operation that the Hub rejected before it reached the business system; the same
// invocation may be resumed later. A nil limit is the Hub's limit for the client, which it does not
// describe.
func RateLimited(after time.Duration, limit *RateLimit) Outcome {
	return Outcome{kind: rateLimited, after: after, limit: limit}
}

// A RateLimit describes the limit because of which an operation was rejected.
type RateLimit struct {
	// Level is "tool" or "provider"; the Hub drops a limit with another one.
	Level string
	// Count is how many operations are allowed; at least 1.
	Count int
	// WindowSec is in how many seconds they are; at least 1.
	WindowSec int
	// Source is where the limit is set, for instance "provider_default".
	Source string
}

// Plan decides the outcomes of the next dispatches, in order, whatever their
// tool. Once they are used up, [Tool.Run] decides again.
func (h *Hub) Plan(outcomes ...Outcome) {
	h.change(func() { h.plan = append(h.plan, outcomes...) })
}
