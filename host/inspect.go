package host

import (
	"context"
	"errors"
	"net/http"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// inspect does one inspection: the low-level client's requests, with a check in
// TokenContext before each, and a check after the answer.
func (s *session) inspect(caller context.Context, original Original) (*receipt.Receipt, error) {
	ctx, cancel := context.WithTimeout(caller, s.transport.settings.Timeout)
	defer cancel()
	// failed gives the error of this inspection, and ends the reuse of its
	// negotiation.
	failed := func(failure feedback.Failure, dispatched bool) (*receipt.Receipt, error) {
		s.client.Store(s.newClient())
		if ctx.Err() != nil {
			failure = feedback.Ended(caller)
		}
		failure.InvocationID, failure.Dispatched = original.InvocationID, dispatched
		return nil, feedback.NewError(failure)
	}

	had := &progress{}
	observed, err := s.client.Load().InspectInvocation(context.WithValue(ctx, progressKey{}, had), original.InvocationID)
	dispatched := true
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		dispatched = failure.Feedback.Dispatch == feedback.DispatchAttempted
	}
	if err != nil && ctx.Err() != nil {
		return failed(feedback.Failure{}, dispatched)
	}
	if !had.entered {
		return nil, err
	}
	_, changed := await.Do(ctx, func(ctx context.Context) (registry.Credentials, error) { return s.check(ctx, had) })
	switch {
	case changed != nil:
		return failed(s.failure(changed), dispatched)
	case err != nil:
		return nil, err
	}
	if original.Tool != "" && observed.Tool != original.Tool ||
		original.AgentRunID != "" && observed.AgentRunID != original.AgentRunID {
		return failed(feedback.Failure{
			Event: feedback.BadBody, Step: feedback.Receipt, Status: http.StatusOK,
			Message: "The receipt is not of the tool or run that the host recorded for this invocation. It was refused.",
		}, dispatched)
	}
	return observed, nil
}
