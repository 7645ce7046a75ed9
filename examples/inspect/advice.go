package main

import (
	"fmt"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// hostMay says what a host may do with an answer. Nothing here is ever leave
// to send an operation once more.
func (a answer) hostMay() string {
	if a.failure != nil {
		return afterFailure(a.failure)
	}
	r := a.receipt
	switch r.Progress() {
	case receipt.ProgressExecuted:
		return "report the result."
	case receipt.ProgressBusinessRejected:
		return "report the rejection and its reason."
	case receipt.ProgressDenied:
		return "tell whoever asked for the operation."
	case receipt.ProgressAwaitingApproval:
		return fmt.Sprintf("say that a person has to decide on approval %d, and look later.", r.Approval.ID)
	case receipt.ProgressApprovedNotDispatched:
		return "say both: approved, and not carried out. To continue it is a step of its own, which this SDK does not have."
	case receipt.ProgressRejectedBeforeDispatch:
		if r.Settled() {
			return "report the rejection."
		}
		return "report the rejection, and look later."
	case receipt.ProgressInProgress:
		return "look later."
	case receipt.ProgressInFlight:
		return "look later; it may be running, or be lost. Never send it again."
	case receipt.ProgressNoEvidence:
		return "keep the identifiers and have the original looked at. This proves nothing."
	}
	return "keep the identifiers, look later, and have a person reconcile it with the business system."
}

func afterFailure(failure *feedback.Error) string {
	f := failure.Feedback
	switch f.NextAction {
	case feedback.NextInspectOriginal:
		switch {
		case !f.Retryable:
			return "keep the identifiers and have an operator look at the original."
		case failure.RetryAfter > 0:
			return fmt.Sprintf("ask this question again, in %.0f seconds.", failure.RetryAfter.Seconds())
		}
		return "ask this question again, not too soon."
	case feedback.NextRestoreScope:
		return "restore the original connection and session, then ask again."
	case feedback.NextReauthorize:
		return "have a person restore the original access at the original Hub."
	case feedback.NextCheckCompatibility:
		return "compare the versions of the Hub and of this SDK, and use nothing else instead."
	}
	if f.Code == feedback.CodeAgentRequestCancelled {
		return "ask again, if the answer still matters."
	}
	return "show this to a person."
}
