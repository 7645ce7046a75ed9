package receipt_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const outside = "something newer"

var (
	sources    = []receipt.ResultSource{receipt.ResultSourceJob, receipt.ResultSourceJournal, receipt.ResultSourceNone, "", outside}
	dispatches = []receipt.DispatchState{receipt.DispatchNotDispatched, receipt.DispatchAttempted, receipt.DispatchUnknown, "", outside}
	approvals  = []receipt.ApprovalStatus{receipt.ApprovalNone, receipt.ApprovalPending, receipt.ApprovalApproved, receipt.ApprovalDenied, "", outside}
	journals   = []receipt.JournalState{receipt.JournalAbsent, receipt.JournalDispatching, receipt.JournalResponseRecorded, receipt.JournalCompleted,
		receipt.JournalUncertain, receipt.JournalEvidenceDegraded, receipt.JournalUnknown, "", outside}
	states = []receipt.ResultState{receipt.StateExecuted, receipt.StateBusinessRejected, receipt.StateAwaitingApproval, receipt.StateDenied,
		receipt.StateRejectedBeforeDispatch, receipt.StateReconciliationRequired, receipt.StateInProgress, "", outside}
	progresses = []receipt.Progress{receipt.ProgressUnresolved, receipt.ProgressInFlight, receipt.ProgressExecuted, receipt.ProgressBusinessRejected,
		receipt.ProgressDenied, receipt.ProgressAwaitingApproval, receipt.ProgressApprovedNotDispatched, receipt.ProgressRejectedBeforeDispatch,
		receipt.ProgressInProgress, receipt.ProgressNoEvidence}
)

// everyCombination calls try for every value of every vocabulary with every
// other, and values outside.
func everyCombination(try func(*receipt.Receipt)) {
	var results []*receipt.Result
	for _, state := range states {
		for bits := range 4 {
			results = append(results, &receipt.Result{State: state, OK: bits&1 != 0, AutoRetryAllowed: bits&2 != 0})
		}
	}
	results = append(results, nil)
	for _, source := range sources {
		for _, dispatch := range dispatches {
			for _, approval := range approvals {
				for _, journal := range journals {
					for _, result := range results {
						try(&receipt.Receipt{ResultSource: source, DispatchState: dispatch, Approval: receipt.Approval{Status: approval}, JournalState: journal, Result: result})
					}
				}
			}
		}
	}
}

func describe(r *receipt.Receipt) string {
	if r.Result == nil {
		return fmt.Sprintf("no result, source %q, dispatch %q, approval %q, journal %q", r.ResultSource, r.DispatchState, r.Approval.Status, r.JournalState)
	}
	return fmt.Sprintf("%q ok=%v retry=%v, source %q, dispatch %q, approval %q, journal %q",
		r.Result.State, r.Result.OK, r.Result.AutoRetryAllowed, r.ResultSource, r.DispatchState, r.Approval.Status, r.JournalState)
}

// hasUnknownValue is written without the vocabularies of the package.
func hasUnknownValue(r *receipt.Receipt) bool {
	for _, value := range []string{string(r.ResultSource), string(r.DispatchState), string(r.Approval.Status), string(r.JournalState)} {
		if value == "" || value == outside {
			return true
		}
	}
	return r.Result != nil && (r.Result.State == "" || r.Result.State == outside)
}

// restated says the table once more in another shape, and that a result that
// allows a retry is not settled.
func restated(r *receipt.Receipt) (progress receipt.Progress, settled bool) {
	progress, settled = restatedTable(r)
	return progress, settled && !r.Result.AutoRetryAllowed
}

