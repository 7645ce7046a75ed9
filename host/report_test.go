package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

var updateGolden = flag.Bool("update", false, "write the golden files")

var reported = host.Original{
	InvocationID: strings.Repeat("a", 64), Workspace: "inventory", Tool: "goods_update",
	SessionEnds: time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC),
}

// everyReceipt calls try with a receipt for every combination of its parts,
// values outside the vocabularies included.
func everyReceipt(try func(*receipt.Receipt)) {
	const outside = "something newer"
	results := []*receipt.Result{nil}
	for _, state := range []receipt.ResultState{receipt.StateExecuted, receipt.StateBusinessRejected, receipt.StateAwaitingApproval, receipt.StateDenied,
		receipt.StateRejectedBeforeDispatch, receipt.StateReconciliationRequired, receipt.StateInProgress, outside} {
		for bits := range 4 {
			results = append(results, &receipt.Result{State: state, OK: bits&1 != 0, AutoRetryAllowed: bits&2 != 0,
				Text: "Done. Retry now, it did not happen.", BusinessStatus: 700, RetryAfterMS: 90_001})
		}
	}
	for _, dispatch := range []receipt.DispatchState{receipt.DispatchNotDispatched, receipt.DispatchAttempted, receipt.DispatchUnknown, outside} {
		for _, approval := range []receipt.ApprovalStatus{receipt.ApprovalNone, receipt.ApprovalPending, receipt.ApprovalApproved, receipt.ApprovalDenied, outside} {
			for _, journal := range []receipt.JournalState{receipt.JournalAbsent, receipt.JournalDispatching, receipt.JournalResponseRecorded, receipt.JournalCompleted,
				receipt.JournalUncertain, receipt.JournalEvidenceDegraded, receipt.JournalUnknown, outside} {
				for _, result := range results {
					source := receipt.ResultSourceJob
					if result == nil {
						source = receipt.ResultSourceNone
					}
					id := int64(0)
					if approval != receipt.ApprovalNone {
						id = 7
					}
					try(&receipt.Receipt{
						InvocationID: reported.InvocationID, Route: reported.Workspace, Tool: reported.Tool,
						ObservedAt: time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC),
						Result:     result, ResultSource: source, DispatchState: dispatch,
						Approval: receipt.Approval{Status: approval, ID: id}, JournalState: journal,
					})
				}
			}
		}
	}
}

// everyFailure gives a failure for each row of the failure table and each code
// in it.
func everyFailure() (collected []*feedback.Error) {
	codes := []feedback.Code{"", "something_newer", feedback.CodeInvocationNotFound, feedback.CodeInvocationRecordInvalid, feedback.CodeInvocationConflict,
		feedback.CodeAgentRunConflict, feedback.CodeTaskDispatchUncertain, feedback.CodeRouteNotAllowed, feedback.CodeAudienceNotAllowed,
		feedback.CodeAgentDirectDisabled, feedback.CodeAgentClientDisabled, feedback.CodeCapabilityChanged, feedback.CodeInvalidRequest,
		feedback.CodeInvalidRoute, feedback.CodeRouteUnavailable, feedback.CodeHubPaused, feedback.CodeAgentToolsUnavailable,
		feedback.CodeAgentRuntimeUnavailable, feedback.CodeTaskUnsupported, feedback.CodeTaskUnavailable, feedback.CodeTaskInvalidInput,
		feedback.CodeTaskRequired, feedback.CodeTaskScopeBlocked, feedback.CodeTaskMemberMismatch, feedback.CodeTaskBindingConflict,
		feedback.CodeTaskPaused, feedback.CodeTaskCancelled, feedback.CodeTaskExpired, feedback.CodeTaskWriteBudgetExhausted,
		feedback.CodeTaskConcurrencyExhausted, feedback.CodeTaskToolNotAllowed, feedback.CodeTaskRevisionConflict, feedback.CodeTaskRecordInvalid,
		feedback.CodeTaskNotFound, feedback.CodeTaskRunInactive, feedback.CodeReceiptNotFound}
	events := []failures.Event{failures.Answered, failures.BadArgument, failures.Cancelled, failures.TimedOut, failures.BindingChanged,
		failures.NoAuthorization, failures.StoreFailed, failures.ConnectionLost, failures.UnknownSchema, failures.BadBody}
	seen := map[feedback.Feedback]bool{}
	for _, event := range events {
		for _, step := range []failures.Step{failures.Negotiation, failures.Receipt, failures.ExecutionReceipt, failures.ExecutionList} {
			for _, status := range []int{101, 200, 204, 302, 400, 401, 403, 404, 405, 408, 409, 425, 429, 500, 501, 503} {
				for _, code := range codes {
					failure := failures.New(failures.Failure{Event: event, Step: step, Status: status, HubCode: code, Dispatched: status%2 == 0})
					like := failure.Feedback
					like.Dispatch, like.Origin = "", ""
					if !seen[like] {
						seen[like] = true
						collected = append(collected, failure)
					}
				}
			}
		}
	}
	return collected
}

