// Package feedback says what a failed inspection means and what the host may
// do about it.
//
// Every error of an inspection is an [*Error]. It carries a [Feedback], the
// structured object that a host may hand on to its own log or to a person, and the HTTP status that decided:
//
//	observed, err := transport.InspectInvocation(ctx, original)
//	var failure *feedback.Error
//	if errors.As(err, &failure) {
//		log.Printf("%s (%s)", feedback.CodeOf(err), feedback.CategoryOf(err))
//		switch failure.Feedback.NextAction {
//		case feedback.NextInspectOriginal:
//			// Retryable: ask the same question again, not before RetryAfter
//			// and with a backoff. Else have an operator look.
//		case feedback.NextRestoreScope:
//			// Bring the original connection back first.
//		case feedback.NextReauthorize:
//			// A person has to restore the original access.
//		}
//	}
//
// Nothing in this package ever allows an operation to be sent again. Dispatch
// and Retryable speak of the question and its next action, never of the
// operation: hand a model the message, not the bare members.
//
// Which failure means what is a table of the README. The code has it in
// internal/failures/table.go.
package feedback
