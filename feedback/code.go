package feedback

// Code is the most exact name of a failure. It is an error, so that
// errors.Is(err, feedback.CodeInvocationNotFound) reads well.
type Code string

// Error is the code as it stands on the wire.
func (c Code) Error() string { return string(c) }

// Codes that this SDK decides.
const (
	// CodeInvalidRequest: an argument is wrong and nothing was sent, or the Hub
	// refused the request as wrong. Correct the calling code.
	CodeInvalidRequest Code = "invalid_request"
	// CodeAgentRequestCancelled: the caller's context was cancelled. Ask later
	// if the answer still matters.
	CodeAgentRequestCancelled Code = "agent_request_cancelled"
	// CodeAgentRequestTimeout: the time limit or the caller's deadline passed.
	// Ask the same question again, with more time if this repeats.
	CodeAgentRequestTimeout Code = "agent_request_timeout"
	// CodeAgentBindingChanged: the connection, its Hub, client, workspace or
	// session is no longer the original one. Restore the original one; this SDK
	// returns no answer that it got under another.
	CodeAgentBindingChanged Code = "agent_binding_changed"
	// CodeAgentAuthorizationUnavailable: there is no usable login for the
	// original session. Have a person restore its access at the original Hub. A
	// new login is another session, which cannot read the operation.
	CodeAgentAuthorizationUnavailable Code = "agent_authorization_unavailable"
	// CodeAgentTransportUnavailable: the connection was lost, or the Hub
	// cannot answer now. Ask the same question again, not too soon.
	CodeAgentTransportUnavailable Code = "agent_transport_unavailable"
	// CodeAgentSchemaUnsupported: this Hub does not offer the contract for
	// inspection that this SDK reads. Compare their versions; no other endpoint
	// may stand in for inspection.
	CodeAgentSchemaUnsupported Code = "agent_schema_unsupported"
	// CodeAgentInvalidResponse: the Hub answered with something that is not a
	// good receipt of this invocation. Do not present it as a result.
	CodeAgentInvalidResponse Code = "agent_invalid_response"
	// CodeUnknownFailure: the host's store failed, or this SDK does not know
	// what an answer means. Show it to a person.
	CodeUnknownFailure Code = "unknown_failure"
)

// Codes of the Hub about the original invocation. None of them proves that the
// operation did not happen.
const (
	// CodeInvocationNotFound: the Hub has no verifiable record of this
	// invocation under this authorization. Keep the id and ask an operator to
	// look for it.
	CodeInvocationNotFound Code = "invocation_not_found"
	// CodeInvocationRecordInvalid: the Hub cannot validate its record. Keep the
	// id and ask an operator to look at the record.
	CodeInvocationRecordInvalid Code = "invocation_record_invalid"
	// CodeInvocationConflict: the record belongs to somebody else's principal
	// or subject. Check which authorization the operation was sent under.
	CodeInvocationConflict Code = "invocation_conflict"
	// CodeAgentRunConflict: the recorded run does not fit the session. Check
	// which session the operation was sent under.
	CodeAgentRunConflict Code = "agent_run_conflict"
	// CodeTaskDispatchUncertain: the task's ledger cannot tell whether the
	// operation was dispatched. Have an operator reconcile it.
	CodeTaskDispatchUncertain Code = "TASK_DISPATCH_UNCERTAIN"
	// CodeReconciliationRequired: the code of a good receipt whose stored
	// result is unresolved; never the code of an error. Have the operation
	// reconciled with the business system.
	CodeReconciliationRequired Code = "reconciliation_required"
)

// Codes of the Hub about authorization and availability.
const (
	// CodeRouteNotAllowed: the workspace is not open to this session or
	// client. Have access granted again.
	CodeRouteNotAllowed Code = "route_not_allowed"
	// CodeAudienceNotAllowed: the subject is not in the workspace's audience.
	// Have access granted again.
	CodeAudienceNotAllowed Code = "audience_not_allowed"
	// CodeAgentDirectDisabled: the workspace does not let agents call it
	// directly. Have access granted again.
	CodeAgentDirectDisabled Code = "agent_direct_disabled"
	// CodeAgentClientDisabled: the client app is disabled. Have it enabled.
	CodeAgentClientDisabled Code = "agent_client_disabled"
	// CodeCapabilityChanged: the tool is no longer authorized. Have it
	// authorized again to read its evidence.
	CodeCapabilityChanged Code = "capability_changed"
	// CodeInvalidRoute: the Hub does not accept the name of the workspace.
	// Check the binding.
	CodeInvalidRoute Code = "invalid_route"
	// CodeRouteUnavailable: the workspace is disabled or gone at the Hub. Ask
	// its administrator.
	CodeRouteUnavailable Code = "route_unavailable"
	// CodeHubPaused: the Hub is paused. Ask the same question again later.
	CodeHubPaused Code = "hub_paused"
	// CodeAgentToolsUnavailable: the Hub's tools are not available now. Ask
	// the same question again later.
	CodeAgentToolsUnavailable Code = "agent_tools_unavailable"
	// CodeAgentRuntimeUnavailable: the Hub's runtime is not available now. Ask
	// the same question again later.
	CodeAgentRuntimeUnavailable Code = "agent_runtime_unavailable"
)