// What a report must never say, in any member but the untrusted text. The one
// sentence that speaks of sending forbids it.
var (
	forbids  = regexp.MustCompile(`Never send the operation again\.`)
	hedged   = regexp.MustCompile(`by the evidence it (has not been|stopped before it was) (dispatched|carried out)|does not (prove|tell|settle)[^.;,]*`)
	sendMore = regexp.MustCompile(`(?i)\b(retry|retried|try again|re-?send|re-?sent|re-?submit|re-?issue|repeat(ed)?|send|sent again|once more|another (call|operation|invocation)|new (call|operation|invocation)|safe to)\b`)
	nothing  = regexp.MustCompile(`(?i)(not|n't|never) (happen|been (carried|executed|dispatched|run|done)|executed|carried out|run\b|dispatched|take effect)|nothing (happened|was done)|no effect|without effect`)
	isDone   = regexp.MustCompile(`(?i)\b(was executed|is done|completed|succeeded|carried out\b|took effect)`)
)

// mustHold are the rules of every report.
func mustHold(t *testing.T, r host.Report) {
	t.Helper()
	text := r.Sentence + " " + r.Advice
	bare := hedged.ReplaceAllString(forbids.ReplaceAllString(text, ""), "")
	if sendMore.MatchString(strings.ReplaceAll(bare, "that the operation was sent under", "")) {
		t.Errorf("it speaks of sending: %q", text)
	}
	if nothing.MatchString(bare) {
		t.Errorf("it says that nothing happened: %q", text)
	}
	if r.Progress != receipt.ProgressExecuted && isDone.MatchString(strings.ReplaceAll(bare, "can still be continued and carried out", "")) {
		t.Errorf("%s: it says that the operation is done: %q", r.Progress, text)
	}
	for name, sentence := range map[string]string{"sentence": r.Sentence, "advice": r.Advice} {
		if sentence == "" || !strings.HasSuffix(sentence, ".") || strings.Contains(sentence, "  ") || strings.TrimSpace(sentence) != sentence {
			t.Errorf("the %s is %q", name, sentence)
		}
	}
	if r.InvocationID != reported.InvocationID || r.Tool != reported.Tool || !r.SessionEnds.Equal(reported.SessionEnds) {
		t.Errorf("it is of something else: %+v", r)
	}
}

func TestReportOfEveryReceipt(t *testing.T) {
	t.Parallel()
	everyReceipt(func(observed *receipt.Receipt) {
		r := host.Explain(reported, observed, nil)
		mustHold(t, r)
		answered := slices.Contains([]receipt.Progress{receipt.ProgressExecuted, receipt.ProgressBusinessRejected, receipt.ProgressRejectedBeforeDispatch}, r.Progress)
		wait := r.AskAgainAfterSeconds
		switch {
		case !r.Answered, r.Progress != observed.Progress(), r.Settled != observed.Settled(), r.Sentence != observed.Progress().Sentence():
			t.Errorf("another progress: %+v", r)
		case r.Code != "", !r.ObservedAt.Equal(observed.ObservedAt), r.ApprovalID != observed.Approval.ID:
			t.Errorf("another evidence: %+v", r)
		case r.Settled != (r.Next == host.NextReport), r.Settled != (wait == 0):
			t.Errorf("settled %v, next %s after %d s", r.Settled, r.Next, wait)
		case observed.Result != nil && !r.Settled && wait < 91:
			t.Errorf("the Hub's hint of 90.001 s is not kept to: %d", wait)
		case answered != (r.UntrustedText != ""), answered != (r.BusinessStatus != 0):
			t.Errorf("%s with the text %q and the status %d", r.Progress, r.UntrustedText, r.BusinessStatus)
		case r.Approval == receipt.ApprovalApproved && r.Next == host.NextReport && !r.Settled:
			t.Errorf("approved is taken for done: %+v", r)
		case r.Next == host.NextPersonDecides && !strings.Contains(r.Advice, "approval 7"):
			t.Errorf("which approval is not said: %q", r.Advice)
		}
		if t.Failed() {
			t.FailNow()
		}
	})
}

