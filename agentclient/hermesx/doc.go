// Package hermesx reads the execution receipts and audit logs of a HermesX
// server: which tools ran for an agent, with what, and how they ended.
//
//	client, err := hermesx.New(hermesx.Config{
//		BaseURL:     "https://hermesx.example.com",
//		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: key}),
//	})
//	if err != nil {
//		return err
//	}
//	for execution, err := range client.AllReceipts(ctx, hermesx.ReceiptQuery{SessionID: session}) {
//		if err != nil {
//			return err // always a *feedback.Error
//		}
//		fmt.Println(execution.CreatedAt, receipt.Printable(execution.ToolName), execution.Status)
//	}
//
// An audit log tells that a request was made to the server's API. A receipt
// tells that a tool was run, in which session and for which user, with what
// went in, what came out and how long it took. [Client.Correlate] puts the two
// together as far as the records do.
//
// # A list that is whole
//
// [Client.AllReceipts] and [Client.AllAuditLogs] give every row once and prove
// that none is missing, or end with [ErrIncomplete]; how is said at the type
// reading. They stay below the server's rate limit, which all keys of a tenant
// share, and outlast restarts: a long list takes its time ([WithProgress]). An
// error of theirs has a Cursor that a later query goes on from.
//
// # What a receipt does not say
//
// A receipt that is missing does not mean that the tool did not run: a server
// runs the tool first and stores the receipt afterwards, and answers that there
// is none while its database is down. One idempotency key has one receipt, and
// the first one is authoritative: whoever meets it again with another input has
// met the same side effect. That there is none is no permission to run anything
// again. See the example of [Client.AllReceipts].
//
// # Safety
//
// The package reads and can do nothing else: beneath everything that could
// send, a round tripper refuses each request that is not one of the three
// reads. It follows no redirect, sets the key on the server's own origin alone,
// and reads bounded answers. Nothing that a server says gets into an error's
// text; the server's name for a request does get into
// [feedback.Error.RequestID] and into what was read, so that the reading can be
// found in the audit log. Each request is sent with a random X-Request-Id of
// its own.
//
// What a receipt or an audit entry holds are texts of tools, users and callers:
// untrusted data. Print them through receipt.Printable of this SDK.
package hermesx
