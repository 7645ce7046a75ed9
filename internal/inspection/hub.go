package inspection

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// How many bytes the two answers may have (contract, sections 2 and 3).
const (
	capabilitiesLimit = 64 << 10
	receiptLimit      = 1 << 20
)

// Hub asks a BailingHub about the operations of one workspace, and remembers its
// negotiation. It is safe for concurrent use.
type Hub struct {
	server    Server
	workspace string
	// negotiated is when the last good negotiation was; nil without one, and
	// after Forget.
	negotiated atomic.Pointer[time.Time]
}

// NewHub gives the Hub that client reaches.
func NewHub(client *boundary.Client, workspace string, settings boundary.Settings) *Hub {
	return &Hub{
		server: Server{
			Name:     "the Hub",
			Again:    HubAgain,
			Client:   client,
			Settings: settings,
			Code:     hubCode,
		},
		workspace: workspace,
	}
}

// HubAgain ends the message of a failure after which a Hub can be asked again.
const HubAgain = "The original can be inspected again."

// Begin begins an inspection, or a negotiation where invocationID is empty; see
// [Server.Begin].
func (h *Hub) Begin(ctx context.Context, invocationID string, guard Guard) (*Inspection, error) {
	var server *Server
	if h != nil {
		server = &h.server
	}
	return server.Begin(ctx, Subject{InvocationID: invocationID}, guard)
}

// Negotiate asks whether the Hub offers the inspection contract that this SDK
// reads.
func (h *Hub) Negotiate(i *Inspection) (receipt.Capabilities, error) {
	answer, err := i.Ask(Question{Step: failures.Negotiation, Path: boundary.CapabilitiesPath, Limit: capabilitiesLimit})
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
	h.negotiated.Store(&now)
	return capabilities, nil
}

// Inspect reads the receipt of an invocation. It negotiates first, unless an earlier
// negotiation is still valid.
func (h *Hub) Inspect(i *Inspection, invocationID string) (*receipt.Receipt, error) {
	if !h.isNegotiated() {
		if _, err := h.Negotiate(i); err != nil {
			return nil, err
		}
	}
	answer, err := i.Ask(Question{Step: failures.Receipt, Path: boundary.ReceiptPath(invocationID), Limit: receiptLimit})
	if err != nil {
		return nil, err
	}
	if answer.Unusable {
		return nil, i.Failure(failures.Failure{Event: failures.BadBody, Step: failures.Receipt, Status: answer.Status})
	}
	observed, err := receipt.Parse(answer.Body, receipt.Want{InvocationID: invocationID, Workspace: h.workspace})
	if err != nil {
		return nil, i.Refused(err, answer.Status)
	}
	return observed, nil
}

func (h *Hub) isNegotiated() bool {
	last := h.negotiated.Load()
	return last != nil && time.Since(*last) < h.server.Settings.NegotiationReuse
}

// Forget makes the next inspection negotiate again. It is called after a failure, which
// may mean that the Hub has changed.
func (h *Hub) Forget() { h.negotiated.Store(nil) }

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
