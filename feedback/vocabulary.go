package feedback

// Category groups failures by what they mean for the host.
type Category string

const (
	// CategoryInvalidRequest: an argument, or what the Hub was asked, is
	// wrong. Mend the calling code; asking again as it stands changes nothing.
	CategoryInvalidRequest Category = "invalid_request"
	// CategoryCancelled: the caller gave up. Ask later if the answer still
	// matters.
	CategoryCancelled Category = "cancelled"
	// CategoryTransportUnavailable: the Hub could not be asked, or could not
	// answer now. Ask the same question again, not too soon.
	CategoryTransportUnavailable Category = "transport_unavailable"
	// CategoryAuthorizationUnavailable: the original authorization is not
	// there, or not any more. Restore it; never ask under another one.
	CategoryAuthorizationUnavailable Category = "authorization_unavailable"
	// CategoryUnsupported: this Hub and this SDK have no contract for
	// inspection in common. Compare their versions.
	CategoryUnsupported Category = "unsupported"
	// CategoryInvocationOutcomeUnknown: the Hub has no verifiable evidence.
	// Keep the original identifiers and have the original looked at; the
	// operation may have been executed.
	CategoryInvocationOutcomeUnknown Category = "invocation_outcome_unknown"
	// CategoryTaskControl: the task that the operation belongs to does not
	// allow this. Take it up with whoever governs the task.
	CategoryTaskControl Category = "task_control"
	// CategoryUnknownFailure: none of the above. Show the code to a person.
	CategoryUnknownFailure Category = "unknown_failure"
)

// Origin tells who decided.
type Origin string

const (
	// OriginCore: an answer of the Hub other than 2xx decided. Look for the
	// reason at the Hub.
	OriginCore Origin = "core"
	// OriginSDK: this SDK decided. Look for the reason on this side, or in
	// what the Hub sent as a success.
	OriginSDK Origin = "sdk"
)

// Operation is what failed.
type Operation string

// OperationInspect is the reading of evidence. Keep it when passing a failure
// on: it tells a reader that a question failed, not the operation asked about.
const OperationInspect Operation = "inspect"

// What is done with a login. None of it touches an operation.
const (
	// OperationLogin: a person was to log in.
	OperationLogin Operation = "login"
	// OperationStatus: the Hub was to say what it knows of a login.
	OperationStatus Operation = "status"
	// OperationLogout: a login was to be ended.
	OperationLogout Operation = "logout"
)

// Dispatch tells how far this inspection itself got. It never speaks of the
// original operation.
type Dispatch string

const (
	// DispatchNotDispatched: neither of the two requests was handed to the
	// network. The Hub does not know that it was to be asked.
	DispatchNotDispatched Dispatch = "not_dispatched"
	// DispatchAttempted: at least one of the two requests was handed to the
	// network. Reading has no effect, so there is nothing to clean up.
	DispatchAttempted Dispatch = "attempted"
)

// NextAction is the one thing that helps.
type NextAction string

const (
	// NextNone: nothing that a program can do by itself. Show the failure to a
	// person.
	NextNone NextAction = "none"
	// NextInspectOriginal: look at the original invocation again, or have an
	// operator look at its evidence. Never create a replacement.
	NextInspectOriginal NextAction = "inspect_original"
	// NextRestoreScope: bring back the connection, workspace and session that
	// the operation was sent under, then ask again.
	NextRestoreScope NextAction = "restore_scope"
	// NextReauthorize: have a person restore the access of the original session,
	// at the original Hub and for the original client. A new login is another
	// session, which does not read the operation.
	NextReauthorize NextAction = "reauthorize"
	// NextCheckCompatibility: compare the versions of the Hub and of this SDK.
	NextCheckCompatibility NextAction = "check_compatibility"
)

// Disposition says what became of the original operation.
type Disposition string

// DispositionAcceptedUnknown: the Hub accepted the operation and its outcome is
// not known. Have it reconciled with the business system; never send it again.
const DispositionAcceptedUnknown Disposition = "accepted_unknown"
