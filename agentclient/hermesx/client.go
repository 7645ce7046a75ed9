package hermesx

import (
	"context"
	"crypto/rand"
	"errors"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/internal/inspection"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/nothing"
)

// answerLimit is how many bytes one answer may have.
const answerLimit = 16 << 20

// Config is what a client is bound to for its lifetime.
type Config struct {
	// BaseURL is the HermesX server: https, or http to localhost, 127.0.0.1 or
	// [::1]. A path prefix is kept. Required.
	BaseURL string
	// TokenSource gives the API key, as an access token: for a key that does
	// not change that is [oauth2.StaticTokenSource]. What it may do besides
	// say [agentclient.ContextTokenSource] and [agentclient.Refresher]. A
	// token that is not a Bearer token is refused. Required.
	//
	// The key alone decides which tenant is read. It needs the role auditor or
	// admin.
	TokenSource oauth2.TokenSource
	// AllowInsecureHTTP allows plain http to any host. The key can then be
	// read on the way.
	AllowInsecureHTTP bool
}

// Client reads the execution receipts and audit logs of one tenant of one
// HermesX server. It can do nothing else. It is safe for concurrent use and
// does not change after [New].
type Client struct {
	server    *inspection.Server
	transport *boundary.Transport
}

// New checks everything and gives a client. Its errors match
// [feedback.CodeInvalidRequest] and name what is wrong without repeating it.
//
// The options are those of the Hub's client, with the same defaults. An
// inspection, in their words, is one answer: a receipt or a page. There is
// nothing to negotiate, so [agentclient.WithNegotiationReuse] has no effect, and
// a log record has the request id in place of an invocation's.
func New(cfg Config, opts ...agentclient.Option) (*Client, error) {
	settings, err := boundary.Apply(opts)
	if err != nil {
		return nil, inspection.InvalidOption(err)
	}
	baseURL, err := huburl.Normalize(cfg.BaseURL, cfg.AllowInsecureHTTP)
	if err != nil {
		return nil, inspection.Invalid("Config.BaseURL " + err.Error() + ".")
	}
	if nothing.Is(cfg.TokenSource) {
		return nil, inspection.Invalid("Config.TokenSource is missing.")
	}
	transport := boundary.NewTransport(settings)
	client, err := boundary.NewClient(transport, baseURL, boundary.HermesXRequests)
	if err != nil {
		return nil, inspection.Invalid("Config.BaseURL cannot be sent to.")
	}
	return &Client{
		server: &inspection.Server{
			Name:     "the HermesX server",
			Again:    "It can be asked again.",
			Client:   client,
			Source:   func() oauth2.TokenSource { return cfg.TokenSource },
			Settings: settings,
		},
		transport: transport,
	}, nil
}

// CloseIdleConnections closes the idle connections of the client's own
// transport. That of a borrowed HTTP client is its owner's to close.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// errTooLong marks the error of an answer that was over its limit.
var errTooLong = errors.New("the answer is too long")

// ask asks one question and has its answer read. Read returns what is wrong
// with a body, in words that continue "The answer of the HermesX server".
func (c *Client) ask(ctx context.Context, question inspection.Question, read func(body []byte, requestID string) error) error {
	i, err := c.server.Begin(ctx, inspection.Subject{RequestID: rand.Text()})
	if err != nil {
		return err
	}
	defer i.End()
	err = answered(i, question, read)
	i.Log(err)
	return err
}

func answered(i *inspection.Inspection, question inspection.Question, read func(body []byte, requestID string) error) error {
	question.Limit = answerLimit
	answer, err := i.Ask(question)
	if err != nil {
		return err
	}
	refused := failures.Failure{Event: failures.BadBody, Step: question.Step, Status: answer.Status}
	switch {
	case answer.TooLong:
		refused.Message = "The answer of the HermesX server is longer than 16 MiB. No answer is given; a smaller page may do."
		refused.Causes = []error{errTooLong}
	case answer.Unusable:
		refused.Message = "The answer of the HermesX server is in an encoding that was not asked for, or does not decode, so no answer is given."
	default:
		wrong := read(answer.Body, answer.RequestID)
		if wrong == nil {
			return nil
		}
		refused.Message = "The answer of the HermesX server " + wrong.Error() + ", so no answer is given. It must not be presented as evidence."
	}
	return i.Failure(refused)
}