func TestReportOfEveryFailure(t *testing.T) {
	t.Parallel()
	collected := everyFailure()
	if len(collected) < 40 {
		t.Fatalf("%d failures were made", len(collected))
	}
	for _, failure := range collected {
		r := host.Explain(reported, nil, failure)
		mustHold(t, r)
		if !strings.HasSuffix(r.Advice, " This tells nothing about the operation itself.") {
			t.Errorf("%s: the advice does not say that nothing is known: %q", failure, r.Advice)
		}
		want := host.Report{
			InvocationID: r.InvocationID, Tool: r.Tool, SessionEnds: r.SessionEnds, Advice: r.Advice,
			Sentence: failure.Feedback.Message, Code: failure.Feedback.Code,
		}
		// What the contract asks for, said once more.
		switch f := failure.Feedback; {
		case f.NextAction == feedback.NextInspectOriginal && f.Retryable, f.Category == feedback.CategoryCancelled:
			want.Next, want.AskAgainAfterSeconds = host.NextAskAgain, 5
		case f.NextAction == feedback.NextInspectOriginal:
			want.Next, want.AskAgainAfterSeconds = host.NextPersonReconciles, 300
		case f.NextAction == feedback.NextRestoreScope:
			want.Next = host.NextRestoreConnection
		case f.NextAction == feedback.NextReauthorize:
			want.Next = host.NextRestoreAccess
		case f.NextAction == feedback.NextCheckCompatibility:
			want.Next = host.NextCompareVersions
		case f.Category == feedback.CategoryInvalidRequest:
			want.Next = host.NextMendCall
		default:
			want.Next = host.NextNothing
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s (-want +got):\n%s", failure, diff)
		}
		if beside := host.Explain(reported, &receipt.Receipt{InvocationID: reported.InvocationID}, failure); beside != r {
			t.Errorf("%s: a receipt beside it is reported: %+v", failure, beside)
		}
	}
}

