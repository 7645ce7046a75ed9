// Package feedback says what a failed inspection means and what the host may
// do about it.
//
// Every error of an inspection is an [*Error]. It carries a [Feedback], the
// structured object that a host may pass on to its own log or to a person, and
// the HTTP status of the answer that decided:
//
//	observed, err := transport.InspectInvocation(ctx, original)
//	var failure *feedback.Error
//	if errors.As(err, &failure) {
//		log.Printf("%s (%s)", feedback.CodeOf(err), feedback.CategoryOf(err))
//		switch failure.Feedback.NextAction {
//		case feedback.NextInspectOriginal:
//			// Retryable: ask the same question again, not before RetryAfter
//			// and with a backoff. Not Retryable: ask an operator to look at
//			// the evidence.
//		case feedback.NextRestoreScope:
//			// Bring the original connection back first.
//		case feedback.NextReauthorize:
//			// A person has to restore the original access.
//		}
//	}
//
// Nothing in this package ever allows an operation to be sent again. Dispatch
// and Retryable describe the question and its next action, never the operation.
// A model that is shown these two fields alone may take them for the operation's
// own: show it the message.
//
// The README has the table of all failures and what each means. In the code it
// is internal/failures/table.go.
package feedback
