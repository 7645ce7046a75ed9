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
	"github.com/bailinghub/bailinghub-go/internal/failures"
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

// token gives the access token of the next request: the one that the last
// refresh gave, or what the source has. One that has expired is not sent.
func (i *Inspection) token(ctx context.Context) (token *oauth2.Token, err error) {
	i.waitForToken(ctx)
	if token, i.next = i.next, nil; token == nil || expired(token) {
		if token, err = i.server.token(ctx); err != nil {
			return nil, err
		}
	}
	if !expired(token) {
		return token, nil
	}
	if i.refreshes < i.server.maxRefreshes() {
		if fresh, can, err := i.refresh(ctx, token); err != nil || can && !expired(fresh) {
			return fresh, err
		}
	}
	return nil, noToken("The access token has expired, and the token source has no fresh one. A person has to log in again.")
}

// refresh replaces a token that was refused or has expired; ok is false where
// the source cannot.
func (i *Inspection) refresh(ctx context.Context, refused *oauth2.Token) (token *oauth2.Token, ok bool, err error) {
	i.refreshes++
	i.waitForToken(ctx)
	return i.server.refresh(ctx, refused)
}

// waitForToken notes what is waited for, unless the end has come already.
func (i *Inspection) waitForToken(ctx context.Context) {
	switch {
	case ctx.Err() != nil:
	case i.server.Settings.Shared != nil: // a facade reads its store for a token
		i.waitsFor = "the connection store"
	default:
		i.waitsFor = "the token source"
	}
}

func expired(token *oauth2.Token) bool {
	return !token.Expiry.IsZero() && !time.Now().Before(token.Expiry)
}

// token asks the source. It returns as soon as ctx is done, whatever the source
// does.
func (s *Server) token(ctx context.Context) (*oauth2.Token, error) {
	source := s.Source()
	ask := func(context.Context) (*oauth2.Token, error) { return source.Token() }
	if source, ok := source.(contextTokenSource); ok {
		ask = source.TokenContext
	}
	if s.Settings.Prompt {
		return s.usable(ask(ctx))
	}
	return s.usable(s.call(ctx, "", ask))
}

// refresh replaces a token; ok is false where the source cannot.
func (s *Server) refresh(ctx context.Context, refused *oauth2.Token) (token *oauth2.Token, ok bool, err error) {
	source, ok := s.Source().(refresher)
	if !ok {
		return nil, false, nil
	}
	token, err = s.usable(s.call(ctx, refused.AccessToken, func(ctx context.Context) (*oauth2.Token, error) {
		return source.Refresh(ctx, refused)
	}))
	return token, true, err
}

// call calls a source that may ignore its context. That of a facade is called
// for each inspection, because it finds in the context which one it is.
func (s *Server) call(ctx context.Context, refused string, f func(context.Context) (*oauth2.Token, error)) (*oauth2.Token, error) {
	if s.Settings.Shared != nil {
		return await.Do(ctx, f)
	}
	return s.calls.Do(ctx, refused, f)
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
	return failures.New(failures.Failure{Event: failures.NoAuthorization, Message: message})
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
	unreachable := failures.Failure{Event: failures.ConnectionLost, Message: "The access token could not be renewed, because its server did not answer. " + s.Again}
	if ok && known.Feedback.Category == feedback.CategoryTransportUnavailable {
		unreachable.RetryAfter = known.RetryAfter
		return failures.New(unreachable)
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if refused.Response == nil || !(failures.Failure{Status: refused.Response.StatusCode}).Repeated() {
			return noToken("The renewal of the access token was refused. A person has to log in again.")
		}
		unreachable.RetryAfter = boundary.RetryAfter(refused.Response.Header, time.Now())
		return failures.New(unreachable)
	}
	_, network := errors.AsType[net.Error](err)
	if network || errors.Is(err, context.Canceled) {
		unreachable.Causes = boundary.NewLostError(err).Causes
		return failures.New(unreachable)
	}
	return noToken("The token source failed, so there is no access token.")
}
