package receipt

import "slices"

// ResultSource tells which evidence the result was read from.
type ResultSource string

const (
	// ResultSourceJob: the job of the invocation. Read it together with the rest
	// of the evidence, because the job can be older than the journal.
	ResultSourceJob ResultSource = "job"
	// ResultSourceJournal: the journal of the dispatch. The job may still hold
	// an older result; use this one.
	ResultSourceJournal ResultSource = "journal"
	// ResultSourceNone: there is no valid result. That proves nothing about the
	// operation; read the other parts of the receipt.
	ResultSourceNone ResultSource = "none"
)

// DispatchState tells whether the operation was handed to the business system.
type DispatchState string

const (
	// DispatchNotDispatched: the evidence confirms that the operation was
	// rejected, or waits, before dispatch. The result and the approval give the
	// reason.
	DispatchNotDispatched DispatchState = "not_dispatched"
	// DispatchAttempted: an attempt may have reached the business system. That
	// proves neither that it arrived nor that it succeeded; go by the result.
	DispatchAttempted DispatchState = "attempted"
	// DispatchUnknown: the Hub cannot tell. Treat it as if an attempt may have
	// been made.
	DispatchUnknown DispatchState = "unknown"
)

// ApprovalStatus is the state of the operation's approval.
type ApprovalStatus string

const (
	// ApprovalNone: no approval was asked for. Go by the rest of the evidence.
	ApprovalNone ApprovalStatus = "none"
	// ApprovalPending: a person has to decide. Show the approval's id to a
	// person who may, and inspect the operation again later.
	ApprovalPending ApprovalStatus = "pending"
	// ApprovalApproved: a person agreed. That neither dispatches nor completes
	// the operation; never report it as done because of this.
	ApprovalApproved ApprovalStatus = "approved"
	// ApprovalDenied: a person refused. Tell whoever asked for the operation.
	ApprovalDenied ApprovalStatus = "denied"
)

// JournalState tells what the Hub's journal has recorded of the dispatch.
type JournalState string

const (
	// JournalAbsent: there is no journal. That is normal for tools that only
	// read; go by the rest of the evidence.
	JournalAbsent JournalState = "absent"
	// JournalDispatching: a dispatch was begun. Inspect the operation again
	// later.
	JournalDispatching JournalState = "dispatching"
	// JournalResponseRecorded: an answer was recorded, and its evidence is not
	// complete yet. Inspect the operation again later; do not report it as done.
	JournalResponseRecorded JournalState = "response_recorded"
	// JournalCompleted: the evidence of the dispatch is complete. Go by the
	// result.
	JournalCompleted JournalState = "completed"
	// JournalUncertain: the outcome of the dispatch is not known. Have the
	// operation reconciled with the business system.
	JournalUncertain JournalState = "uncertain"
	// JournalEvidenceDegraded: the evidence is damaged. Ask an operator to look
	// at it.
	JournalEvidenceDegraded JournalState = "evidence_degraded"
	// JournalUnknown: the Hub does not know the journal's state. Ask an operator
	// to look at it.
	JournalUnknown JournalState = "unknown"
)

// ResultState tells how the original invocation ended, or what it was waiting
// for, when its result was stored. The result can be older than the rest of the
// receipt: [Receipt.Progress] takes both into account.
type ResultState string

const (
	// StateExecuted: the business system carried the operation out. Report its
	// text where [Receipt.Progress] is [ProgressExecuted] too.
	StateExecuted ResultState = "executed"
	// StateBusinessRejected: the business system refused the operation. Report
	// its text to whoever asked for it.
	StateBusinessRejected ResultState = "business_rejected"
	// StateAwaitingApproval: the operation waits for an approval. Read
	// [Receipt.Approval] too, which can be newer.
	StateAwaitingApproval ResultState = "awaiting_approval"
	// StateDenied: the approval was denied. Tell whoever asked for it.
	StateDenied ResultState = "denied"
	// StateRejectedBeforeDispatch: the Hub rejected the operation before it
	// dispatched it. Report its text.
	StateRejectedBeforeDispatch ResultState = "rejected_before_dispatch"
	// StateReconciliationRequired: the outcome is not known. Inspect the
	// operation again later, then have it reconciled with the business system;
	// see [Receipt.Feedback].
	StateReconciliationRequired ResultState = "reconciliation_required"
	// StateInProgress: there was no outcome yet. Inspect the operation again
	// later.
	StateInProgress ResultState = "in_progress"
)

// RateLimitLevel tells what a rate limit counts.
type RateLimitLevel string

const (
	// RateLimitTool: calls of this tool. Show it with the result.
	RateLimitTool RateLimitLevel = "tool"
	// RateLimitProvider: calls of all tools of the provider. Show it with the
	// result.
	RateLimitProvider RateLimitLevel = "provider"
)

// RateLimitScope tells who shares a rate limit.
type RateLimitScope string

// RateLimitShared: everybody who uses the tool provider shares the limit. Show
// it with the result; the Hub, not the reader, waits for the limit to pass.
const RateLimitShared RateLimitScope = "tool_provider_shared"

var (
	resultSources    = []ResultSource{ResultSourceJob, ResultSourceJournal, ResultSourceNone}
	dispatchStates   = []DispatchState{DispatchNotDispatched, DispatchAttempted, DispatchUnknown}
	approvalStatuses = []ApprovalStatus{ApprovalNone, ApprovalPending, ApprovalApproved, ApprovalDenied}
	journalStates    = []JournalState{JournalAbsent, JournalDispatching, JournalResponseRecorded, JournalCompleted,
		JournalUncertain, JournalEvidenceDegraded, JournalUnknown}
	resultStates = []ResultState{StateExecuted, StateBusinessRejected, StateAwaitingApproval, StateDenied,
		StateRejectedBeforeDispatch, StateReconciliationRequired, StateInProgress}
	rateLimitLevels = []RateLimitLevel{RateLimitTool, RateLimitProvider}
	rateLimitScopes = []RateLimitScope{RateLimitShared}
)

// word gives the value of vocabulary that equals text; "" where none does.
func word[T ~string](vocabulary []T, text []byte) T {
	for _, value := range vocabulary {
		if string(value) == string(text) {
			return value
		}
	}
	return ""
}

func known[T ~string](vocabulary []T, value T) bool { return slices.Contains(vocabulary, value) }
