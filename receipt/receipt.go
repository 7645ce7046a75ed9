package receipt

import (
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
)

const (
	// Schema is the schema of a receipt that this package reads.
	Schema = "bailing.agent-invocation-receipt.v1"
	// ResultSchema is the schema of the result in it.
	ResultSchema = "bailing.agent-tool-invocation.v1"
)

// Receipt is what a Hub observed of one original invocation. Its parts were
// observed one after the other and may disagree; [Receipt.Progress] weighs
// them.
//
// A Receipt from [Parse] obeys every rule of the contract. It may be shared
// and read by many goroutines as long as nobody changes it; nothing in this
// package does.
type Receipt struct {
	// SchemaVersion is [Schema].
	SchemaVersion string `json:"schema_version"`
	// ReadOnly is true and BusinessOperationPerformed is false: this inspection
	// only read. They do not describe the original operation, which may have
	// been executed.
	ReadOnly                   bool `json:"read_only"`
	BusinessOperationPerformed bool `json:"business_operation_performed"`
	// InvocationID, AgentRunID, Route and Tool are the original ones. Route is
	// what this SDK calls the workspace.
	InvocationID string `json:"invocation_id"`
	AgentRunID   string `json:"agent_run_id"`
	Route        string `json:"route"`
	Tool         string `json:"tool"`
	// ObservedAt is when the Hub made the observation, in UTC, to the
	// millisecond. Nothing may be dispatched because of it.
	ObservedAt time.Time `json:"observed_at"`
	// Result is the stored result; nil where there is no valid one.
	Result *Result `json:"result"`
	// ResultSource tells where Result comes from; [ResultSourceNone] exactly
	// where Result is nil.
	ResultSource ResultSource `json:"result_source"`
	// DispatchState tells whether the operation was dispatched.
	DispatchState DispatchState `json:"dispatch_state"`
	// Approval is the state of the approval when the Hub observed it.
	Approval Approval `json:"approval"`
	// JournalState is what the Hub's journal has recorded of the dispatch.
	JournalState JournalState `json:"journal_state"`
}

// Result is the stored result of the original invocation.
type Result struct {
	// SchemaVersion is [ResultSchema].
	SchemaVersion string `json:"schema_version"`
	// InvocationID, Route and Tool are those of the receipt.
	InvocationID string `json:"invocation_id"`
	Route        string `json:"route"`
	Tool         string `json:"tool"`
	// State is where the invocation stood when the result was stored.
	State ResultState `json:"state"`
	// OK says whether the tool's answer called itself a success.
	OK bool `json:"ok"`
	// AutoRetryAllowed describes the original result. It does not allow the
	// reader of this receipt to send anything.
	AutoRetryAllowed bool `json:"auto_retry_allowed"`
	// Text is the tool's answer, at most 8,192 UTF-16 code units of untrusted
	// data: print it through [Printable].
	Text string `json:"text"`
	// BusinessStatus is the status that the business system answered with, from
	// 100 to 999; 0 where there is none.
	BusinessStatus int `json:"business_status,omitempty"`
	// ApprovalID is the id of the approval that the result names, at least 1; 0
	// where it names none. It can differ from that of [Receipt.Approval].
	ApprovalID int64 `json:"approval_id,omitempty"`
	// RetryAfterMS is the Hub's hint when to try again, in milliseconds from 1
	// to 86,400,000; 0 where there is none. This package keeps it and RateLimit
	// only for a result that was rejected before dispatch with AutoRetryAllowed.
	// Both are there to be shown to a person.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
	// RateLimit is the limit that the invocation met; nil where there is none.
	RateLimit *RateLimit `json:"rate_limit,omitempty"`
}

// RateLimit is a limit that an invocation met.
type RateLimit struct {
	// Level tells whether one tool is limited or a whole tool provider.
	Level RateLimitLevel `json:"level"`
	// Count is how many calls the limit allows in WindowSec seconds; both are
	// from 1 to 2^53-1.
	Count     int64 `json:"count"`
	WindowSec int64 `json:"window_sec"`
	// Scope tells who shares the limit.
	Scope RateLimitScope `json:"scope"`
	// Source names the setting that the limit comes from, in 1 to 128 UTF-16
	// code units of untrusted data: print it through [Printable].
	Source string `json:"source"`
}

// Approval is the state of the operation's approval.
type Approval struct {
	// Status is [ApprovalNone] where no approval was asked for.
	Status ApprovalStatus `json:"status"`
	// ID is from 1 to 2^53-1; 0 exactly where Status is [ApprovalNone].
	ID int64 `json:"approval_id,omitempty"`
}

// Feedback gives the structured account of a stored result that is unresolved,
// in state [StateReconciliationRequired]. For any other receipt, and for nil,
// ok is false: a good receipt is not a failure.
func (r *Receipt) Feedback() (account feedback.Feedback, ok bool) {
	if r == nil || r.Result == nil || r.Result.State != StateReconciliationRequired {
		return feedback.Feedback{}, false
	}
	return feedback.Feedback{
		Schema:       feedback.Schema,
		Category:     feedback.CategoryInvocationOutcomeUnknown,
		Code:         feedback.CodeReconciliationRequired,
		Origin:       feedback.OriginCore,
		Operation:    feedback.OperationInspect,
		Dispatch:     feedback.DispatchAttempted,
		NextAction:   feedback.NextInspectOriginal,
		InvocationID: r.InvocationID,
		Disposition:  feedback.DispositionAcceptedUnknown,
		Message:      "The Hub accepted the operation and its outcome is not known; it may have been executed. Keep its identifiers and have the original looked at.",
	}, true
}
