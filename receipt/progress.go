package receipt

import "slices"

// Progress is how far an operation got, by the weakest part of the evidence.
type Progress string

const (
	// ProgressUnresolved: the evidence does not settle what became of the
	// operation; it may have been executed. Keep its identifiers, inspect it
	// again later, and have a person reconcile it with the business system.
	ProgressUnresolved Progress = "unresolved"
	// ProgressInFlight: an attempt may have reached the business system and no
	// outcome is confirmed: it may still be running, or be lost. Inspect it
	// again later, and never send the operation again.
	ProgressInFlight Progress = "in_flight"
	// ProgressExecuted: the business system carried the operation out. Report
	// the result.
	ProgressExecuted Progress = "executed"
	// ProgressBusinessRejected: the business system refused the operation.
	// Report the result.
	ProgressBusinessRejected Progress = "business_rejected"
	// ProgressDenied: approval was denied. Tell whoever asked for the
	// operation.
	ProgressDenied Progress = "denied"
	// ProgressAwaitingApproval: a person has to decide. Say so, and inspect it
	// again later.
	ProgressAwaitingApproval Progress = "awaiting_approval"
	// ProgressApprovedNotDispatched: the operation was approved, and no attempt
	// to carry it out was made. Say both. Continuing it would be another
	// operation, which this SDK does not offer.
	ProgressApprovedNotDispatched Progress = "approved_not_dispatched"
	// ProgressRejectedBeforeDispatch: the Hub rejected the operation before it
	// dispatched it. Report the result, and inspect it again later where it is
	// not settled.
	ProgressRejectedBeforeDispatch Progress = "rejected_before_dispatch"
	// ProgressInProgress: the Hub has taken the operation on and has no outcome
	// yet. Inspect it again later.
	ProgressInProgress Progress = "in_progress"
	// ProgressNoEvidence: there is neither a result nor an approval. That does
	// not prove that nothing happened. Keep the identifiers and ask an operator
	// to look at the original.
	ProgressNoEvidence Progress = "no_evidence"
)

// Progress says how far the operation got; [ProgressUnresolved] for a zero or
// nil receipt.
func (r *Receipt) Progress() Progress { return r.row().progress }

// Settled reports whether no later observation is expected to change the
// progress. It is false for a zero or nil receipt, and wherever the result has
// AutoRetryAllowed, because the Hub would let such an operation be continued.
func (r *Receipt) Settled() bool { return r.row().settled && !retryAllowed(r) }

func (r *Receipt) row() row {
	if r == nil {
		r = new(Receipt)
	}
	return table[slices.IndexFunc(table, func(row row) bool { return row.when(r) })]
}

type row struct {
	progress Progress
	when     condition
	settled  bool
}

type condition func(*Receipt) bool

const (
	settled    = true
	notSettled = false
)

// table says how far an operation got: the first row whose condition holds
// decides. It is the table of the README, row by row. The settled of a row holds
// unless the result allows a retry: see [Receipt.Settled].
var table = []row{
	{ProgressUnresolved, either(contradictory, outsideVocabulary), notSettled},
	{ProgressInFlight, both(journal(JournalDispatching, JournalResponseRecorded), not(dispatch(DispatchNotDispatched))), notSettled},
	{ProgressExecuted, both(result(StateExecuted), dispatch(DispatchAttempted), journal(JournalAbsent, JournalCompleted)), settled},
	{ProgressBusinessRejected, both(result(StateBusinessRejected), dispatch(DispatchAttempted), journal(JournalAbsent, JournalCompleted)), settled},
	{ProgressUnresolved, either(not(journal(JournalAbsent)), result(StateReconciliationRequired)), notSettled},
	{ProgressInFlight, both(result(StateInProgress), dispatch(DispatchAttempted)), notSettled},
	{ProgressUnresolved, not(dispatch(DispatchNotDispatched)), notSettled},
	{ProgressDenied, either(result(StateDenied), both(approval(ApprovalDenied), result(StateAwaitingApproval, StateInProgress))), settled},
	{ProgressAwaitingApproval, both(approval(ApprovalPending), either(result(StateAwaitingApproval), noResult)), notSettled},
	{ProgressApprovedNotDispatched, both(approval(ApprovalApproved), either(result(StateAwaitingApproval, StateInProgress), noResult, both(result(StateRejectedBeforeDispatch), retryAllowed))), notSettled},
	{ProgressRejectedBeforeDispatch, result(StateRejectedBeforeDispatch), settled},
	{ProgressInProgress, result(StateInProgress), notSettled},
	{ProgressNoEvidence, both(noResult, approval(ApprovalNone)), notSettled},
	{ProgressUnresolved, anything, notSettled},
}

