package failures

import (
	"github.com/bailinghub/bailinghub-go/feedback"
)

// A row is one line of the failure table. A row without a step, statuses or
// hubCodes fits every value of them; a step that combines several fits each of
// those. repeated says that the same inspection sends the request again.
type row struct {
	number     string
	event      Event
	step       Step
	statuses   []span
	hubCodes   []feedback.Code
	code       feedback.Code
	category   feedback.Category
	nextAction feedback.NextAction
	retryable  bool
	repeated   bool
	message    string
}

type span struct{ from, to int }

// asTheHubSays is the code of a row whose errors carry the code of the Hub's
// answer.
const asTheHubSays feedback.Code = ""

// table is the failure table of the contract, section 4: the first row that fits
// decides.
//
// The rows with the number "x" are for a HermesX server. Its error bodies carry
// no code. Package hermesx recognizes some of these bodies as a whole and gives
// each a code, which stands in hubCodes here.
var table = []row{
	{number: "1", event: BadArgument,
		code: feedback.CodeInvalidRequest, category: feedback.CategoryInvalidRequest, nextAction: feedback.NextNone,
		message: "An argument is not valid, so the question was not asked."},
	{number: "2", event: Cancelled,
		code: feedback.CodeAgentRequestCancelled, category: feedback.CategoryCancelled, nextAction: feedback.NextNone,
		message: "The inspection was cancelled by its caller."},
	{number: "3", event: TimedOut,
		code: feedback.CodeAgentRequestTimeout, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true,
		message: "The inspection ran out of time. Its answer is not known; the original can be inspected again."},
	{number: "4", event: BindingChanged,
		code: feedback.CodeAgentBindingChanged, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextRestoreScope, retryable: true,
		message: "The connection is no longer bound to the original Hub, client, workspace and session. Restore the original one; no answer is given under another."},
	{number: "5", event: NoAuthorization,
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "There is no usable login for the original session. A person has to restore its access; a new login is another session, which does not read this operation."},
	{number: "6", event: StoreFailed,
		code: feedback.CodeUnknownFailure, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The connection store failed, so the binding could not be checked and any answer is withheld."},
	{number: "x", event: ConnectionLost, step: hermesX,
		code: feedback.CodeAgentTransportUnavailable, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true, repeated: true,
		message: "The HermesX server could not be reached, or the connection was lost before the whole answer came. It can be asked again."},
	{number: "x", event: BadBody, step: hermesX,
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The HermesX server's answer is not what was asked for, so no answer is given. It must not be presented as evidence."},
	{number: "x", step: hermesX, statuses: []span{{100, 399}},
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The HermesX server's answer is neither a result nor a failure (a redirect, for example, which was not followed)."},
	{number: "x", step: hermesX, statuses: []span{{400, 400}},
		code: feedback.CodeInvalidRequest, category: feedback.CategoryInvalidRequest, nextAction: feedback.NextNone,
		message: "The HermesX server does not accept the question."},
	{number: "x", step: hermesX, statuses: []span{{401, 401}},
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The HermesX server does not accept the key. It says the same while its database is down, so this does not prove that the key is dead."},
	{number: "x", step: hermesX, statuses: []span{{403, 403}}, hubCodes: []feedback.Code{feedback.CodeAgentSchemaUnsupported},
		code: feedback.CodeAgentSchemaUnsupported, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "There is no HermesX interface below this base URL, or the key may not read there. Check the address first: /v1 and /admin are paths of the server itself and no part of its base URL. Nothing else was tried instead."},
	{number: "x", step: hermesX, statuses: []span{{403, 403}},
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The key may not read this. Receipts and audit logs need the role auditor or admin."},
	{number: "x", step: ExecutionReceipt, statuses: []span{{404, 404}}, hubCodes: []feedback.Code{feedback.CodeReceiptNotFound},
		code: feedback.CodeReceiptNotFound, category: feedback.CategoryInvocationOutcomeUnknown, nextAction: feedback.NextInspectOriginal,
		message: "The HermesX server has no such receipt for this key, or cannot read its database. That does not prove that no tool ran: have the original looked at."},
	{number: "x", step: hermesX, statuses: []span{{404, 405}},
		code: feedback.CodeAgentSchemaUnsupported, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "There is no HermesX interface that this SDK reads at this address. Check the base URL: it is the address of the server, with the prefix of a proxy where there is one, and without /v1. Nothing else was tried instead."},
	{number: "x", step: hermesX, statuses: []span{{429, 429}},
		code: feedback.CodeAgentTransportUnavailable, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true, repeated: true,
		message: "The rate limit of the HermesX server is used up: it takes only so many requests a minute for all keys of a tenant together. It can be asked again after a pause."},
	{number: "x", step: hermesX, statuses: []span{{408, 408}, {425, 425}, {500, 599}},
		code: feedback.CodeAgentTransportUnavailable, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true, repeated: true,
		message: "The HermesX server cannot answer now. It can be asked again."},
	{number: "x", step: hermesX,
		code: feedback.CodeUnknownFailure, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The HermesX server did not answer the question, for a reason that this SDK does not know."},
	{number: "7", event: ConnectionLost,
		code: feedback.CodeAgentTransportUnavailable, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub could not be reached, or the connection was lost before the whole answer came. The original can be inspected again."},
	{number: "8", step: Negotiation, statuses: []span{{200, 299}, {404, 405}, {501, 501}},
		code: feedback.CodeAgentSchemaUnsupported, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "This Hub does not offer the inspection contract that this SDK reads. Nothing else was tried instead."},
	{number: "8", event: BadBody, step: Negotiation,
		code: feedback.CodeAgentSchemaUnsupported, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "This Hub does not offer the inspection contract that this SDK reads. Nothing else was tried instead."},
	{number: "9", statuses: []span{{100, 199}, {300, 399}},
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub's answer is neither a receipt nor a failure (a redirect, for example, which was not followed). That says nothing about the operation."},
	{number: "9", step: Receipt, statuses: []span{{201, 299}},
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub answered the request for a receipt with a status other than 200, so no answer is given."},
	{number: "10", event: UnknownSchema, step: Receipt,
		code: feedback.CodeAgentSchemaUnsupported, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "The receipt, or the result in it, is of a schema that this SDK does not read."},
	{number: "11", event: BadBody, step: Receipt,
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub's answer is not a valid receipt of this invocation, so no answer is given. It must not be presented as a result."},
	{number: "11a", statuses: []span{{401, 401}},
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The Hub does not accept the login of the original session. A person has to restore its access; a new login is another session, which does not read this operation."},
	{number: "12", step: Receipt, hubCodes: []feedback.Code{feedback.CodeInvocationNotFound, feedback.CodeInvocationRecordInvalid, feedback.CodeInvocationConflict, feedback.CodeAgentRunConflict, feedback.CodeTaskDispatchUncertain},
		code: asTheHubSays, category: feedback.CategoryInvocationOutcomeUnknown, nextAction: feedback.NextInspectOriginal,
		message: "The Hub has no verifiable evidence of this invocation under this authorization. That does not prove that the operation did not happen: keep its identifiers and have the original looked at."},
	{number: "13", hubCodes: []feedback.Code{feedback.CodeTaskUnsupported},
		code: asTheHubSays, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "This Hub does not support the task control that the operation needs."},
	{number: "14", hubCodes: []feedback.Code{feedback.CodeTaskUnavailable},
		code: asTheHubSays, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub's task ledger cannot be asked now. The original can be inspected again."},
	{number: "15", hubCodes: []feedback.Code{feedback.CodeTaskInvalidInput},
		code: asTheHubSays, category: feedback.CategoryInvalidRequest, nextAction: feedback.NextNone,
		message: "The Hub does not accept the task of the question. That says nothing about the operation."},
	{number: "16", hubCodes: []feedback.Code{
		feedback.CodeTaskRequired, feedback.CodeTaskScopeBlocked, feedback.CodeTaskMemberMismatch, feedback.CodeTaskBindingConflict, feedback.CodeTaskPaused, feedback.CodeTaskCancelled, feedback.CodeTaskExpired,
		feedback.CodeTaskWriteBudgetExhausted, feedback.CodeTaskConcurrencyExhausted, feedback.CodeTaskToolNotAllowed, feedback.CodeTaskRevisionConflict, feedback.CodeTaskRecordInvalid, feedback.CodeTaskNotFound, feedback.CodeTaskRunInactive},
		code: asTheHubSays, category: feedback.CategoryTaskControl, nextAction: feedback.NextNone,
		message: "The task that governs the operation does not allow this question. That does not tell what became of the operation."},
	{number: "17", statuses: []span{{403, 403}}, hubCodes: []feedback.Code{feedback.CodeRouteNotAllowed, feedback.CodeAudienceNotAllowed, feedback.CodeAgentDirectDisabled, feedback.CodeAgentClientDisabled},
		code: asTheHubSays, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The original authorization does not allow this any more. It has to be granted again; no other one is used instead."},
	{number: "17", statuses: []span{{403, 403}},
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The original authorization does not allow this any more. It has to be granted again; no other one is used instead."},
	{number: "18", hubCodes: []feedback.Code{feedback.CodeCapabilityChanged},
		code: asTheHubSays, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The operation's tool is not authorized any more, so its evidence cannot be read."},
	{number: "19", hubCodes: []feedback.Code{feedback.CodeInvalidRequest, feedback.CodeInvalidRoute},
		code: asTheHubSays, category: feedback.CategoryInvalidRequest, nextAction: feedback.NextNone,
		message: "The Hub does not accept the question. That says nothing about the operation."},
	{number: "20", hubCodes: []feedback.Code{feedback.CodeRouteUnavailable},
		code: asTheHubSays, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The original workspace is disabled or gone at the Hub. That says nothing about the operation."},
	{number: "21", hubCodes: []feedback.Code{feedback.CodeHubPaused, feedback.CodeAgentToolsUnavailable, feedback.CodeAgentRuntimeUnavailable},
		code: asTheHubSays, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub cannot answer now. The original can be inspected again."},
	{number: "22", statuses: []span{{408, 408}, {425, 425}, {429, 429}, {500, 599}},
		code: feedback.CodeAgentTransportUnavailable, category: feedback.CategoryTransportUnavailable, nextAction: feedback.NextInspectOriginal, retryable: true, repeated: true,
		message: "The Hub cannot answer now. The original can be inspected again."},
	{number: "23",
		code: feedback.CodeUnknownFailure, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub did not answer the question, for a reason that this SDK does not know. That says nothing about the operation."},
}
