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
package host
