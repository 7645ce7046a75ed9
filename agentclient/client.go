package agentclient

import (
	"context"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
	"github.com/bailinghub/bailinghub-go/internal/nilcheck"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// Config is what a client is bound to for its lifetime.
type Config struct {
	// HubURL is the original Hub: https, or http to localhost, 127.0.0.1 or
	// [::1]. A path prefix is kept. Required.
	HubURL string
	// Workspace is the one that the operation was sent to; the Hub calls it
	// route. A receipt of another one is refused. Required.
	Workspace string
	// TokenSource gives the access tokens of the original session. See
	// [ContextTokenSource] and [Refresher] for what it may do besides. A token
	// that is not a Bearer token is refused, and one whose expiry has passed is
	// not sent. Required.
	//
	// An error of the source ends the inspection, and its text goes no further.
	// A network error, an oauth2.RetrieveError with 408, 425, 429 or 5xx, and a
	// [*feedback.Error] of [feedback.CategoryTransportUnavailable] mean that it
	// cannot be asked now ([feedback.CodeAgentTransportUnavailable]); any other
	// error means that there is no login
	// ([feedback.CodeAgentAuthorizationUnavailable]).
	TokenSource oauth2.TokenSource
	// AllowInsecureHTTP allows plain http to any host. The token can then be
	// read on the way.
	AllowInsecureHTTP bool
}

// BailingHubAgentClient reads the evidence that one Hub keeps, under one
// authorization. It is safe for concurrent use and does not change after
// [New], save for what [WithNegotiationReuse] remembers.
type BailingHubAgentClient struct {
	transport *boundary.Transport
	hub       *inspection.Hub
	tokens    *inspection.TokenSource
}

// New checks everything and gives a client. Its errors match
// [feedback.CodeInvalidRequest] and name what is wrong without repeating it.
func New(cfg Config, opts ...Option) (*BailingHubAgentClient, error) {
	settings, err := boundary.Apply(opts)
	if err != nil {
		return nil, inspection.InvalidOption(err)
	}
	hubURL, err := huburl.Normalize(cfg.HubURL, cfg.AllowInsecureHTTP)
	if err != nil {
		return nil, invalid("Config.HubURL " + err.Error() + ".")
	}
	if !identifier.Workspace(cfg.Workspace) {
		return nil, invalid("Config.Workspace must be 2 to 64 of a-z, 0-9, _ and -, the first a letter or digit, and not auto.")
	}
	if nilcheck.IsNil(cfg.TokenSource) {
		return nil, invalid("Config.TokenSource is missing.")
	}
	transport := boundary.NewTransport(settings)
	client, err := boundary.NewClient(transport, hubURL, boundary.HubRequests)
	if err != nil {
		return nil, invalid("Config.HubURL cannot be sent to.")
	}
	return &BailingHubAgentClient{
		transport: transport,
		hub:       inspection.NewHub(client, cfg.Workspace, settings),
		tokens:    inspection.NewTokenSource(cfg.TokenSource, inspection.HubAgain),
	}, nil
}

// InvocationInspectionCapabilities negotiates: it asks whether this Hub offers
// the inspection contract that this SDK reads. Every inspection does that by
// itself.
//
// Every error is a [*feedback.Error]; a Hub without the contract is
// [feedback.CodeAgentSchemaUnsupported]. The time limit and the repeats are
// those of an inspection.
func (c *BailingHubAgentClient) InvocationInspectionCapabilities(ctx context.Context) (receipt.Capabilities, error) {
	i, err := c.hub.Begin(ctx, "", c.tokens.Guard())
	if err != nil {
		return receipt.Capabilities{}, err
	}
	defer i.End()
	capabilities, err := c.hub.Negotiate(i)
	if err != nil {
		c.hub.Forget()
	}
	return capabilities, err
}

// InspectInvocation reads the receipt of an original invocation: what the Hub
// knows of it now. It negotiates first. It runs, approves, resumes and repeats
// nothing, and may be called as often as wanted.
//
// The id is 64 lower-case hexadecimal digits. Every error is a
// [*feedback.Error], and none of them, whatever its code, is evidence that the
// operation did not happen. A
// receipt that is not of this invocation and of the client's workspace is
// refused.
func (c *BailingHubAgentClient) InspectInvocation(ctx context.Context, invocationID string) (*receipt.Receipt, error) {
	if !identifier.InvocationID(invocationID) {
		return nil, invalid("The invocation id must be 64 lower-case hexadecimal digits.")
	}
	i, err := c.hub.Begin(ctx, invocationID, c.tokens.Guard())
	if err != nil {
		return nil, err
	}
	defer i.End()
	observed, err := c.hub.Inspect(i, invocationID)
	if err != nil {
		c.hub.Forget() // any failure ends the reuse of a negotiation
	}
	i.Log(err)
	return observed, err
}

// CloseIdleConnections closes the idle connections of the client's own
// transport. That of a borrowed HTTP client is its owner's to close.
func (c *BailingHubAgentClient) CloseIdleConnections() { c.transport.CloseIdleConnections() }

func invalid(message string) *feedback.Error { return inspection.Invalid(message) }
