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

// Config has the Hub, the workspace and the session that a client is bound to.
type Config struct {
	// HubURL is the original Hub: https, or http to localhost, 127.0.0.1 or
	// [::1]. A path prefix is kept. Required.
	HubURL string
	// Workspace is the workspace that the operation was sent to, which the Hub
	// calls a route. The client refuses a receipt of another workspace. Required.
	Workspace string
	// TokenSource gives the access tokens of the original session. It may also
	// implement [ContextTokenSource] and [Refresher]. The client refuses a token
	// that is not a Bearer token, and does not send one that has expired. Required.
	//
	// An error of the source ends the inspection; its text is never shown. A
	// network error, an oauth2.RetrieveError with 408, 425, 429 or 5xx, and a
	// [*feedback.Error] of [feedback.CategoryTransportUnavailable] mean that the
	// source cannot get a token now ([feedback.CodeAgentTransportUnavailable]). Any
	// other error means that there is no login
	// ([feedback.CodeAgentAuthorizationUnavailable]).
	TokenSource oauth2.TokenSource
	// AllowInsecureHTTP allows plain http to any host. Everybody between the client
	// and the Hub can then read the token.
	AllowInsecureHTTP bool
}

// BailingHubAgentClient reads the evidence of one Hub under one authorization. It is
// safe for concurrent use. After [New] nothing in it changes but the negotiation that
// [WithNegotiationReuse] remembers.
type BailingHubAgentClient struct {
	transport *boundary.Transport
	hub       *inspection.Hub
	tokens    *inspection.TokenSource
}

// New checks all arguments and gives a client. Its errors match
// [feedback.CodeInvalidRequest] and name the argument without repeating its value.
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

// InvocationInspectionCapabilities makes the negotiation alone: it asks whether this
// Hub offers the inspection contract that this SDK reads. Every inspection negotiates
// by itself.
//
// Every error is a [*feedback.Error]; its code is
// [feedback.CodeAgentSchemaUnsupported] for a Hub without the contract. The time limit
// and the repeats are those of an inspection.
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

// InspectInvocation reads the receipt of an original invocation, which says what the
// Hub knows of it now. It negotiates first. It never runs, approves, resumes or repeats
// the operation, so a host may call it as often as it wants.
//
// The id has 64 lower-case hexadecimal digits. InspectInvocation refuses a receipt of
// another invocation or another workspace. Every error is a [*feedback.Error]. No
// error, whatever its code, is evidence that the operation did not happen.
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
		c.hub.Forget() // the next inspection negotiates again after any failure
	}
	i.Log(err)
	return observed, err
}

// CloseIdleConnections closes the idle connections of the client's own transport. It
// leaves those of a borrowed HTTP client to the owner of that client.
func (c *BailingHubAgentClient) CloseIdleConnections() { c.transport.CloseIdleConnections() }

func invalid(message string) *feedback.Error { return inspection.Invalid(message) }
