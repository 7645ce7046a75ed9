package agentclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	capabilitiesLimit = 64 << 10
	receiptLimit      = 1 << 20
)

// inspection is one call of a client.
type inspection struct {
	client *BailingHubAgentClient
	id     string
	start  time.Time
	// caller is the caller's context, ctx the same within the time limit.
	caller, ctx context.Context
	cancel      context.CancelFunc

	retries    int           // what is left of them
	dispatched bool          // one of the two requests was handed to the network
	refreshes  int           // the forced ones that were asked for
	next       *oauth2.Token // what that gave, for the repeat alone
}

func (c *BailingHubAgentClient) begin(ctx context.Context, invocationID string) (*inspection, error) {
	switch {
	case ctx == nil:
		return nil, invalidFor(invocationID, "The context is nil.")
	case c.hub == nil:
		return nil, invalidFor(invocationID, "The client was not made by New.")
	}
	i := &inspection{client: c, id: invocationID, start: time.Now(), caller: ctx, retries: c.settings.MaxRetries}
	if c.settings.Shared != nil { // whose owner keeps the time limit
		i.ctx, i.cancel = ctx, func() {}
	} else {
		i.ctx, i.cancel = context.WithTimeout(ctx, c.settings.Timeout)
	}
	return i, nil
}

func (i *inspection) inspect() (*receipt.Receipt, error) {
	if !i.client.mayReuseNegotiation() {
		if _, err := i.negotiate(); err != nil {
			return nil, err
		}
	}
	answer, err := i.ask(feedback.Receipt, boundary.ReceiptPath(i.id), receiptLimit)
	if err != nil {
		return nil, err
	}
	if answer.Unusable {
		return nil, i.failure(feedback.Failure{Event: feedback.BadBody, Step: feedback.Receipt, Status: answer.Status})
	}
	observed, err := receipt.Parse(answer.Body, receipt.Want{InvocationID: i.id, Workspace: i.client.workspace})
	if err != nil {
		return nil, i.passOn(err, answer.Status)
	}
	return observed, nil
}

func (i *inspection) negotiate() (receipt.Capabilities, error) {
	answer, err := i.ask(feedback.Negotiation, boundary.CapabilitiesPath, capabilitiesLimit)
	if err != nil {
		return receipt.Capabilities{}, err
	}
	if answer.Unusable {
		return receipt.Capabilities{}, i.failure(feedback.Failure{Event: feedback.BadBody, Step: feedback.Negotiation, Status: answer.Status})
	}
	capabilities, err := receipt.ParseCapabilities(answer.Body)
	if err != nil {
		return receipt.Capabilities{}, i.passOn(err, answer.Status)
	}
	now := time.Now()
	i.client.negotiated.Store(&now)
	return capabilities, nil
}

func (c *BailingHubAgentClient) mayReuseNegotiation() bool {
	last := c.negotiated.Load()
	return last != nil && time.Since(*last) < c.settings.NegotiationReuse
}

// remember forgets the negotiation after any failure.
func (i *inspection) remember(err error) error {
	if err != nil {
		i.client.negotiated.Store(nil)
	}
	return err
}

// ask gives an answer of status 200, after one forced refresh where that
// helps.
func (i *inspection) ask(step feedback.Step, path string, limit int64) (*boundary.Answer, error) {
	var used *oauth2.Token
	request := boundary.Request{
		Method: http.MethodGet,
		Path:   path,
		Limit:  limit,
		Bearer: func(ctx context.Context) (token string, err error) {
			if used, i.next = i.next, nil; used == nil {
				if used, err = i.client.token(ctx); err != nil {
					return "", err
				}
			}
			return used.AccessToken, nil
		},
		Decisive: func(status int) bool { return feedback.Failure{Step: step, Status: status}.CodeDecides() },
		Again: func(answer *boundary.Answer) bool {
			return (answer == nil || answer.Status != http.StatusOK) && answered(step, answer).Repeated()
		},
		Retries: &i.retries,
		Sending: func() { i.dispatched = true },
		Repeating: func(answer *boundary.Answer, wait time.Duration) {
			again := feedback.NewError(answered(step, answer))
			boundary.LogRepeat(i.caller, i.client.settings.Logger, i.id, string(again.Feedback.Code), again.StatusCode, wait)
		},
	}
	answer, err := i.client.hub.Do(i.ctx, request)
	for err == nil && answer.Status == http.StatusUnauthorized && i.refreshes < i.client.maxRefreshes() {
		i.refreshes++
		var can bool
		if i.next, can, err = i.client.refresh(i.ctx, used); !can {
			break
		}
		if err == nil {
			answer, err = i.client.hub.Do(i.ctx, request)
		}
	}
	switch {
	case err != nil:
		return nil, i.passOn(err, 0)
	case answer.Status != http.StatusOK:
		return nil, i.failure(answered(step, answer))
	}
	return answer, nil
}

// answered is the failure that an answer other than 200, or none, stands for.
func answered(step feedback.Step, answer *boundary.Answer) feedback.Failure {
	if answer == nil {
		return feedback.Failure{Event: feedback.ConnectionLost, Step: step}
	}
	return feedback.Failure{Step: step, Status: answer.Status, HubCode: hubCode(answer.Body), RetryAfter: answer.RetryAfter}
}

// hubCode reads the code of an error body: the string member "error" of one
// strict JSON object (contract, section 4); "" where there is none.
func hubCode(body []byte) feedback.Code {
	var code string
	var ok bool
	err := strictjson.Object(body, func(name []byte, d *jsontext.Decoder) (err error) {
		if string(name) == "error" {
			code, ok, err = strictjson.String(d)
		}
		return err
	})
	if err != nil || !ok {
		return ""
	}
	return feedback.Code(code)
}

// failure gives the error of this inspection for what went wrong.
func (i *inspection) failure(f feedback.Failure) error {
	if i.ctx.Err() != nil {
		f = feedback.Ended(i.caller)
	}
	f.InvocationID, f.Dispatched = i.id, i.dispatched
	return feedback.NewError(f)
}

// passOn gives the error of this inspection for an error from below.
func (i *inspection) passOn(err error, status int) error {
	if known, ok := errors.AsType[*feedback.Error](err); ok && i.ctx.Err() == nil {
		passed := *known
		passed.Feedback.InvocationID = i.id
		passed.Feedback.Dispatch = feedback.DispatchNotDispatched
		if i.dispatched {
			passed.Feedback.Dispatch = feedback.DispatchAttempted
		}
		if status != 0 {
			passed.StatusCode = status
		}
		return &passed
	}
	if lost, ok := errors.AsType[*boundary.LostError](err); ok {
		return i.failure(feedback.Failure{Event: feedback.ConnectionLost, Message: lostMessage(lost), Causes: lost.Causes})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return i.failure(feedback.Failure{Event: feedback.TimedOut, Causes: []error{context.DeadlineExceeded}})
	}
	return i.failure(feedback.Failure{})
}

func lostMessage(lost *boundary.LostError) string {
	if lost.Reason == "" {
		return ""
	}
	return "No whole answer came from the Hub: " + lost.Reason + ". The original can be inspected again."
}

func logInspection(i *inspection, err error) {
	var code feedback.Code
	status := http.StatusOK
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		code, status = failure.Feedback.Code, failure.StatusCode
	}
	boundary.LogInspection(i.caller, i.client.settings.Logger, i.start, i.id, string(code), status)
}