// restatedTable goes by dispatch first, then by what is left to tell apart.
func restatedTable(r *receipt.Receipt) (progress receipt.Progress, settled bool) {
	if hasUnknownValue(r) || r.Result != nil && r.Result.OK != (r.Result.State == receipt.StateExecuted) {
		return receipt.ProgressUnresolved, false
	}
	var state receipt.ResultState
	if r.Result != nil {
		state = r.Result.State
	}
	switch r.DispatchState {
	case receipt.DispatchUnknown, receipt.DispatchAttempted:
		switch r.JournalState {
		case receipt.JournalDispatching, receipt.JournalResponseRecorded:
			return receipt.ProgressInFlight, false
		case receipt.JournalAbsent, receipt.JournalCompleted:
			if r.DispatchState == receipt.DispatchAttempted {
				switch state {
				case receipt.StateExecuted:
					return receipt.ProgressExecuted, true
				case receipt.StateBusinessRejected:
					return receipt.ProgressBusinessRejected, true
				case receipt.StateInProgress:
					if r.JournalState == receipt.JournalAbsent {
						return receipt.ProgressInFlight, false
					}
				}
			}
		}
		return receipt.ProgressUnresolved, false
	}
	if r.JournalState != receipt.JournalAbsent {
		return receipt.ProgressUnresolved, false
	}
	// Confirmed not dispatched, and no journal says otherwise.
	type standing struct {
		state    receipt.ResultState
		approval receipt.ApprovalStatus
	}
	switch is := (standing{state, r.Approval.Status}); is {
	case standing{receipt.StateAwaitingApproval, receipt.ApprovalDenied}, standing{receipt.StateInProgress, receipt.ApprovalDenied}:
		return receipt.ProgressDenied, true
	case standing{receipt.StateAwaitingApproval, receipt.ApprovalPending}, standing{"", receipt.ApprovalPending}:
		return receipt.ProgressAwaitingApproval, false
	case standing{receipt.StateAwaitingApproval, receipt.ApprovalApproved}, standing{receipt.StateInProgress, receipt.ApprovalApproved}, standing{"", receipt.ApprovalApproved}:
		return receipt.ProgressApprovedNotDispatched, false
	case standing{receipt.StateInProgress, receipt.ApprovalNone}, standing{receipt.StateInProgress, receipt.ApprovalPending}:
		return receipt.ProgressInProgress, false
	case standing{"", receipt.ApprovalNone}:
		return receipt.ProgressNoEvidence, false
	}
	switch state {
	case receipt.StateDenied:
		return receipt.ProgressDenied, true
	case receipt.StateRejectedBeforeDispatch:
		if r.Result.AutoRetryAllowed && r.Approval.Status == receipt.ApprovalApproved {
			return receipt.ProgressApprovedNotDispatched, false
		}
		return receipt.ProgressRejectedBeforeDispatch, true
	}
	return receipt.ProgressUnresolved, false
}

func TestProgressOfEveryCombination(t *testing.T) {
	t.Parallel()
	seen := map[receipt.Progress]int{}
	everyCombination(func(r *receipt.Receipt) {
		progress, settled := restated(r)
		if r.Progress() != progress || r.Settled() != settled {
			t.Fatalf("%s: got %s, settled %v; want %s, settled %v", describe(r), r.Progress(), r.Settled(), progress, settled)
		}
		seen[progress]++
	})
	for _, progress := range progresses {
		if seen[progress] == 0 {
			t.Errorf("%s was never seen", progress)
		}
	}
	if len(seen) != len(progresses) {
		t.Errorf("seen: %v", seen)
	}
}

// What must hold whatever the table says.
func TestProgressNeverSaysTooMuch(t *testing.T) {
	t.Parallel()
	everyCombination(func(r *receipt.Receipt) {
		progress := r.Progress()
		fail := func(why string) { t.Fatalf("%s: %s although %s", describe(r), progress, why) }
		state := receipt.ResultState("")
		if r.Result != nil {
			state = r.Result.State
		}
		switch progress {
		case receipt.ProgressExecuted, receipt.ProgressBusinessRejected:
			switch {
			case string(state) != string(progress):
				fail("the result does not say so")
			case r.DispatchState != receipt.DispatchAttempted:
				fail("no dispatch is confirmed")
			case r.JournalState != receipt.JournalAbsent && r.JournalState != receipt.JournalCompleted:
				fail("the journal is open")
			case r.Result.OK != (progress == receipt.ProgressExecuted):
				fail("ok contradicts")
			}
		case receipt.ProgressUnresolved, receipt.ProgressInFlight:
			if r.Settled() {
				fail("it is settled")
			}
		default:
			switch {
			case r.DispatchState != receipt.DispatchNotDispatched:
				fail("an attempt may have been made")
			case r.JournalState != receipt.JournalAbsent:
				fail("a journal knows of an attempt")
			case state == receipt.StateExecuted || state == receipt.StateBusinessRejected || state == receipt.StateReconciliationRequired:
				fail("the result speaks of an attempt")
			}
		}
		if hasUnknownValue(r) && progress != receipt.ProgressUnresolved {
			fail("a value is not known")
		}
		if progress == receipt.ProgressDenied && state != receipt.StateDenied && r.Approval.Status != receipt.ApprovalDenied {
			fail("nobody denied it")
		}
		if r.Settled() && r.Result == nil {
			fail("it is settled without a result")
		}

		// What never counts.
		other := *r
		if r.ResultSource == receipt.ResultSourceJob {
			other.ResultSource = receipt.ResultSourceJournal
		}
		if r.Result != nil {
			copied := *r.Result
			copied.BusinessStatus = 500
			other.Result = &copied
		}
		if other.Progress() != progress || other.Settled() != r.Settled() {
			fail("the source or the business status would change it to " + string(other.Progress()))
		}

		if r.Result == nil {
			return
		}
		if r.Result.AutoRetryAllowed && r.Settled() {
			fail("it is settled and the Hub would let it be continued")
		}
		// Only the progress of a rejection before dispatch depends on a retry.
		other.Result.AutoRetryAllowed = !other.Result.AutoRetryAllowed
		if state != receipt.StateRejectedBeforeDispatch && other.Progress() != progress {
			fail("a retry would change it to " + string(other.Progress()))
		}
	})
}

