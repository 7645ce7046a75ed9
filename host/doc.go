// Package host answers an agent host's one question about an operation that it
// sent: how far did it get?
//
// The host keeps, with each operation, what [Transport.Capture] gave before it
// was sent. After a lost connection, a restart or an approval that nobody
// watched, it asks:
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
// [Transport.InspectInvocations] asks about many at once,
// [Transport.WatchInvocation] about one until it is settled, and
// [Transport.WatchInvocations] about many until all are. [Explain] says for a
// model or a screen what came of it. Package journal keeps the operations.
//
// The asking never runs, approves, resumes or repeats anything. It happens
// under the original authorization or not at all: the connection and its
// session are compared with the original ones before and after every request,
// and whatever else the registry holds plays no part. Tokens are renewed as
// the registry's contract has it, once for everybody. What a Hub gave and the
// store cannot save is kept until it can: end a transport with [Transport.Close],
// whose error says what it could not save.
package host
