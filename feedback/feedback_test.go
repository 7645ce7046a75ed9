package feedback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

func TestErrorIs(t *testing.T) {
	t.Parallel()
	err := error(failures.New(failures.Failure{Step: failures.Receipt, Status: 404, HubCode: feedback.CodeInvocationNotFound, Causes: []error{io.ErrUnexpectedEOF}}))
	wrapped := fmt.Errorf("host: %w", err)
	for _, target := range []error{feedback.CodeInvocationNotFound, io.ErrUnexpectedEOF} {
		if !errors.Is(wrapped, target) {
			t.Errorf("%v is not found", target)
		}
	}
	for _, target := range []error{feedback.CodeUnknownFailure, context.Canceled, io.EOF} {
		if errors.Is(wrapped, target) {
			t.Errorf("%v is found", target)
		}
	}
	if got := feedback.CodeOf(wrapped); got != feedback.CodeInvocationNotFound {
		t.Errorf("CodeOf: %q", got)
	}
	if got := feedback.CategoryOf(wrapped); got != feedback.CategoryInvocationOutcomeUnknown {
		t.Errorf("CategoryOf: %q", got)
	}
}

func TestCodeOfOthers(t *testing.T) {
	t.Parallel()
	if code, category := feedback.CodeOf(nil), feedback.CategoryOf(nil); code != "" || category != "" {
		t.Errorf("nil: %q, %q", code, category)
	}
	if code, category := feedback.CodeOf(io.EOF), feedback.CategoryOf(io.EOF); code != "" || category != "" {
		t.Errorf("somebody else's: %q, %q", code, category)
	}
	if code := feedback.CodeOf(fmt.Errorf("alias: %w", feedback.CodeInvalidRequest)); code != feedback.CodeInvalidRequest {
		t.Errorf("a bare code: %q", code)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a", 64)
	err := failures.New(failures.Failure{Step: failures.Receipt, Status: 404, HubCode: feedback.CodeInvocationNotFound, Dispatched: true, InvocationID: id, Message: "Own <words>."})
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"error":                  {err, `{"schema":"bailing.agent-feedback.v1","category":"invocation_outcome_unknown","code":"invocation_not_found","origin":"core","operation":"inspect","dispatch":"attempted","retryable":false,"next_action":"inspect_original","invocation_id":"` + id + `","message":"Own \u003cwords\u003e.","status":404}`},
		"feedback":               {err.Feedback, `{"schema":"bailing.agent-feedback.v1","category":"invocation_outcome_unknown","code":"invocation_not_found","origin":"core","operation":"inspect","dispatch":"attempted","retryable":false,"next_action":"inspect_original","invocation_id":"` + id + `","message":"Own \u003cwords\u003e."}`},
		"disposition, no status": {feedback.Feedback{Disposition: feedback.DispositionAcceptedUnknown}, `{"schema":"bailing.agent-feedback.v1","category":"","code":"","origin":"","operation":"","dispatch":"","retryable":false,"next_action":"","disposition":"accepted_unknown","message":""}`},
	} {
		got, err := json.Marshal(test.value)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, test.want)
		}
	}
}

func TestJSONBothWays(t *testing.T) {
	t.Parallel()
	for _, failure := range []failures.Failure{
		{Event: failures.ConnectionLost, InvocationID: strings.Repeat("a", 64)},
		{Step: failures.Receipt, Status: 404, HubCode: feedback.CodeInvocationNotFound, Dispatched: true},
	} {
		err := failures.New(failure)
		data, _ := json.Marshal(err)
		var read feedback.Error
		if e := json.Unmarshal(data, &read); e != nil || read.Feedback != err.Feedback || read.StatusCode != err.StatusCode {
			t.Errorf("%v: %+v", e, read)
		}
		data, _ = json.Marshal(err.Feedback)
		var object feedback.Feedback
		if e := json.Unmarshal(data, &object); e != nil || object != err.Feedback {
			t.Errorf("%v: %+v", e, object)
		}
	}
	for _, bad := range []string{`{}`, `null`, `{"schema":"bailing.agent-feedback.v2"}`, `{"schema":1}`} {
		kept := feedback.Feedback{Code: "kept"}
		failed := feedback.Error{StatusCode: 7}
		if json.Unmarshal([]byte(bad), &kept) == nil || kept.Code != "kept" {
			t.Errorf("%s was taken for feedback", bad)
		}
		if json.Unmarshal([]byte(bad), &failed) == nil || failed.StatusCode != 7 {
			t.Errorf("%s was taken for an error", bad)
		}
	}
}