func result(states ...ResultState) condition {
	return func(r *Receipt) bool { return r.Result != nil && slices.Contains(states, r.Result.State) }
}

func noResult(r *Receipt) bool { return r.Result == nil }

func retryAllowed(r *Receipt) bool { return r.Result != nil && r.Result.AutoRetryAllowed }

// contradictory holds for a result that says ok in a state other than executed,
// or executed without ok.
func contradictory(r *Receipt) bool {
	return r.Result != nil && r.Result.OK != (r.Result.State == StateExecuted)
}

// outsideVocabulary holds where a value is none of its constants. [Parse] gives
// no such receipt; the zero Receipt is one.
func outsideVocabulary(r *Receipt) bool {
	return !known(resultSources, r.ResultSource) || !known(dispatchStates, r.DispatchState) ||
		!known(approvalStatuses, r.Approval.Status) || !known(journalStates, r.JournalState) ||
		r.Result != nil && !known(resultStates, r.Result.State)
}

func dispatch(states ...DispatchState) condition {
	return func(r *Receipt) bool { return slices.Contains(states, r.DispatchState) }
}

func journal(states ...JournalState) condition {
	return func(r *Receipt) bool { return slices.Contains(states, r.JournalState) }
}

func approval(statuses ...ApprovalStatus) condition {
	return func(r *Receipt) bool { return slices.Contains(statuses, r.Approval.Status) }
}

func both(conditions ...condition) condition {
	return func(r *Receipt) bool {
		return !slices.ContainsFunc(conditions, func(c condition) bool { return !c(r) })
	}
}

func either(conditions ...condition) condition {
	return func(r *Receipt) bool {
		return slices.ContainsFunc(conditions, func(c condition) bool { return c(r) })
	}
}

func not(c condition) condition { return func(r *Receipt) bool { return !c(r) } }

func anything(*Receipt) bool { return true }

var sentences = map[Progress]string{
	ProgressUnresolved:             "The evidence does not settle what became of the operation; it may have been executed, so a person should check the original.",
	ProgressInFlight:               "An attempt may have reached the business system and its outcome is not confirmed; it may still be running, so look at the original later.",
	ProgressExecuted:               "The operation was executed.",
	ProgressBusinessRejected:       "The business system rejected the operation.",
	ProgressDenied:                 "Approval of the operation was denied; by the evidence it stopped before it was dispatched.",
	ProgressAwaitingApproval:       "The operation waits for a person's approval; by the evidence it has not been dispatched.",
	ProgressApprovedNotDispatched:  "The operation is approved, and by the evidence it has not been dispatched; approval alone does not carry it out.",
	ProgressRejectedBeforeDispatch: "The Hub rejected the operation before it was dispatched; where that is not settled, the original can still be continued and carried out.",
	ProgressInProgress:             "The Hub has taken the operation on and has no outcome yet; look at the original later.",
	ProgressNoEvidence:             "The Hub's record has neither a result nor an approval; that does not tell what became of the operation.",
}

// Sentence says the progress in plain words, for a person or a model. A value
// that is not one of the constants gives the sentence of [ProgressUnresolved].
func (p Progress) Sentence() string {
	if sentence, ok := sentences[p]; ok {
		return sentence
	}
	return sentences[ProgressUnresolved]
}
