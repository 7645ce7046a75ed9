// Package journal keeps the operations of an agent host: each is on the disk before it is
// sent. So the host can ask what became of the operation even after its process was killed.
//
//	operations, err := journal.OpenFile("operations.jsonl")
//	if err != nil {
//		return err
//	}
//	defer operations.Close()
//
//	// When a model asks for an operation.
//	entry, err := journal.Begin(ctx, operations, transport, journal.Call{CallID: callID, ConnectionKey: key, Tool: tool, About: about})
//	if errors.Is(err, journal.ErrExists) {
//		return tell(entry) // this call was begun before: send nothing again
//	}
//	if err != nil {
//		return err // the operation was not kept, so do not send it
//	}
//	// … send it, once, under entry.Original …
//
//	// When the host starts; Keep does it again and again, in the background.
//	for entry, err := range journal.Reopen(ctx, operations, transport) {
//		if err != nil {
//			return err
//		}
//		tell(entry)
//	}
//
// An operation is open until evidence settles it or a person gives it up. A missing answer,
// a lost connection or the passing of time never closes one. Every operation in the journal
// may have been sent, so none is ever sent again.
//
// [File] keeps a journal in a file, for one process. [Journal] is the interface
// for other places; package journaltest has the suite that each must pass.
package journal
