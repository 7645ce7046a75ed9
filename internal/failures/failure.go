package failures

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
)

// Failure describes one failure as the code that met it saw it. [New] turns it
// into a [*feedback.Error] by the failure table.
type Failure struct {
	// Event is what happened; the zero value is an answer of the Hub.
	Event Event
	// Step is the request that was answered.
	Step Step
	// Status is the HTTP status of the deciding answer; 0 without one.
	Status int
	// HubCode is the code in the body of that answer; "" without one.
	HubCode feedback.Code
	// RetryAfter is how long the Hub asked to wait; 0 where it did not.
	RetryAfter time.Duration
	// Dispatched says that one of the two requests was handed to the network.
	Dispatched bool
	// InvocationID is the valid id that the caller gave; else "".
	InvocationID string
	// RequestID is the id of the request; "" where it had none.
	RequestID string
	// Message replaces the sentence of the table where this SDK can say more.
	// It holds no part of an answer, no secret and no argument value.
	Message string
	// Causes are the errors to show through errors.Is and errors.As. They must
	// be safe to show; see [feedback.Error].
	Causes []error
}

// Event is what happened.
type Event int

const (
	// Answered: the Hub answered, and status and code of the answer decide.
	Answered Event = iota
	// BadArgument: an argument is wrong and nothing was sent.
	BadArgument
	// Cancelled: the caller's context was cancelled.
	Cancelled
	// TimedOut: the time limit or the deadline of the caller's context passed.
	TimedOut
	// BindingChanged: the connection or its session is not the original one.
	BindingChanged
	// NoAuthorization: there is no login, or its refresh was refused.
	NoAuthorization
	// StoreFailed: the host's own store failed.
	StoreFailed
	// ConnectionLost: the answer did not come, or not all of it.
	ConnectionLost
	// UnknownSchema: the body names a schema that this SDK does not read.
	UnknownSchema
	// BadBody: the body is not what was asked for, for any other reason.
	BadBody
)

// Step is the request that an answer belongs to.
type Step int

const (
	// AnyStep: no request in particular.
	AnyStep Step = 0
	// Negotiation: the request for the inspection capabilities.
	Negotiation Step = 1 << (iota - 1)
	// Receipt: the request for a receipt.
	Receipt
	// ExecutionReceipt: the request for one execution receipt, to a HermesX
	// server.
	ExecutionReceipt
	// ExecutionList: the request for a page of execution receipts or of audit
	// entries, to a HermesX server.
	ExecutionList

	hermesX = ExecutionReceipt | ExecutionList
)

// fits reports whether the row is about such a failure.
func (r *row) fits(f Failure) bool {
	return r.event == f.Event &&
		(r.step == AnyStep || r.step&f.Step != 0) &&
		(r.statuses == nil || slices.ContainsFunc(r.statuses, func(s span) bool { return s.from <= f.Status && f.Status <= s.to })) &&
		(r.hubCodes == nil || slices.Contains(r.hubCodes, f.HubCode))
}

// row gives the first row of the table that fits. Where no row is about the
// event, the status of the answer decides, and the last row fits every status.
func (f Failure) row() *row {
	for i := range table {
		if table[i].fits(f) {
			return &table[i]
		}
	}
	f.Event, f.HubCode = Answered, ""
	return f.row()
}

// Ended gives the failure of a call that was ended by its context or, while that
// goes on, by the time limit of the client.
func Ended(ctx context.Context) Failure {
	switch err := ctx.Err(); {
	case err == nil:
		return Failure{Event: TimedOut, Causes: []error{context.DeadlineExceeded}}
	case errors.Is(err, context.DeadlineExceeded):
		return Failure{Event: TimedOut, Causes: []error{err, context.Cause(ctx)}}
	default:
		return Failure{Event: Cancelled, Causes: []error{err, context.Cause(ctx)}}
	}
}

// EndedDuring does what [Ended] does and says in the message what the call was
// waiting for, such as "the connection store". waitedFor is "" where that is not
// known, and never has a word of a server.
func EndedDuring(ctx context.Context, waitedFor string) Failure {
	failure := Ended(ctx)
	switch {
	case waitedFor == "":
	case failure.Event == Cancelled:
		failure.Message = "The inspection was cancelled by its caller while it waited for " + waitedFor + "."
	default:
		failure.Message = "The inspection ran out of time while it waited for " + waitedFor + ". Its answer is not known; the original can be inspected again."
	}
	return failure
}

// Repeated reports whether the same inspection sends the request again after
// this failure, within its limit of retries.
func (f Failure) Repeated() bool { return f.row().repeated }

// CodeDecides reports whether the code in the body of this answer makes a
// difference to what it means.
func (f Failure) CodeDecides() bool {
	for i := range table {
		anyCode := table[i]
		anyCode.hubCodes = nil
		if anyCode.fits(f) {
			return table[i].hubCodes != nil
		}
	}
	return false
}

// New makes the error of a failure by the failure table.
func New(f Failure) *feedback.Error {
	decided := f.row()
	account := feedback.Feedback{
		Schema:       feedback.Schema,
		Category:     decided.category,
		Code:         decided.code,
		Origin:       feedback.OriginSDK,
		Operation:    feedback.OperationInspect,
		Dispatch:     feedback.DispatchNotDispatched,
		Retryable:    decided.retryable,
		NextAction:   decided.nextAction,
		InvocationID: f.InvocationID,
		Message:      decided.message,
	}
	if decided.code == asTheHubSays {
		account.Code = f.HubCode
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 299) {
		account.Origin = feedback.OriginCore
	}
	if f.Dispatched {
		account.Dispatch = feedback.DispatchAttempted
	}
	if f.Message != "" {
		account.Message = f.Message
	}
	return &feedback.Error{
		Feedback:   account,
		StatusCode: f.Status,
		RetryAfter: min(max(f.RetryAfter, 0), feedback.MaxRetryAfter),
		RequestID:  f.RequestID,
		Causes:     f.Causes,
	}
}

// Also gives a copy of err that has sentence in front of its message and also
// matches cause. Sentence and cause must be safe to show.
func Also(err *feedback.Error, sentence string, cause error) *feedback.Error {
	also := *err
	also.Message = sentence + " " + err.Message
	also.Causes = append([]error{cause}, err.Causes...)
	return &also
}

// Build makes an error from a complete feedback object, for packages whose
// failures are not in the failure table of an inspection. errors.Is and errors.As
// find the causes, which must be safe to show: see [feedback.Error].
func Build(account feedback.Feedback, causes ...error) *feedback.Error {
	return &feedback.Error{Feedback: account, Causes: causes}
}
