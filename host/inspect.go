package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// inspect makes one inspection with a guard: it sends the requests of the engine, compares
// the receipt with what the host recorded, and lets the guard check after the answer.
func inspect(ctx context.Context, hub *inspection.Hub, g *guard, original Original) (*receipt.Receipt, error) {
	return guarded(ctx, hub, g, original.InvocationID, func(i *inspection.Inspection) (*receipt.Receipt, error) {
		observed, err := hub.Inspect(i, original.InvocationID)
		if err != nil {
			return nil, err
		}
		if original.Tool != "" && observed.Tool != original.Tool ||
			original.AgentRunID != "" && observed.AgentRunID != original.AgentRunID {
			return nil, i.Failure(failures.Failure{
				Event: failures.BadBody, Step: failures.Receipt, Status: http.StatusOK,
				Message: "The receipt is not of the tool or run that the host recorded for this invocation, so no answer is given. What became of the operation is not known.",
			})
		}
		return observed, nil
	})
}

// negotiate makes a negotiation alone, with a guard.
func negotiate(ctx context.Context, hub *inspection.Hub, g *guard) error {
	_, err := guarded(ctx, hub, g, "", hub.Negotiate)
	return err
}

// guarded calls ask with a guard, and gives its answer only where the check of the guard
// after it succeeds. Where the session is not saved, the error says that as well.
func guarded[T any](ctx context.Context, hub *inspection.Hub, g *guard, invocationID string, ask func(*inspection.Inspection) (T, error)) (T, error) {
	var none T
	i, err := hub.Begin(ctx, invocationID, g)
	if err != nil {
		return none, err
	}
	defer i.End()
	answer, err := ask(i)
	g.answered = time.Now()
	if err = g.confirm(i, err); err != nil {
		return none, g.session.noted(err)
	}
	return answer, nil
}

// confirm checks the binding after an answer, or after the failure err. A changed binding
// and the end of the inspection are returned in place of err.
func (g *guard) confirm(i *inspection.Inspection, err error) error {
	failure, _ := errors.AsType[*feedback.Error](err)
	switch {
	case err != nil && i.Ended():
		if isEnd(failure) {
			return err
		}
		return i.Failure(failures.Failure{})
	case !g.entered.Load(): // nothing was sent, and err is that of the first check
		return err
	}
	if changed := i.WithGuard(g.checkAfter); changed != nil {
		g.suppressed = failure
		return i.Failure(g.session.failure(changed))
	}
	return err
}

// isEnd reports whether a failure is that of a context or a time limit that ended.
func isEnd(failure *feedback.Error) bool {
	return failure.Feedback.Code == feedback.CodeAgentRequestTimeout || failure.Feedback.Code == feedback.CodeAgentRequestCancelled
}
