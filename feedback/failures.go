package feedback

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Failure is one failure as the code that met it saw it. [NewError] turns it
// into an [*Error] by the table in this file.
//
// It is for packages that ask a Hub; a host reads an [*Error].
type Failure struct {
	// Event is what happened; the zero value is an answer of the Hub.
	Event Event
	// Step is the request that was answered.
	Step Step
	// Status is the HTTP status of the deciding answer; 0 without one.
	Status int
	// HubCode is the code in the body of that answer; "" without one.
	HubCode Code
	// RetryAfter is how long the Hub asked to wait; 0 where it did not.
	RetryAfter time.Duration
	// Dispatched says that one of the two requests was handed to the network.
	Dispatched bool
	// InvocationID is the valid id that the caller gave; else "".
	InvocationID string
	// RequestID is what the request was called; "" where it had no name.
	RequestID string
	// Message replaces the sentence of the table where this SDK can say more.
	// It holds no part of an answer, no secret and no argument value.
	Message string
	// Causes are the errors to show through errors.Is and errors.As. They must
	// be safe to show; see [Error].
	Causes []error
}

// Event is what happened, where it was not just an answer of the Hub.
type Event int

const (
	// Answered: the Hub answered and the answer decides.
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
	// ConnectionLost: no whole answer came.
	ConnectionLost
	// UnknownSchema: the body names a schema that this SDK does not read.
	UnknownSchema
	// BadBody: the body is not what was asked for in any other way.
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

// A row is one line of the failure table. A zero Step, statuses or codes fits
// everything; a Step of several fits each. A code of "" stands for the Hub's.
type row struct {
	number     string
	event      Event
	step       Step
	statuses   []span
	hubCodes   []Code
	code       Code
	category   Category
	nextAction NextAction
	retryable  bool
	repeated   bool
	message    string
}

type span struct{ from, to int }

const asTheHubSays Code = ""

// failures is the table of the contract, section 4: the first row that fits
// decides. repeated marks what is asked again inside one inspection.
//
// The rows "x" are for a HermesX server, whose error bodies carry no code.
var failures = []row{
	{number: "1", event: BadArgument,
		code: CodeInvalidRequest, category: CategoryInvalidRequest, nextAction: NextNone,
		message: "An argument is not valid, so the question was not asked."},
	{number: "2", event: Cancelled,
		code: CodeAgentRequestCancelled, category: CategoryCancelled, nextAction: NextNone,
		message: "The inspection was cancelled by its caller."},
	{number: "3", event: TimedOut,
		code: CodeAgentRequestTimeout, category: CategoryTransportUnavailable, nextAction: NextInspectOriginal, retryable: true,
		message: "The inspection ran out of time. Its answer is not known; the original can be inspected again."},
	{number: "4", event: BindingChanged,
		code: CodeAgentBindingChanged, category: CategoryAuthorizationUnavailable, nextAction: NextRestoreScope, retryable: true,
		message: "The connection is no longer bound to the original Hub, client, workspace and session. Restore the original one; no answer is given under another."},
	{number: "5", event: NoAuthorization,
		code: CodeAgentAuthorizationUnavailable, category: CategoryAuthorizationUnavailable, nextAction: NextReauthorize,
		message: "There is no usable login for the original session. A person has to restore its access; a new login is another session, which does not read this operation."},
	{number: "6", event: StoreFailed,
		code: CodeUnknownFailure, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The connection store failed, so the binding could not be checked and any answer is withheld."},
	{number: "x", event: ConnectionLost, step: hermesX,
		code: CodeAgentTransportUnavailable, category: CategoryTransportUnavailable, nextAction: NextInspectOriginal, retryable: true, repeated: true,
		message: "The HermesX server could not be reached, or the connection was lost before the whole answer came. It can be asked again."},
	{number: "x", event: BadBody, step: hermesX,
		code: CodeAgentInvalidResponse, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The HermesX server's answer is not what was asked for, so no answer is given. It must not be presented as evidence."},
	{number: "x", step: hermesX, statuses: []span{{100, 399}},
		code: CodeAgentInvalidResponse, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The HermesX server's answer is neither a result nor a failure (a redirect, for example, which was not followed)."},
	{number: "x", step: hermesX, statuses: []span{{400, 400}},
		code: CodeInvalidRequest, category: CategoryInvalidRequest, nextAction: NextNone,
		message: "The HermesX server does not accept the question."},
	{number: "x", step: hermesX, statuses: []span{{401, 401}},
		code: CodeAgentAuthorizationUnavailable, category: CategoryAuthorizationUnavailable, nextAction: NextReauthorize,
		message: "The HermesX server does not accept the key. It says the same while its database is down, so this does not prove that the key is dead."},
	{number: "x", step: hermesX, statuses: []span{{403, 403}},
		code: CodeAgentAuthorizationUnavailable, category: CategoryAuthorizationUnavailable, nextAction: NextReauthorize,
		message: "The key may not read this. Receipts and audit logs need the role auditor or admin."},
	{number: "x", step: ExecutionReceipt, statuses: []span{{404, 404}},
		code: CodeReceiptNotFound, category: CategoryInvocationOutcomeUnknown, nextAction: NextInspectOriginal,
		message: "The HermesX server has no such receipt for this key, or cannot read its database. That does not prove that no tool ran: have the original looked at."},
	{number: "x", step: hermesX, statuses: []span{{404, 405}},
		code: CodeAgentSchemaUnsupported, category: CategoryUnsupported, nextAction: NextCheckCompatibility,
		message: "This server does not offer the HermesX interface that this SDK reads. Nothing else was tried instead."},
	{number: "x", step: hermesX, statuses: []span{{408, 408}, {425, 425}, {429, 429}, {500, 599}},
		code: CodeAgentTransportUnavailable, category: CategoryTransportUnavailable, nextAction: NextInspectOriginal, retryable: true, repeated: true,
		message: "The HermesX server cannot answer now. It can be asked again."},
	{number: "x", step: hermesX,
		code: CodeUnknownFailure, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The HermesX server did not answer the question, for a reason that this SDK does not know."},
	{number: "7", event: ConnectionLost,
		code: CodeAgentTransportUnavailable, category: CategoryTransportUnavailable, nextAction: NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub could not be reached, or the connection was lost before the whole answer came. The original can be inspected again."},
	{number: "8", step: Negotiation, statuses: []span{{200, 299}, {404, 405}, {501, 501}},
		code: CodeAgentSchemaUnsupported, category: CategoryUnsupported, nextAction: NextCheckCompatibility,
		message: "This Hub does not offer the inspection contract that this SDK reads. Nothing else was tried instead."},
	{number: "8", event: BadBody, step: Negotiation,
		code: CodeAgentSchemaUnsupported, category: CategoryUnsupported, nextAction: NextCheckCompatibility,
		message: "This Hub does not offer the inspection contract that this SDK reads. Nothing else was tried instead."},
	{number: "9", statuses: []span{{100, 199}, {300, 399}},
		code: CodeAgentInvalidResponse, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The Hub's answer is neither a receipt nor a failure (a redirect, for example, which was not followed). That says nothing about the operation."},
	{number: "9", step: Receipt, statuses: []span{{201, 299}},
		code: CodeAgentInvalidResponse, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The Hub answered the request for a receipt with a status other than 200, so no answer is given."},
	{number: "10", event: UnknownSchema, step: Receipt,
		code: CodeAgentSchemaUnsupported, category: CategoryUnsupported, nextAction: NextCheckCompatibility,
		message: "The receipt, or the result in it, is of a schema that this SDK does not read."},
	{number: "11", event: BadBody, step: Receipt,
		code: CodeAgentInvalidResponse, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The Hub's answer is not a valid receipt of this invocation, so no answer is given. It must not be presented as a result."},
	{number: "11a", statuses: []span{{401, 401}},
		code: CodeAgentAuthorizationUnavailable, category: CategoryAuthorizationUnavailable, nextAction: NextReauthorize,
		message: "The Hub does not accept the login of the original session. A person has to restore its access; a new login is another session, which does not read this operation."},
	{number: "12", step: Receipt, hubCodes: []Code{CodeInvocationNotFound, CodeInvocationRecordInvalid, CodeInvocationConflict, CodeAgentRunConflict, CodeTaskDispatchUncertain},
		code: asTheHubSays, category: CategoryInvocationOutcomeUnknown, nextAction: NextInspectOriginal,
		message: "The Hub has no verifiable evidence of this invocation under this authorization. That does not prove that the operation did not happen: keep its identifiers and have the original looked at."},
	{number: "13", hubCodes: []Code{CodeTaskUnsupported},
		code: asTheHubSays, category: CategoryUnsupported, nextAction: NextCheckCompatibility,
		message: "This Hub does not support the task control that the operation needs."},
	{number: "14", hubCodes: []Code{CodeTaskUnavailable},
		code: asTheHubSays, category: CategoryTransportUnavailable, nextAction: NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub's task ledger cannot be asked now. The original can be inspected again."},
	{number: "15", hubCodes: []Code{CodeTaskInvalidInput},
		code: asTheHubSays, category: CategoryInvalidRequest, nextAction: NextNone,
		message: "The Hub does not accept the task of the question. That says nothing about the operation."},
	{number: "16", hubCodes: []Code{
		CodeTaskRequired, CodeTaskScopeBlocked, CodeTaskMemberMismatch, CodeTaskBindingConflict, CodeTaskPaused, CodeTaskCancelled, CodeTaskExpired,
		CodeTaskWriteBudgetExhausted, CodeTaskConcurrencyExhausted, CodeTaskToolNotAllowed, CodeTaskRevisionConflict, CodeTaskRecordInvalid, CodeTaskNotFound, CodeTaskRunInactive},
		code: asTheHubSays, category: CategoryTaskControl, nextAction: NextNone,
		message: "The task that governs the operation does not allow this question. That does not tell what became of the operation."},
	{number: "17", statuses: []span{{403, 403}}, hubCodes: []Code{CodeRouteNotAllowed, CodeAudienceNotAllowed, CodeAgentDirectDisabled, CodeAgentClientDisabled},
		code: asTheHubSays, category: CategoryAuthorizationUnavailable, nextAction: NextReauthorize,
		message: "The original authorization does not allow this any more. It has to be granted again; no other one is used instead."},
	{number: "17", statuses: []span{{403, 403}},
		code: CodeAgentAuthorizationUnavailable, category: CategoryAuthorizationUnavailable, nextAction: NextReauthorize,
		message: "The original authorization does not allow this any more. It has to be granted again; no other one is used instead."},
	{number: "18", hubCodes: []Code{CodeCapabilityChanged},
		code: asTheHubSays, category: CategoryAuthorizationUnavailable, nextAction: NextReauthorize,
		message: "The operation's tool is not authorized any more, so its evidence cannot be read."},
	{number: "19", hubCodes: []Code{CodeInvalidRequest, CodeInvalidRoute},
		code: asTheHubSays, category: CategoryInvalidRequest, nextAction: NextNone,
		message: "The Hub does not accept the question. That says nothing about the operation."},
	{number: "20", hubCodes: []Code{CodeRouteUnavailable},
		code: asTheHubSays, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The original workspace is disabled or gone at the Hub. That says nothing about the operation."},
	{number: "21", hubCodes: []Code{CodeHubPaused, CodeAgentToolsUnavailable, CodeAgentRuntimeUnavailable},
		code: asTheHubSays, category: CategoryTransportUnavailable, nextAction: NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub cannot answer now. The original can be inspected again."},
	{number: "22", statuses: []span{{408, 408}, {425, 425}, {429, 429}, {500, 599}},
		code: CodeAgentTransportUnavailable, category: CategoryTransportUnavailable, nextAction: NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub cannot answer now. The original can be inspected again."},
	{number: "23",
		code: CodeUnknownFailure, category: CategoryUnknownFailure, nextAction: NextNone,
		message: "The Hub did not answer the question, for a reason that this SDK does not know. That says nothing about the operation."},
}

func (r *row) fits(f Failure) bool {
	return r.event == f.Event &&
		(r.step == AnyStep || r.step&f.Step != 0) &&
		(r.statuses == nil || slices.ContainsFunc(r.statuses, func(s span) bool { return s.from <= f.Status && f.Status <= s.to })) &&
		(r.hubCodes == nil || slices.Contains(r.hubCodes, f.HubCode))
}

// row gives the first row that fits. The last row fits every answer; a body
// that no row knows of is an answer too.
func (f Failure) row() *row {
	for i := range failures {
		if failures[i].fits(f) {
			return &failures[i]
		}
	}
	f.Event, f.HubCode = Answered, ""
	return f.row()
}

// Ended is the failure of a call whose context, or else whose own time limit,
// has ended.
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

// EndedDuring is [Ended] where it is known what was waited for, in words of our
// own such as "the connection store"; "" where it is not.
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

// Repeated reports whether the request is asked again inside one inspection
// after this failure, within its limit of repeats.
func (f Failure) Repeated() bool { return f.row().repeated }

// CodeDecides reports whether the code in the body of this answer makes a
// difference to what it means.
func (f Failure) CodeDecides() bool {
	for i := range failures {
		anyCode := failures[i]
		anyCode.hubCodes = nil
		if anyCode.fits(f) {
			return failures[i].hubCodes != nil
		}
	}
	return false
}

// NewError gives the failure as the table has it.
func NewError(f Failure) *Error {
	decided := f.row()
	feedback := Feedback{
		Schema:       Schema,
		Category:     decided.category,
		Code:         decided.code,
		Origin:       OriginSDK,
		Operation:    OperationInspect,
		Dispatch:     DispatchNotDispatched,
		Retryable:    decided.retryable,
		NextAction:   decided.nextAction,
		InvocationID: f.InvocationID,
		Message:      decided.message,
	}
	if decided.code == asTheHubSays {
		feedback.Code = f.HubCode
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 299) {
		feedback.Origin = OriginCore
	}
	if f.Dispatched {
		feedback.Dispatch = DispatchAttempted
	}
	if f.Message != "" {
		feedback.Message = f.Message
	}
	return &Error{
		Feedback:   feedback,
		StatusCode: f.Status,
		RetryAfter: min(max(f.RetryAfter, 0), MaxRetryAfter),
		RequestID:  f.RequestID,
		causes:     f.Causes,
	}
}
