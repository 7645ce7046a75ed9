package feedback_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bailinghub/bailinghub-go/feedback"
)

// refused stands for what an inspection returned.
var refused error = &feedback.Error{
	Feedback: feedback.Feedback{
		Category:   feedback.CategoryInvocationOutcomeUnknown,
		Code:       feedback.CodeInvocationNotFound,
		Origin:     feedback.OriginCore,
		Operation:  feedback.OperationInspect,
		Dispatch:   feedback.DispatchAttempted,
		NextAction: feedback.NextInspectOriginal,
		Message:    "The Hub has no verifiable evidence of this invocation under this authorization.",
	},
	StatusCode: 404,
}

func ExampleCodeOf() {
	err := fmt.Errorf("order 17: %w", refused)
	fmt.Println(feedback.CodeOf(err))
	fmt.Println(feedback.CategoryOf(err))
	// Output:
	// invocation_not_found
	// invocation_outcome_unknown
}

func ExampleCategoryOf() {
	switch feedback.CategoryOf(refused) {
	case feedback.CategoryTransportUnavailable:
		fmt.Println("ask again later")
	case feedback.CategoryInvocationOutcomeUnknown:
		fmt.Println("keep the id; the outcome is not known")
	}
	// Output: keep the id; the outcome is not known
}

func ExampleError() {
	var failure *feedback.Error
	if errors.As(refused, &failure) {
		fmt.Println(failure.StatusCode, failure.Feedback.NextAction, failure.Feedback.Retryable)
	}
	if errors.Is(refused, feedback.CodeInvocationNotFound) {
		fmt.Println("no evidence is not proof of absence")
	}
	// Output:
	// 404 inspect_original false
	// no evidence is not proof of absence
}

func ExampleFeedback_MarshalJSON() {
	var failure *feedback.Error
	errors.As(refused, &failure)
	shown := failure.Feedback
	shown.Message = "…"
	wire, _ := json.MarshalIndent(shown, "", "  ")
	fmt.Println(string(wire))
	// Output:
	// {
	//   "schema": "bailing.agent-feedback.v1",
	//   "category": "invocation_outcome_unknown",
	//   "code": "invocation_not_found",
	//   "origin": "core",
	//   "operation": "inspect",
	//   "dispatch": "attempted",
	//   "retryable": false,
	//   "next_action": "inspect_original",
	//   "message": "…"
	// }
}
