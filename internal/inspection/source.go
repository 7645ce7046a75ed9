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

// TokenSource is the caller's token source of a client, from which each of its
// inspections gets a guard. It is safe for concurrent use.
type TokenSource struct {
	// source gives the source and not the source itself, which would print with
	// its client.
	source func() oauth2.TokenSource
	// Again is the sentence for what can be asked again.
	Again string
	// calls are those of a source that may ignore its context: by the access
	// token that was refused, or "" to ask for one.
	calls await.Shared[string, *oauth2.Token]
}

// NewTokenSource gives the guards of a client whose source is not nil. Again is
// the sentence for what can be asked again.
func NewTokenSource(source oauth2.TokenSource, again string) *TokenSource {
	return &TokenSource{source: func() oauth2.TokenSource { return source }, Again: again}
}

// Guard gives the guard of one inspection.
func (s *TokenSource) Guard() Guard { return &sourceGuard{tokens: s} }

// sourceGuard asks the token source before each request, and at most once to
// refresh.
type sourceGuard struct {
	tokens    *TokenSource
	refreshed bool          // the source was asked to refresh
	fresh     *oauth2.Token // what that gave, for the next request alone
}

// WaitsFor implements [Guard].
func (g *sourceGuard) WaitsFor() string { return "the token source" }

// Token implements [Guard]: the token that the last refresh gave, or what the
// source has. One that has expired is not sent.
func (g *sourceGuard) Token(ctx context.Context) (token *oauth2.Token, err error) {
	if token, g.fresh = g.fresh, nil; token == nil || expired(token) {
		if token, err = g.tokens.token(ctx); err != nil {
			return nil, err
		}
	}
	if !expired(token) {
		return token, nil
	}
	if again, err := g.Refresh(ctx, token); err != nil {
		return nil, err
	} else if again && !expired(g.fresh) {
		token, g.fresh = g.fresh, nil
		return token, nil
	}
	return nil, noToken("The access token has expired, and the token source has no fresh one. A person has to log in again.")
}

// Refresh implements [Guard].
func (g *sourceGuard) Refresh(ctx context.Context, refused *oauth2.Token) (again bool, err error) {
	source, ok := g.tokens.source().(refresher)
	if !ok || g.refreshed {
		return false, nil
	}
	g.refreshed = true
	g.fresh, err = g.tokens.usable(g.tokens.calls.Do(ctx, refused.AccessToken, func(ctx context.Context) (*oauth2.Token, error) {
		return source.Refresh(ctx, refused)
	}))
	return err == nil, err
}

func expired(token *oauth2.Token) bool {
	return !token.Expiry.IsZero() && !time.Now().Before(token.Expiry)
}

// token asks the source. It returns as soon as ctx is done, whatever the source
// does.
func (s *TokenSource) token(ctx context.Context) (*oauth2.Token, error) {
	source := s.source()
	ask := func(context.Context) (*oauth2.Token, error) { return source.Token() }
	if source, ok := source.(contextTokenSource); ok {
		ask = source.TokenContext
	}
	return s.usable(s.calls.Do(ctx, "", ask))
}

// usable lets a token through that can go into a header as it stands.
func (s *TokenSource) usable(token *oauth2.Token, err error) (*oauth2.Token, error) {
	switch {
	case err != nil:
		return nil, s.sourceError(err)
	case token == nil || token.AccessToken == "":
		return nil, noToken("The token source has no access token.")
	case token.Type() != "Bearer":
		return nil, noToken("The token source gave a token whose type is not Bearer; only Bearer tokens are sent.")
	}
	return token, nil
}

func noToken(message string) error {
	return failures.New(failures.Failure{Event: failures.NoAuthorization, Message: message})
}

// sourceError says what an error of the caller's token source means. Its text
// goes no further: oauth2.RetrieveError, for one, quotes the server's answer.
func (s *TokenSource) sourceError(err error) error {
	unreachable := failures.Failure{Event: failures.ConnectionLost, Message: "The access token could not be renewed, because its server did not answer. " + s.Again}
	if known, ok := errors.AsType[*feedback.Error](err); ok && known.Feedback.Category == feedback.CategoryTransportUnavailable {
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
