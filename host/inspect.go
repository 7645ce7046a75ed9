package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// inspect does one inspection: the low-level client's requests, and a look at
// what the host recorded.
func (s *session) inspect(caller context.Context, client *agentclient.BailingHubAgentClient, had *progress, original Original) (*receipt.Receipt, error) {
	return checked(s, caller, had, original.InvocationID, func(ctx context.Context) (*receipt.Receipt, error) {
		observed, err := client.InspectInvocation(ctx, original.InvocationID)
		if err != nil {
			return nil, err
		}
		if original.Tool != "" && observed.Tool != original.Tool ||
			original.AgentRunID != "" && observed.AgentRunID != original.AgentRunID {
			return nil, failures.New(failures.Failure{
				Event: failures.BadBody, Step: failures.Receipt, Status: http.StatusOK,
				InvocationID: original.InvocationID, Dispatched: true,
				Message: "The receipt is not of the tool or run that the host recorded for this invocation, so no answer is given. What became of the operation is not known.",
			})
		}
		return observed, nil
	})
}

// checked is askWithChecks, whose error says as well where the session is not
// saved.
func checked[T any](s *session, caller context.Context, had *progress, invocationID string, ask func(context.Context) (T, error)) (T, error) {
	answer, err := askWithChecks(s, caller, had, invocationID, ask)
	if err != nil {
		return answer, s.noted(err)
	}
	return answer, nil
}

// askWithChecks asks within the time limit, with a check in TokenContext before
// each request and a check after the answer. No answer is given past a check
// that failed.
func askWithChecks[T any](s *session, caller context.Context, had *progress, invocationID string, ask func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(caller, s.transport.settings.Timeout)
	defer cancel()
	answer, err := ask(context.WithValue(ctx, progressKey{}, had))
	had.answered = time.Now()
	dispatched := true
	failure, ok := errors.AsType[*feedback.Error](err)
	if ok {
		dispatched = failure.Feedback.Dispatch == feedback.DispatchAttempted
	}
	failed := func(failure failures.Failure) (T, error) {
		if ctx.Err() != nil {
			failure = failures.EndedDuring(caller, had.stage())
		}
		failure.InvocationID, failure.Dispatched = invocationID, dispatched
		return none, failures.New(failure)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		if had.stage() == "" && ok && isEnd(failure) {
			return none, err // the client says what it waited for
		}
		return failed(failures.Failure{})
	case !had.entered.Load(): // there was no answer, and the check at entry says why
		return none, err
	}
	_, changed := s.checkAfter(ctx, had)
	switch {
	case changed != nil:
		had.withheld = failure
		return failed(s.failure(changed))
	case err != nil:
		return none, err
	}
	return answer, nil
}

// isEnd reports the failure of a context or a time limit that ended.
func isEnd(failure *feedback.Error) bool {
	return failure.Feedback.Code == feedback.CodeAgentRequestTimeout || failure.Feedback.Code == feedback.CodeAgentRequestCancelled
}

// checkAfter is check for a caller that must not be held up by its store. Where
// the store never waits there is no need of another goroutine.
func (s *session) checkAfter(ctx context.Context, had *progress) (registry.Credentials, error) {
	if s.transport.prompt {
		return s.check(ctx, had)
	}
	return await.Do(ctx, func(ctx context.Context) (registry.Credentials, error) { return s.check(ctx, had) })
}
