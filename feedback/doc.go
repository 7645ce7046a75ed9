// Package feedback says what a failed inspection means and what the host may
// do about it.
//
// Every error of an inspection is an [*Error]. It carries a [Feedback], the
// structured object that a host may hand on to its own log, to a person or to
// a model, and the HTTP status that decided:
//
//	observed, err := transport.InspectInvocation(ctx, original)
//	var failure *feedback.Error
//	switch {
//	case err == nil:
//		fmt.Println(observed.Progress().Sentence())
//	case errors.Is(err, feedback.CodeInvocationNotFound):
//		// No evidence. That is not proof that nothing happened.
//	case errors.As(err, &failure) && failure.Feedback.Retryable:
//		// The same question may be asked again, after failure.RetryAfter.
//	default:
//		log.Print(feedback.CodeOf(err), feedback.CategoryOf(err))
//	}
//
// Nothing in this package ever allows an operation to be sent again. Retryable
// speaks of the next action alone, and the next action of a lost answer is to
// ask about the original invocation once more.
//
// Which failure means what stands as a table in failures.go.
package feedback