func TestProgressOfNothing(t *testing.T) {
	t.Parallel()
	var none *receipt.Receipt
	for name, r := range map[string]*receipt.Receipt{"nil": none, "zero": {}} {
		if r.Progress() != receipt.ProgressUnresolved || r.Settled() {
			t.Errorf("%s: %s, settled %v", name, r.Progress(), r.Settled())
		}
		if account, ok := r.Feedback(); ok || account != (feedback.Feedback{}) {
			t.Errorf("%s: %+v", name, account)
		}
	}
}

// A sentence goes to people and to models: it must not lead to a second
// sending, nor comfort where nothing is known.
func TestSentences(t *testing.T) {
	t.Parallel()
	want := map[receipt.Progress]string{
		receipt.ProgressUnresolved:             "The evidence does not settle what became of the operation; it may have been executed, so a person should check the original.",
		receipt.ProgressInFlight:               "An attempt may have reached the business system and its outcome is not confirmed; it may still be running, so look at the original later.",
		receipt.ProgressExecuted:               "The operation was executed.",
		receipt.ProgressBusinessRejected:       "The business system rejected the operation.",
		receipt.ProgressDenied:                 "Approval of the operation was denied; by the evidence it stopped before it was dispatched.",
		receipt.ProgressAwaitingApproval:       "The operation waits for a person's approval; by the evidence it has not been dispatched.",
		receipt.ProgressApprovedNotDispatched:  "The operation is approved, and by the evidence it has not been dispatched; approval alone does not carry it out.",
		receipt.ProgressRejectedBeforeDispatch: "The Hub rejected the operation before it was dispatched; where that is not settled, the original can still be continued and carried out.",
		receipt.ProgressInProgress:             "The Hub has taken the operation on and has no outcome yet; look at the original later.",
		receipt.ProgressNoEvidence:             "The Hub's record has neither a result nor an approval; that does not tell what became of the operation.",
	}
	got := map[receipt.Progress]string{}
	for _, progress := range progresses {
		got[progress] = progress.Sentence()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	misleading := regexp.MustCompile(`(?i)\b(again|retry|retried|resend|re-send|send|sent|repeat|replace|new (operation|invocation)|resume|safe|nothing|did not happen|never happened|success|completed|done|will be)\b`)
	for progress, sentence := range got {
		if found := misleading.FindString(sentence); found != "" {
			t.Errorf("%s says %q", progress, found)
		}
	}
	for _, progress := range []receipt.Progress{"", outside, "EXECUTED"} {
		if got := progress.Sentence(); got != want[receipt.ProgressUnresolved] {
			t.Errorf("%q: %s", progress, got)
		}
	}
}

func TestFeedbackOfAnUnresolvedResult(t *testing.T) {
	t.Parallel()
	r := goodReceipt()
	for _, state := range states {
		r.Result.State = state
		account, ok := r.Feedback()
		if state != receipt.StateReconciliationRequired {
			if ok || account != (feedback.Feedback{}) {
				t.Errorf("%s: %+v", state, account)
			}
			continue
		}
		want := feedback.Feedback{
			Schema:       feedback.Schema,
			Category:     feedback.CategoryInvocationOutcomeUnknown,
			Code:         feedback.CodeReconciliationRequired,
			Origin:       feedback.OriginCore,
			Operation:    feedback.OperationInspect,
			Dispatch:     feedback.DispatchAttempted,
			NextAction:   feedback.NextInspectOriginal,
			InvocationID: invocation,
			Disposition:  feedback.DispositionAcceptedUnknown,
			Message:      account.Message,
		}
		if diff := cmp.Diff(want, account); !ok || account.Message == "" || diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
	}
}
