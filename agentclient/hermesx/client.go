package hermesx

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
	"github.com/bailinghub/bailinghub-go/internal/nilcheck"
)

// answerLimit is how many bytes one answer may have.
const answerLimit = 16 << 20

// Config has the server and the API key of a client.
type Config struct {
	// BaseURL is the HermesX server: https, or http to localhost, 127.0.0.1 or
	// [::1]. The prefix of a proxy is kept; /v1 and /admin are paths of the
	// server itself and do not belong to it. Required.
	BaseURL string
	// TokenSource gives the API key as an access token. For a key that does not change,
	// use [oauth2.StaticTokenSource]. The source may also implement
	// [agentclient.ContextTokenSource] and [agentclient.Refresher]. The client refuses a
	// token that is not a Bearer token. Required.
	//
	// The key alone decides which tenant is read. It needs the role auditor or admin.
	TokenSource oauth2.TokenSource
	// AllowInsecureHTTP allows plain http to any host. Everybody between the client and
	// the server can then read the key. The zero value allows plain http to this machine
	// only.
	AllowInsecureHTTP bool
}

// Client reads the execution receipts and audit logs of one tenant of one HermesX server, and
// can send no other request. It is safe for concurrent use and does not change after [New].
type Client struct {
	server    *inspection.Server
	tokens    *inspection.TokenSource
	transport *boundary.Transport
}

// New checks all arguments and gives a client. Its errors match [feedback.CodeInvalidRequest]
// and name the argument without repeating its value.
//
// The options are those of the Hub's client, with the same defaults. What their documentation
// calls an inspection is here the reading of one receipt or one page. There is no negotiation,
// so [agentclient.WithNegotiationReuse] has no effect. A log record has the request id in place
// of an invocation id.
func New(cfg Config, opts ...agentclient.Option) (*Client, error) {
	settings, err := boundary.Apply(opts)
	if err != nil {
		return nil, inspection.InvalidOption(err)
	}
	baseURL, err := huburl.Normalize(cfg.BaseURL, cfg.AllowInsecureHTTP)
	if err != nil {
		return nil, inspection.Invalid("Config.BaseURL " + err.Error() + ".")
	}
	if nilcheck.IsNil(cfg.TokenSource) {
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
			Again:    again,
			Client:   client,
			Settings: settings,
			Code:     codeBelow(baseURL),
		},
		tokens:    inspection.NewTokenSource(cfg.TokenSource, again),
		transport: transport,
	}, nil
}

// again ends the message of a failure after which the server can be asked again.
const again = "It can be asked again."

// codeBelow tells what an answer of a server at an address means where its status
// alone does not say it. A receipt that is not there is the handler's own 404,
// which names the request as every answer from behind the server's router does;
// whatever else is 404 speaks of the address. So may a 403 below a path of the
// server itself: its other interfaces want other roles.
func codeBelow(baseURL string) func(*boundary.Answer) feedback.Code {
	const notFound = "not found\n"
	ownPath := strings.HasSuffix(baseURL, "/v1") || strings.HasSuffix(baseURL, "/admin")
	return func(answer *boundary.Answer) feedback.Code {
		switch {
		case answer.Status == http.StatusNotFound && answer.RequestID != "" && string(answer.Body) == notFound:
			return feedback.CodeReceiptNotFound
		case answer.Status == http.StatusForbidden && ownPath:
			return feedback.CodeAgentSchemaUnsupported
		}
		return ""
	}
}

// CloseIdleConnections closes the idle connections of the client's own transport. It leaves
// those of a borrowed HTTP client to the owner of that client.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// errTooLong marks the error of an answer that was over its limit.
var errTooLong = errors.New("the answer is too long")

// reply is a good answer and the id that its request was sent with.
type reply struct {
	boundary.Answer
	sent string
}

// loggedID gives the id of the request in the server's log: the one in the answer, or else the
// one that was sent.
func (r reply) loggedID() string { return cmp.Or(r.RequestID, r.sent) }

// ask sends one question and calls read with its answer. Where a body is not valid, read
// returns an error that continues a sentence beginning with "The answer of the HermesX server".
func (c *Client) ask(ctx context.Context, question inspection.Question, read func(reply) error) error {
	sent := rand.Text()
	i, err := c.server.Begin(ctx, inspection.Subject{RequestID: sent}, c.tokens.Guard())
	if err != nil {
		return err
	}
	defer i.End()
	err = answered(i, question, func(answer *boundary.Answer) error { return read(reply{*answer, sent}) })
	i.Log(err)
	return err
}

func answered(i *inspection.Inspection, question inspection.Question, read func(*boundary.Answer) error) error {
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
		wrong := read(answer)
		if wrong == nil {
			return nil
		}
		refused.Message = "The answer of the HermesX server " + wrong.Error() + ", so no answer is given. It must not be presented as evidence."
	}
	return i.Failure(refused)
}
