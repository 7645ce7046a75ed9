package agentclient

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// ContextTokenSource is a token source that obeys a context. Where
// [Config.TokenSource] is one, TokenContext is called instead of Token. It is
// asked before every request, repeats included, and from many goroutines.
type ContextTokenSource interface {
	TokenContext(ctx context.Context) (*oauth2.Token, error)
}

// Refresher is a token source that can replace a token which the Hub refused.
// Where [Config.TokenSource] is one, Refresh is called at most once in an
// inspection, after a 401, with the token that was refused. The request is
// repeated with what it returns; later requests ask the source again, so the
// source has to give the new token from then on.
//
// A Hub renews a session by a POST of JSON to agent-auth/v1/token:
// {"grant_type":"refresh_token","client_app_id":…,"refresh_token":…}. It answers
// with token_type, access_token, refresh_token, expires_in, refresh_expires_in,
// session_id and client_app_id. That is not the form of oauth2.Config, which
// cannot renew one. The refresh token works once: the new one has to be saved
// before anything else, and to send the old one twice ends the session. Package
// host does all that.
type Refresher interface {
	Refresh(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error)
}

// token asks the source. It returns as soon as ctx is done, whatever the source
// does.
func (c *BailingHubAgentClient) token(ctx context.Context) (*oauth2.Token, error) {
	return c.usable(await.Do(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		if source, ok := c.source().(ContextTokenSource); ok {
			return source.TokenContext(ctx)
		}
		return c.source().Token()
	}))
}

// refresh replaces a refused token; ok is false where the source cannot.
func (c *BailingHubAgentClient) refresh(ctx context.Context, refused *oauth2.Token) (token *oauth2.Token, ok bool, err error) {
	refresher, ok := c.source().(Refresher)
	if !ok {
		return nil, false, nil
	}
	token, err = c.usable(await.Do(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return refresher.Refresh(ctx, refused)
	}))
	return token, true, err
}

// usable lets a token through that can go into a header as it stands.
func (c *BailingHubAgentClient) usable(token *oauth2.Token, err error) (*oauth2.Token, error) {
	switch {
	case err != nil:
		return nil, c.sourceError(err)
	case token == nil || token.AccessToken == "":
		return nil, noToken("The token source has no access token.")
	case token.Type() != "Bearer":
		return nil, noToken("The token source gave a token whose type is not Bearer; only Bearer tokens are sent.")
	case !identifier.BearerToken(token.AccessToken):
		return nil, noToken("The token source gave an access token that cannot stand in a header.")
	}
	return token, nil
}

func noToken(message string) error {
	return feedback.NewError(feedback.Failure{Event: feedback.NoAuthorization, Message: message})
}

// maxRefreshes is how often Refresh is asked in one inspection. A facade counts
// by itself what it sends: its Refresh may have only read again.
func (c *BailingHubAgentClient) maxRefreshes() int {
	if c.settings.Shared != nil {
		return 2
	}
	return 1
}

// sourceError says what an error of the caller's token source means. Its text
// goes no further: oauth2.RetrieveError, for one, quotes the server's answer.
func (c *BailingHubAgentClient) sourceError(err error) error {
	known, ok := errors.AsType[*feedback.Error](err)
	if ok && c.settings.Shared != nil { // the facade's own words
		return known
	}
	unreachable := feedback.Failure{Event: feedback.ConnectionLost, Message: "The access token could not be renewed, because its server did not answer. The original can be inspected again."}
	if ok && known.Feedback.Category == feedback.CategoryTransportUnavailable {
		unreachable.RetryAfter = known.RetryAfter
		return feedback.NewError(unreachable)
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if refused.Response == nil || !(feedback.Failure{Status: refused.Response.StatusCode}).Repeated() {
			return noToken("The renewal of the access token was refused. A person has to log in again.")
		}
		unreachable.RetryAfter = boundary.RetryAfter(refused.Response.Header, time.Now())
		return feedback.NewError(unreachable)
	}
	_, network := errors.AsType[net.Error](err)
	if network || errors.Is(err, context.Canceled) {
		unreachable.Causes = boundary.NewLostError(err).Causes
		return feedback.NewError(unreachable)
	}
	return noToken("The token source failed, so there is no access token.")
}
