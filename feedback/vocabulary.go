package feedback

// Category groups failures by what they mean for the host.
type Category string

const (
	// CategoryInvalidRequest: an argument is wrong, or the Hub refused the
	// request as wrong. Correct the calling code; the same request will fail
	// again.
	CategoryInvalidRequest Category = "invalid_request"
	// CategoryCancelled: the caller gave up. Ask later if the answer still
	// matters.
	CategoryCancelled Category = "cancelled"
	// CategoryTransportUnavailable: the Hub could not be asked, or could not
	// answer now. Ask the same question again, not too soon.
	CategoryTransportUnavailable Category = "transport_unavailable"
	// CategoryAuthorizationUnavailable: the original authorization does not
	// exist, or no longer. Restore it; never ask under another one.
	CategoryAuthorizationUnavailable Category = "authorization_unavailable"
	// CategoryUnsupported: this Hub and this SDK have no contract for
	// inspection in common. Compare their versions.
	CategoryUnsupported Category = "unsupported"
	// CategoryInvocationOutcomeUnknown: the Hub has no verifiable evidence.
	// Keep the original identifiers and have the original looked at; the
	// operation may have been executed.
	CategoryInvocationOutcomeUnknown Category = "invocation_outcome_unknown"
	// CategoryTaskControl: the task that the operation belongs to does not
	// allow the request. Ask whoever governs the task.
	CategoryTaskControl Category = "task_control"
	// CategoryUnknownFailure: none of the above. Show the code to a person.
	CategoryUnknownFailure Category = "unknown_failure"
)

// Origin tells who decided.
type Origin string

const (
	// OriginCore: an answer of the Hub other than 2xx decided. The reason is at
	// the Hub.
	OriginCore Origin = "core"
	// OriginSDK: this SDK decided. The reason is on this side, or in a 2xx
	// answer of the Hub that this SDK refused.
	OriginSDK Origin = "sdk"
)

// Operation is what failed.
type Operation string

// OperationInspect is the reading of evidence. Keep it when passing a failure
// on: without it a reader may think that the original operation failed, and not
// only the question about it.
const OperationInspect Operation = "inspect"

// What this SDK does with a login. None of it touches an operation.
const (
	// OperationLogin is logging a person in.
	OperationLogin Operation = "login"
	// OperationStatus is asking the Hub what it knows of a login.
	OperationStatus Operation = "status"
	// OperationLogout is ending a login.
	OperationLogout Operation = "logout"
)

// Dispatch tells how far this inspection itself got. It never describes the
// original operation.
type Dispatch string

const (
	// DispatchNotDispatched: neither of the two requests was handed to the
	// network, so the Hub has seen nothing of this inspection.
	DispatchNotDispatched Dispatch = "not_dispatched"
	// DispatchAttempted: at least one of the two requests was handed to the
	// network. Reading has no effect, so there is nothing to clean up.
	DispatchAttempted Dispatch = "attempted"
)

// NextAction is what a host does next after a failure.
type NextAction string

const (
	// NextNone: a program can do nothing by itself. Show the failure to a
	// person.
	NextNone NextAction = "none"
	// NextInspectOriginal: inspect the original invocation again where the
	// failure is Retryable; else ask an operator to look at its evidence. Never
	// create a replacement.
	NextInspectOriginal NextAction = "inspect_original"
	// NextRestoreScope: bring back the connection, workspace and session that
	// the operation was sent under, then ask again.
	NextRestoreScope NextAction = "restore_scope"
	// NextReauthorize: have a person restore the access of the original session,
	// at the original Hub and for the original client. A new login is another
	// session, which cannot read the operation.
	NextReauthorize NextAction = "reauthorize"
	// NextCheckCompatibility: compare the versions of the Hub and of this SDK.
	NextCheckCompatibility NextAction = "check_compatibility"
)

// Disposition says what became of the original operation.
type Disposition string

// DispositionAcceptedUnknown: the Hub accepted the operation and its outcome is
// not known. Have it reconciled with the business system; never send it again.
const DispositionAcceptedUnknown Disposition = "accepted_unknown"
