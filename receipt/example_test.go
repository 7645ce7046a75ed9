package receipt_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	exampleID   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	exampleBody = `{
	"schema_version": "bailing.agent-invocation-receipt.v1",
	"read_only": true,
	"business_operation_performed": false,
	"invocation_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	"agent_run_id": "22222222-2222-4222-8222-222222222222",
	"route": "catalog-agent",
	"tool": "product_update",
	"observed_at": "2026-09-15T00:00:00Z",
	"result": null,
	"result_source": "none",
	"dispatch_state": "not_dispatched",
	"approval": {"status": "approved", "approval_id": 1},
	"journal_state": "absent"
}`
)

func ExampleParse() {
	observed, err := receipt.Parse([]byte(exampleBody), receipt.Want{InvocationID: exampleID, Workspace: "catalog-agent"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(observed.Tool, "at", observed.ObservedAt)
	fmt.Println("approval:", observed.Approval.Status, observed.Approval.ID)
	fmt.Println("dispatch:", observed.DispatchState)
	// Output:
	// product_update at 2026-09-15 00:00:00 +0000 UTC
	// approval: approved 1
	// dispatch: not_dispatched
}

func ExampleParse_refused() {
	_, err := receipt.Parse([]byte(exampleBody), receipt.Want{InvocationID: exampleID, Workspace: "another-workspace"})
	var failure *feedback.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Feedback.Code)
		fmt.Println(failure.Feedback.Message)
	}
	// Output:
	// agent_invalid_response
	// The receipt was refused and must not be presented as a result: it is of another workspace, because its route is not that of the original.
}

func ExampleReceipt_Progress() {
	observed, err := receipt.Parse([]byte(exampleBody), receipt.Want{InvocationID: exampleID, Workspace: "catalog-agent"})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch observed.Progress() {
	case receipt.ProgressExecuted, receipt.ProgressBusinessRejected:
		fmt.Println("report the result")
	case receipt.ProgressApprovedNotDispatched:
		fmt.Println("approved, and not carried out for that")
	default:
		fmt.Println(observed.Progress().Sentence())
	}
	// Output: approved, and not carried out for that
}

func ExampleReceipt_Settled() {
	observed, err := receipt.Parse([]byte(exampleBody), receipt.Want{InvocationID: exampleID, Workspace: "catalog-agent"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if !observed.Settled() {
		fmt.Println("look later, under the same invocation id")
	}
	// Output: look later, under the same invocation id
}

func ExampleProgress_Sentence() {
	fmt.Println(receipt.ProgressApprovedNotDispatched.Sentence())
	fmt.Println(receipt.ProgressNoEvidence.Sentence())
	// Output:
	// The operation is approved, and by the evidence it has not been dispatched; approval alone does not carry it out.
	// The Hub's record has neither a result nor an approval; that does not tell what became of the operation.
}

func ExampleReceipt_Feedback() {
	observed := &receipt.Receipt{
		InvocationID: exampleID,
		Result:       &receipt.Result{State: receipt.StateReconciliationRequired},
	}
	if account, unresolved := observed.Feedback(); unresolved {
		fmt.Println(account.Code, account.Disposition, account.NextAction)
	}
	// Output: reconciliation_required accepted_unknown inspect_original
}

func ExampleReceipt_MarshalJSON() {
	observed, err := receipt.Parse([]byte(exampleBody), receipt.Want{InvocationID: exampleID, Workspace: "catalog-agent"})
	if err != nil {
		fmt.Println(err)
		return
	}
	wire, err := json.Marshal(observed)
	if err != nil {
		fmt.Println(err)
		return
	}
	var again receipt.Receipt
	fmt.Println(json.Unmarshal(wire, &again), again.ObservedAt.Equal(observed.ObservedAt))

	_, err = json.Marshal(receipt.Receipt{}) // not a receipt of anything
	fmt.Println(err != nil)
	// Output:
	// <nil> true
	// true
}

func ExampleParseCapabilities() {
	offered, err := receipt.ParseCapabilities([]byte(`{
		"schema_version": "bailing.agent-invocation-inspection-capabilities.v1",
		"receipt_schema": "bailing.agent-invocation-receipt.v1",
		"read_only": true
	}`))
	fmt.Println(offered.ReceiptSchema, err)

	_, err = receipt.ParseCapabilities([]byte(`<!doctype html>`)) // an old Hub behind a web page
	fmt.Println(feedback.CodeOf(err))
	// Output:
	// bailing.agent-invocation-receipt.v1 <nil>
	// agent_schema_unsupported
}

func ExamplePrintable() {
	fmt.Println(receipt.Printable("订单已更新 ✅\n\x1b[2K\u202egpj.exe"))
	// Output: 订单已更新 ✅\n\x1b[2K\u202egpj.exe
}