// TestReportGolden is for reading: every report that there is, told apart by
// what it says.
func TestReportGolden(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	counts, order := map[string]int{}, []string{}
	everyReceipt(func(observed *receipt.Receipt) {
		r := host.Explain(reported, observed, nil)
		said := told(r)
		if counts[said] == 0 {
			order = append(order, said)
		}
		counts[said]++
	})
	slices.Sort(order)
	for _, said := range order {
		fmt.Fprintf(&text, "%s  combinations of a receipt: %d\n\n", said, counts[said])
	}
	for _, failure := range everyFailure() {
		if failure.Feedback.Code != "" {
			text.WriteString(told(host.Explain(reported, nil, failure)) + "\n")
		}
	}
	golden := filepath.Join("testdata", "reports.txt")
	if *updateGolden {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func told(r host.Report) string {
	head := string(r.Code)
	if r.Answered {
		head = string(r.Progress)
		if r.Settled {
			head += ", settled"
		}
	}
	wait := "do not ask again by itself"
	if r.AskAgainAfterSeconds > 0 {
		wait = fmt.Sprintf("ask again after %d s", r.AskAgainAfterSeconds)
	}
	return fmt.Sprintf("%s: %s, %s\n  %s\n  %s\n", head, r.Next, wait, r.Sentence, r.Advice)
}

func TestReportOfOthers(t *testing.T) {
	t.Parallel()
	secret := errors.New("synthetic-access-1 was refused")
	executed := func(change func(*receipt.Receipt)) *receipt.Receipt {
		r := &receipt.Receipt{
			InvocationID: reported.InvocationID, Route: reported.Workspace, Tool: reported.Tool, AgentRunID: "33333333-3333-4333-8333-333333333333",
			Result: &receipt.Result{State: receipt.StateExecuted, OK: true, Text: "Done."}, ResultSource: receipt.ResultSourceJob,
			DispatchState: receipt.DispatchAttempted, Approval: receipt.Approval{Status: receipt.ApprovalNone}, JournalState: receipt.JournalAbsent,
		}
		change(r)
		return r
	}
	ofRun := reported
	ofRun.AgentRunID = "44444444-4444-4444-8444-444444444444"
	for name, test := range map[string]struct {
		original host.Original
		observed *receipt.Receipt
		err      error
		code     feedback.Code
		next     host.Next
	}{
		"neither":            {reported, nil, nil, feedback.CodeUnknownFailure, host.NextNothing},
		"somebody else's":    {reported, nil, secret, feedback.CodeUnknownFailure, host.NextNothing},
		"a nil pointer":      {reported, nil, (*feedback.Error)(nil), feedback.CodeUnknownFailure, host.NextNothing},
		"cancelled":          {reported, nil, fmt.Errorf("%w: %w", secret, context.Canceled), feedback.CodeAgentRequestCancelled, host.NextAskAgain},
		"out of time":        {reported, nil, fmt.Errorf("%w: %w", secret, context.DeadlineExceeded), feedback.CodeAgentRequestTimeout, host.NextAskAgain},
		"the registry's":     {reported, nil, fmt.Errorf("%w: %w", secret, feedback.CodeInvalidRequest), feedback.CodeInvalidRequest, host.NextMendCall},
		"another invocation": {reported, executed(func(r *receipt.Receipt) { r.InvocationID = strings.Repeat("b", 64) }), nil, feedback.CodeAgentInvalidResponse, host.NextNothing},
		"another workspace":  {reported, executed(func(r *receipt.Receipt) { r.Route = "sales" }), nil, feedback.CodeAgentInvalidResponse, host.NextNothing},
		"another tool":       {reported, executed(func(r *receipt.Receipt) { r.Tool = "goods_delete" }), nil, feedback.CodeAgentInvalidResponse, host.NextNothing},
		"another run":        {ofRun, executed(func(*receipt.Receipt) {}), nil, feedback.CodeAgentInvalidResponse, host.NextNothing},
	} {
		r := host.Explain(test.original, test.observed, test.err)
		mustHold(t, r)
		if r.Answered || r.Code != test.code || r.Next != test.next || r.UntrustedText != "" || r.Progress != "" {
			t.Errorf("%s: %+v", name, r)
		}
		if data, err := json.Marshal(r); err != nil || strings.Contains(string(data), "synthetic-") {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
	// Who has no record of the original gets what the receipt says.
	r := host.Explain(host.Original{}, executed(func(*receipt.Receipt) {}), nil)
	if !r.Answered || r.InvocationID != reported.InvocationID || r.Tool != reported.Tool {
		t.Errorf("without an original: %+v", r)
	}
	// An id that is none is not passed on.
	if r := host.Explain(host.Original{InvocationID: "\x1b[2J", Tool: "\x1b[2J"}, nil, secret); r.InvocationID != "" || r.Tool != "" {
		t.Errorf("passed on: %+v", r)
	}
	observation := host.Observation{Original: reported, Receipt: executed(func(*receipt.Receipt) {})}
	if diff := cmp.Diff(host.Explain(reported, observation.Receipt, nil), observation.Report()); diff != "" {
		t.Errorf("of an observation (-want +got):\n%s", diff)
	}
}

// How long the Hub asked to wait is told in whole seconds, none too few.
func TestReportRetryAfter(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]int64{0: 5, time.Nanosecond: 1, time.Second: 1, 1500 * time.Millisecond: 2, 100 * time.Hour: 86400} {
		failure := failures.New(failures.Failure{Step: failures.Receipt, Status: 503, RetryAfter: given})
		if r := host.Explain(reported, nil, failure); r.AskAgainAfterSeconds != want {
			t.Errorf("%v: %d s, want %d", given, r.AskAgainAfterSeconds, want)
		}
	}
}

// The text is printable, and never longer than said; what is cut says so.
func TestReportText(t *testing.T) {
	t.Parallel()
	explain := func(text string) string {
		return host.Explain(host.Original{}, &receipt.Receipt{
			Result: &receipt.Result{State: receipt.StateExecuted, OK: true, Text: text}, ResultSource: receipt.ResultSourceJob,
			DispatchState: receipt.DispatchAttempted, Approval: receipt.Approval{Status: receipt.ApprovalNone}, JournalState: receipt.JournalAbsent,
		}, nil).UntrustedText
	}
	const most = host.MaxReportText
	for name, test := range map[string]struct{ text, want string }{
		"none":                 {"", ""},
		"plain":                {"Stock is 40.", "Stock is 40."},
		"controls":             {"a\x1b[2J\u202eb\r\n", `a\x1b[2J\u202eb\r\n`},
		"just fits":            {strings.Repeat("x", most), strings.Repeat("x", most)},
		"one too many":         {strings.Repeat("x", most+1), strings.Repeat("x", most-1) + "…"},
		"Chinese fits":         {strings.Repeat("库", most), strings.Repeat("库", most)},
		"Chinese":              {strings.Repeat("库", 8192), strings.Repeat("库", most-1) + "…"},
		"an escape is not cut": {strings.Repeat("x", most-3) + "\u202exx", strings.Repeat("x", most-3) + "…"},
		"all escapes":          {strings.Repeat("\x1b", most), strings.Repeat(`\x1b`, (most-1)/4) + "…"},
		"not UTF-8":            {strings.Repeat("\xff", most), strings.Repeat(`\xff`, (most-1)/4) + "…"},
	} {
		if got := explain(test.text); got != test.want {
			t.Errorf("%s: %d characters, %q", name, utf8.RuneCountInString(got), got)
		}
	}
}

// A report goes through JSON and back.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	observed, err := w.transport.InspectInvocation(t.Context(), w.original)
	w.must(err)
	for _, r := range []host.Report{host.Explain(w.original, observed, nil), host.Explain(w.original, nil, errors.New("no"))} {
		data, err := json.Marshal(r)
		w.must(err)
		var back host.Report
		w.must(json.Unmarshal(data, &back))
		if diff := cmp.Diff(r, back); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", data, diff)
		}
	}
}

// Capture notes when the session ends; that goes through JSON unchanged, and is
// compared with nothing.
func TestCaptureNotesWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if want := w.session.RefreshExpiresAt.UTC().Truncate(time.Millisecond); w.original.SessionEnds != want {
		t.Errorf("%v, want %v", w.original.SessionEnds, want)
	}
	data, err := json.Marshal(w.original)
	w.must(err)
	var back host.Original
	w.must(json.Unmarshal(data, &back))
	if back != w.original {
		t.Errorf("%+v became %+v", w.original, back)
	}
	back.SessionEnds = time.Time{}
	_, err = w.transport.InspectInvocation(t.Context(), back)
	w.must(err)
	data, err = json.Marshal(host.Original{ExpectedBinding: registry.Binding{}})
	w.must(err)
	if strings.Contains(string(data), "session_ends") {
		t.Errorf("a zero time is written: %s", data)
	}
}

func BenchmarkExplain(b *testing.B) {
	observed := &receipt.Receipt{
		InvocationID: reported.InvocationID, Route: reported.Workspace, Tool: reported.Tool, ObservedAt: time.Now(),
		ResultSource: receipt.ResultSourceNone, DispatchState: receipt.DispatchNotDispatched,
		Approval: receipt.Approval{Status: receipt.ApprovalPending, ID: 7}, JournalState: receipt.JournalAbsent,
	}
	failure := error(failures.New(failures.Failure{Event: failures.ConnectionLost}))
	b.Run("receipt", func(b *testing.B) {
		for b.Loop() {
			host.Explain(reported, observed, nil)
		}
	})
	b.Run("failure", func(b *testing.B) {
		for b.Loop() {
			host.Explain(reported, nil, failure)
		}
	})
}
