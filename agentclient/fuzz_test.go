package agentclient_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// FuzzErrorBody answers with any status and body. Whatever comes, the failure
// is of the SDK's own words and vocabulary, and its code is the Hub's only where
// the contract has it.
func FuzzErrorBody(f *testing.F) {
	for _, body := range []string{
		`{"error":"invocation_not_found"}`, `{"error":"hub_paused","message":"m"}`, `{"Error":"hub_paused"}`, `{"error":"hub_paused","error":"hub_paused"}`,
		`{"error":null}`, `{"error":{"error":"hub_paused"}}`, `[{"error":"hub_paused"}]`, "\ufeff{}", `{"error":"\ud800"}`, `{"error":"TASK_PAUSED"} x`, "", "<html>",
	} {
		for _, status := range []int{200, 204, 302, 400, 401, 403, 404, 409, 500, 503} {
			f.Add(status, []byte(body))
		}
	}
	known := []feedback.Code{
		feedback.CodeAgentRequestTimeout, feedback.CodeAgentAuthorizationUnavailable, feedback.CodeAgentTransportUnavailable, feedback.CodeAgentSchemaUnsupported,
		feedback.CodeAgentInvalidResponse, feedback.CodeUnknownFailure, feedback.CodeInvalidRequest, feedback.CodeInvocationNotFound, feedback.CodeInvocationRecordInvalid,
		feedback.CodeInvocationConflict, feedback.CodeAgentRunConflict, feedback.CodeTaskDispatchUncertain, feedback.CodeRouteNotAllowed, feedback.CodeAudienceNotAllowed,
		feedback.CodeAgentDirectDisabled, feedback.CodeAgentClientDisabled, feedback.CodeCapabilityChanged, feedback.CodeInvalidRoute, feedback.CodeRouteUnavailable,
		feedback.CodeHubPaused, feedback.CodeAgentToolsUnavailable, feedback.CodeAgentRuntimeUnavailable, feedback.CodeTaskUnsupported, feedback.CodeTaskUnavailable,
		feedback.CodeTaskInvalidInput, feedback.CodeTaskRequired, feedback.CodeTaskScopeBlocked, feedback.CodeTaskMemberMismatch, feedback.CodeTaskBindingConflict,
		feedback.CodeTaskPaused, feedback.CodeTaskCancelled, feedback.CodeTaskExpired, feedback.CodeTaskWriteBudgetExhausted, feedback.CodeTaskConcurrencyExhausted,
		feedback.CodeTaskToolNotAllowed, feedback.CodeTaskRevisionConflict, feedback.CodeTaskRecordInvalid, feedback.CodeTaskNotFound, feedback.CodeTaskRunInactive,
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 100 || status > 999 {
			return
		}
		w := &wire{answer: then(func(*http.Request) (*http.Response, error) { return respond(status, string(body)), nil })}
		observed, err := newClient(t, w, agentclient.WithMaxRetries(0)).InspectInvocation(t.Context(), invocationID)
		if err == nil {
			if status != 200 || observed.InvocationID != invocationID {
				t.Fatalf("status %d was taken for a receipt", status)
			}
			return
		}
		failure := failureOf(t, err)
		if observed != nil || !slices.Contains(known, failure.Feedback.Code) || failure.StatusCode != status {
			t.Fatalf("%d %q: %v", status, body, failure)
		}
		if len(body) > 60 && strings.Contains(failure.Feedback.Message, string(body)) {
			t.Fatalf("the body is in the message: %s", failure)
		}
	})
}
