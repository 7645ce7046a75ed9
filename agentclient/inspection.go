package agentclient

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/agentclient/internal/inspection"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	capabilitiesLimit = 64 << 10
	receiptLimit      = 1 << 20
)

func (c *BailingHubAgentClient) inspect(i *inspection.Inspection, invocationID string) (*receipt.Receipt, error) {
	if !c.mayReuseNegotiation() {
		if _, err := c.negotiate(i); err != nil {
			return nil, err
		}
	}
	answer, err := i.Ask(inspection.Question{Step: failures.Receipt, Path: boundary.ReceiptPath(invocationID), Limit: receiptLimit})
	if err != nil {
		return nil, err
	}
	if answer.Unusable {
		return nil, i.Failure(failures.Failure{Event: failures.BadBody, Step: failures.Receipt, Status: answer.Status})
	}
	observed, err := receipt.Parse(answer.Body, receipt.Want{InvocationID: invocationID, Workspace: c.workspace})
	if err != nil {
		return nil, i.Refused(err, answer.Status)
	}
	return observed, nil
}

func (c *BailingHubAgentClient) negotiate(i *inspection.Inspection) (receipt.Capabilities, error) {
	answer, err := i.Ask(inspection.Question{Step: failures.Negotiation, Path: boundary.CapabilitiesPath, Limit: capabilitiesLimit})
	if err != nil {
		return receipt.Capabilities{}, err
	}
	if answer.Unusable {
		return receipt.Capabilities{}, i.Failure(failures.Failure{Event: failures.BadBody, Step: failures.Negotiation, Status: answer.Status})
	}
	capabilities, err := receipt.ParseCapabilities(answer.Body)
	if err != nil {
		return receipt.Capabilities{}, i.Refused(err, answer.Status)
	}
	now := time.Now()
	c.negotiated.Store(&now)
	return capabilities, nil
}

func (c *BailingHubAgentClient) mayReuseNegotiation() bool {
	last := c.negotiated.Load()
	return last != nil && time.Since(*last) < c.hub.Settings.NegotiationReuse
}

// remember forgets the negotiation after any failure. A facade that has its own
// reasons to negotiate again keeps it after one that speaks of one invocation.
func (c *BailingHubAgentClient) remember(err error) error {
	failure, ok := errors.AsType[*feedback.Error](err)
	keep := ok && c.hub.Settings.Shared != nil && failure.OfOneInvocation()
	if err != nil && !keep {
		c.negotiated.Store(nil)
	}
	return err
}

// hubCode reads the code of an error body: the string member "error" of one
// strict JSON object (contract, section 4); "" where there is none.
func hubCode(answer *boundary.Answer) feedback.Code {
	var code string
	var ok bool
	err := strictjson.Object(answer.Body, func(name []byte, d *jsontext.Decoder) (err error) {
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
