package feedback

import (
	"encoding/json"
	"errors"
	"time"
)

// Error is the type of every error that an inspection or a login returns.
//
// errors.Is finds its code ([Code] is an error). Where a context ended the call,
// errors.Is also finds context.Canceled or context.DeadlineExceeded, and the
// cause that the caller gave that context. Besides these, errors.Is and
// errors.As find network and TLS errors (an error about a certificate names the
// hosts of that certificate) and the sentinels of this SDK. They never find an
// error that quotes an answer or a credential.
//
// Nothing changes an Error after it was made, so goroutines may share it.
type Error struct {
	// Feedback is the structured account. It is embedded because its members and
	// the status stand beside each other in the JSON.
	Feedback
	// StatusCode is the HTTP status of the answer that decided; it is 200 where
	// this SDK refused the content of a 200, and 0 where no answer decided.
	StatusCode int `json:"status,omitempty"`
	// RetryAfter is how long the Hub asked to wait before the next request; 0
	// where it did not. It is at most [MaxRetryAfter].
	RetryAfter time.Duration `json:"-"`
	// RequestID is the id by which a HermesX server's own log names the request:
	// the one in its answer, or the one that was sent where no answer came. It
	// is "" for a Hub, and where the server's answer names none. The log of a
	// tenant has no request whose client went away before the answer, and none
	// whose key was refused.
	RequestID string `json:"-"`
	// Cursor is where a HermesX list that was interrupted can be continued,
	// behind the rows that it has already given: set it as the Cursor of the
	// next query. It holds no secret. It is "" for every other error, and where
	// the list has to be read from its beginning.
	Cursor string `json:"-"`
	// Causes are the errors that errors.Is and errors.As find besides the code.
	// Each is safe to show, and none quotes an answer or a credential.
	Causes []error `json:"-"`
}

// MaxRetryAfter bounds [Error.RetryAfter]: a day. A Hub that asks for longer
// is taken to mean this long.
const MaxRetryAfter = 24 * time.Hour

// Error gives the operation, the code and the message.
func (e *Error) Error() string {
	return string(e.Feedback.Operation) + ": " + string(e.Feedback.Code) + ": " + e.Feedback.Message
}

// Is reports whether target is the [Code] of this error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Feedback.Code
}

// OfOneInvocation reports whether the failure concerns the asked invocation
// alone: its evidence, its task or its tool. The same Hub may then still answer
// about other invocations.
func (e *Error) OfOneInvocation() bool {
	return e.Feedback.Category == CategoryInvocationOutcomeUnknown || e.Feedback.Category == CategoryTaskControl ||
		e.Feedback.Code == CodeCapabilityChanged
}

// Unwrap gives the Causes.
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

// UnmarshalJSON reads what MarshalJSON wrote. The JSON has no RetryAfter,
// RequestID, Cursor or causes: it is a report of the failure, not an error to
// act on.
func (e *Error) UnmarshalJSON(data []byte) error {
	var read errorMembers
	if json.Unmarshal(data, &read) != nil || read.Schema != Schema {
		return errNotFeedback
	}
	*e = Error{Feedback: Feedback(read.members), StatusCode: read.Status}
	return nil
}

// CodeOf gives the code of the first [*Error] or [Code] that err wraps; ""
// for nil and for an error that is not of this SDK.
func CodeOf(err error) Code {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Feedback.Code
	}
	code, _ := errors.AsType[Code](err)
	return code
}

// CategoryOf gives the category of the first [*Error] that err wraps; "" for
// nil and for an error that is not of this SDK.
func CategoryOf(err error) Category {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Feedback.Category
	}
	return ""
}
