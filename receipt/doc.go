// Package receipt holds what a Hub observed of an original invocation, and
// what may be concluded from it.
//
// A receipt is evidence: the stored result, where it comes from, whether the
// operation was dispatched, its approval and the journal of its dispatch.
// Reading a receipt has no effect on the operation. [Parse] accepts a body only
// where every rule of the contract holds. [Receipt.Progress] says how far the
// operation got, and never claims more than the weakest part of the evidence
// does:
//
//	observed, err := receipt.Parse(body, receipt.Want{InvocationID: id, Workspace: workspace})
//	if err != nil {
//		return err // a *feedback.Error: nothing may be concluded
//	}
//	fmt.Println(observed.Progress().Sentence())
//	if !observed.Settled() {
//		// Inspect it again later, under the same invocation id.
//	}
//	if observed.Result != nil {
//		fmt.Println(receipt.Printable(observed.Result.Text)) // untrusted text
//	}
//
// The package uses no network: agentclient fetches receipts, and host checks the
// authorization before and after that.
package receipt