// Codes of the Hub about the task that governs the operation.
const (
	// CodeTaskUnsupported: the Hub does not support task control here. Compare
	// versions.
	CodeTaskUnsupported Code = "TASK_UNSUPPORTED"
	// CodeTaskUnavailable: the task's ledger is not available now. Ask the
	// same question again later.
	CodeTaskUnavailable Code = "TASK_UNAVAILABLE"
	// CodeTaskInvalidInput: the Hub does not accept the task's input. Correct
	// the calling code.
	CodeTaskInvalidInput Code = "TASK_INVALID_INPUT"
	// CodeTaskRequired: the operation needs a task. Ask whoever governs it.
	CodeTaskRequired Code = "TASK_REQUIRED"
	// CodeTaskScopeBlocked: the task's scope does not cover the operation. Ask
	// whoever governs it.
	CodeTaskScopeBlocked Code = "TASK_SCOPE_BLOCKED"
	// CodeTaskMemberMismatch: this authorization belongs to another member of
	// the task. Check which authorization the operation was sent under.
	CodeTaskMemberMismatch Code = "TASK_MEMBER_MISMATCH"
	// CodeTaskBindingConflict: the task is bound to something else. Check
	// which task the operation belongs to.
	CodeTaskBindingConflict Code = "TASK_BINDING_CONFLICT"
	// CodeTaskPaused: the task is paused. Wait for whoever paused it.
	CodeTaskPaused Code = "TASK_PAUSED"
	// CodeTaskCancelled: the task was cancelled. That does not tell what
	// became of its operations.
	CodeTaskCancelled Code = "TASK_CANCELLED"
	// CodeTaskExpired: the task has expired. That does not tell what became of
	// its operations.
	CodeTaskExpired Code = "TASK_EXPIRED"
	// CodeTaskWriteBudgetExhausted: the task's budget of writes is used up.
	// Ask whoever governs it.
	CodeTaskWriteBudgetExhausted Code = "TASK_WRITE_BUDGET_EXHAUSTED"
	// CodeTaskConcurrencyExhausted: the task already runs as many operations at
	// once as it may. Ask whoever governs it.
	CodeTaskConcurrencyExhausted Code = "TASK_CONCURRENCY_EXHAUSTED"
	// CodeTaskToolNotAllowed: the task does not allow the tool. Ask whoever
	// governs it.
	CodeTaskToolNotAllowed Code = "TASK_TOOL_NOT_ALLOWED"
	// CodeTaskRevisionConflict: the task was changed meanwhile. Read the task
	// again.
	CodeTaskRevisionConflict Code = "TASK_REVISION_CONFLICT"
	// CodeTaskRecordInvalid: the Hub cannot validate the task's record. Ask an
	// operator to look at it.
	CodeTaskRecordInvalid Code = "TASK_RECORD_INVALID"
	// CodeTaskNotFound: the Hub has no such task under this authorization. That
	// does not tell what became of its operations.
	CodeTaskNotFound Code = "TASK_NOT_FOUND"
	// CodeTaskRunInactive: the task's run is not active. That does not tell
	// what became of its operations.
	CodeTaskRunInactive Code = "TASK_RUN_INACTIVE"
)

// CodeReceiptNotFound: a HermesX server has no such execution receipt for this
// key. That does not prove that the tool did not run.
const CodeReceiptNotFound Code = "receipt_not_found"

// Codes of a login. They say nothing about any operation.
const (
	// CodeAccessDenied: the person, or the business system for them, refused the
	// login. Begin another one only when they want it.
	CodeAccessDenied Code = "access_denied"
	// CodeLoginExpired: nobody decided in time. Begin another login.
	CodeLoginExpired Code = "login_expired"
	// CodeInvalidClient: the Hub has no such client app for this login: it is
	// unknown, disabled, without a page to log in at, or not open to the
	// workspace. Check both names, and ask the Hub's administrator.
	CodeInvalidClient Code = "invalid_client"
	// CodeInvalidGrant: the Hub refused the code of the login, because it was
	// used before or came too late. Begin another login.
	CodeInvalidGrant Code = "invalid_grant"
	// CodeRateLimited: too many logins were begun in a minute. Wait.
	CodeRateLimited Code = "rate_limited"
	// CodeAgentAuthorizeURLInvalid: the URL of the page where the Hub would have
	// people log in is not a valid one. Ask the Hub's administrator.
	CodeAgentAuthorizeURLInvalid Code = "agent_authorize_url_invalid"
	// CodeAgentAuthUnavailable: the Hub cannot store logins now. Ask again later.
	CodeAgentAuthUnavailable Code = "agent_auth_unavailable"
)
