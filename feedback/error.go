package feedback

import (
	"encoding/json"
	"errors"
	"time"
)

// Error is every error of an inspection.
//
// errors.Is finds its code ([Code] is an error), context.Canceled or
// context.DeadlineExceeded where the context ended it, and the cause that the
// caller gave that context. What errors.As and errors.Is see besides are
// network and TLS errors (those of a certificate name its hosts) and this SDK's
// own sentinels, never an error that quotes an answer or a credential.
//
// An Error is not changed after it was made and may be shared.
type Error struct {
	// Feedback is the structured account. It is embedded because its members and
	// the status stand beside each other in the JSON.
	Feedback
	// StatusCode is the HTTP status of the answer that decided, of a refused
	// 200 too; 0 where no answer did.
	StatusCode int `json:"status,omitempty"`
	// RetryAfter is how long the Hub asked to wait before the next request; 0
	// where it did not. It is at most [MaxRetryAfter].
	RetryAfter time.Duration `json:"-"`
	// RequestID is what the server calls the request that it answered, or what
	// was sent as that where no answer came; "" for a Hub, and where the server
	// did not say. It finds the request in the server's own log.
	RequestID string `json:"-"`
	// Cursor is where the reading of a HermesX list can be gone on from, behind
	// what it has given: the Cursor of a query takes it. It holds no secret. ""
	// for every other error, and where the reading has to start over.
	Cursor string `json:"-"`
	// Causes are what errors.Is and errors.As see besides the code. Each is safe
	// to show, and none quotes an answer or a credential.
	Causes []error `json:"-"`
}

// MaxRetryAfter bounds [Error.RetryAfter]: a day. A Hub that asks for longer
// is taken to mean this long.
const MaxRetryAfter = 24 * time.Hour

// Error is the message with its code in front.
func (e *Error) Error() string {
	return string(e.Feedback.Operation) + ": " + string(e.Feedback.Code) + ": " + e.Feedback.Message
}

// Is reports whether target is the [Code] of this error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Feedback.Code
}

// OfOneInvocation reports that the failure speaks of the asked invocation alone,
// of its evidence, its task or its tool: the same Hub may well answer about
// others.
func (e *Error) OfOneInvocation() bool {
	return e.Feedback.Category == CategoryInvocationOutcomeUnknown || e.Feedback.Category == CategoryTaskControl ||
		e.Feedback.Code == CodeCapabilityChanged
}

// Unwrap gives the causes that are safe to show; see [Error].
func (e *Error) Unwrap() []error { return e.Causes }

// errorMembers are the members of the JSON of an error, without the methods of
// Feedback.
type errorMembers struct {
	members
	Status int `json:"status,omitempty"`
}

// MarshalJSON gives the feedback object, and the status where there was one.
func (e *Error) MarshalJSON() ([]byte, error) {
	written := errorMembers{members(e.Feedback), e.StatusCode}
	written.Schema = Schema
	return json.Marshal(written)
}

// UnmarshalJSON reads what MarshalJSON wrote. RetryAfter, RequestID,
// Cursor and the causes are not in it: what was kept is a report, not an error to act on.
func (e *Error) UnmarshalJSON(data []byte) error {
	var read errorMembers
	if json.Unmarshal(data, &read) != nil || read.Schema != Schema {
		return errNotFeedback
	}
	*e = Error{Feedback: Feedback(read.members), StatusCode: read.Status}
	return nil
}

// CodeOf gives the code of the first [*Error] or [Code] that err wraps; ""
// for nil and for an error of somebody else.
func CodeOf(err error) Code {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Feedback.Code
	}
	code, _ := errors.AsType[Code](err)
	return code
}

// CategoryOf gives the category of the first [*Error] that err wraps; "" for
// nil and for an error of somebody else.
func CategoryOf(err error) Category {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Feedback.Category
	}
	return ""
}
