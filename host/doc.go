// Package host answers an agent host's one question about an operation that it
// sent: how far did it get?
//
// Before the host sends an operation, it calls [Transport.Capture] and keeps the result
// with the operation. After a lost connection, after a restart, or when an approval is
// pending, it asks:
//
//	transport, err := host.New(store)
//	if err != nil {
//		return err
//	}
//	// Before the operation is sent; keep it with the operation.
//	original, err := transport.Capture(ctx, connectionKey, invocationID)
//	if err != nil {
//		return err
//	}
//	// … the connection drops, the process restarts …
//	observed, err := transport.InspectInvocation(ctx, original)
//	if err != nil {
//		return err // always a *feedback.Error
//	}
//	fmt.Println(observed.Progress().Sentence())
//
// [Transport.InspectInvocations] asks about many operations at once,
// [Transport.WatchInvocation] about one until it is settled, and
// [Transport.WatchInvocations] about many until all of them are settled. [Explain] puts
// an answer into plain words for a model or a screen. Package journal keeps the
// operations of a host.
//
// An inspection never runs, approves, resumes or repeats an operation. It uses the
// original authorization or fails: it compares the connection and its session with the
// original ones before and after every request, and never uses another entry of the
// registry. All inspections share one refresh of a session. Where the store cannot save
// the new tokens, the transport keeps them and tries again: end a transport with
// [Transport.Close], whose error says which sessions it could not save.
//
// # Glossary
//
//   - Hub: the BailingHub that operations are sent to and asked about.
//   - Business system: the system behind the Hub that carries an operation out.
//   - Operation: what an agent wanted done in a business system. Invocation is the Hub's
//     word for one operation, which its invocation id identifies.
//   - Workspace: the part of a Hub that an operation is sent to. The Hub calls it a route.
//   - Connection: a client app and a workspace of a Hub, as an entry of the registry.
//   - Session: the agent session that a login makes at the Hub. It ends 30 days later.
//   - Credentials: a session with its access token and its refresh token.
//   - Binding: the Hub, client app, workspace and session that an operation was sent under.
//   - Original: a host's own record of an operation: its invocation id and its binding.
//   - Inspection: asking the Hub about one original. It reads, and changes nothing.
//   - Negotiation: the first request of an inspection: does this Hub offer the contract?
//   - Receipt: the Hub's answer to an inspection: the evidence of one operation.
//   - Progress: how far the operation got, by the weakest part of the evidence.
//   - Settled: no later inspection is expected to change the progress.
//   - Dispatch: handing an operation to the business system.
//   - Guard: the code that checks the binding before and after each request.
//   - Refresh: exchanging a refresh token for new tokens. Rotation is their replacement.
//   - Flight: one refresh that all inspections of a session share.
//   - Lane: the part of a batch that belongs to one binding.
//   - Lease: the right of one process to refresh a session in a database, for a while.
package host
