package inspection

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

// What a token source may do besides; package agentclient says so to hosts.
type (
	contextTokenSource interface {
		TokenContext(ctx context.Context) (*oauth2.Token, error)
	}
	refresher interface {
		Refresh(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error)
	}
)

// token asks the source. It returns as soon as ctx is done, whatever the source
// does.
func (s *Server) token(ctx context.Context) (*oauth2.Token, error) {
	if source, ok := s.Source().(contextTokenSource); ok && s.Settings.Prompt {
		return s.usable(source.TokenContext(ctx))
	}
	return s.usable(await.Do(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		if source, ok := s.Source().(contextTokenSource); ok {
			return source.TokenContext(ctx)
		}
		return s.Source().Token()
	}))
}

// refresh replaces a refused token; ok is false where the source cannot.
func (s *Server) refresh(ctx context.Context, refused *oauth2.Token) (token *oauth2.Token, ok bool, err error) {
	source, ok := s.Source().(refresher)
	if !ok {
		return nil, false, nil
	}
	token, err = s.usable(await.Do(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return source.Refresh(ctx, refused)
	}))
	return token, true, err
}

// usable lets a token through that can go into a header as it stands.
func (s *Server) usable(token *oauth2.Token, err error) (*oauth2.Token, error) {
	switch {
	case err != nil:
		return nil, s.sourceError(err)
	case token == nil || token.AccessToken == "":
		return nil, noToken("The token source has no access token.")
	case token.Type() != "Bearer":
		return nil, noToken("The token source gave a token whose type is not Bearer; only Bearer tokens are sent.")
	case !identifier.BearerToken(token.AccessToken):
		return nil, noToken("The token source gave an access token that cannot stand in a header: it must be the token alone, without the word Bearer and without spaces.")
	}
	return token, nil
}

func noToken(message string) error {
	return feedback.NewError(feedback.Failure{Event: feedback.NoAuthorization, Message: message})
}

// maxRefreshes is how often the source is asked to refresh in one inspection. A
// facade counts by itself what it sends: its Refresh may have only read again.
func (s *Server) maxRefreshes() int {
	if s.Settings.Shared != nil {
		return 2
	}
	return 1
}

// sourceError says what an error of the caller's token source means. Its text
// goes no further: oauth2.RetrieveError, for one, quotes the server's answer.
func (s *Server) sourceError(err error) error {
	known, ok := errors.AsType[*feedback.Error](err)
	if ok && s.Settings.Shared != nil { // the facade's own words
		return known
	}
	unreachable := feedback.Failure{Event: feedback.ConnectionLost, Message: "The access token could not be renewed, because its server did not answer. " + s.Again}
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
