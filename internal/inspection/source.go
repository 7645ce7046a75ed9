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

// The interfaces that a token source may implement besides. Package agentclient has the
// same for hosts.
type (
	contextTokenSource interface {
		TokenContext(ctx context.Context) (*oauth2.Token, error)
	}
	refresher interface {
		Refresh(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error)
	}
)

// TokenSource makes the guards for the inspections of a client that has a token source.
// It is safe for concurrent use.
type TokenSource struct {
	// source gives the token source. It is a function, because printing a client
	// prints its fields: it would print the token source, and with it a token.
	source func() oauth2.TokenSource
	// Again ends the message of a failure after which the server can be asked again.
	Again string
	// calls has the calls of the source, which may ignore its context. The key is
	// the access token that was refused, or "" for a call that asks for a token.
	calls await.Shared[string, *oauth2.Token]
}

// NewTokenSource gives a TokenSource for a source that is not nil. See
// [TokenSource.Again] for again.
func NewTokenSource(source oauth2.TokenSource, again string) *TokenSource {
	return &TokenSource{source: func() oauth2.TokenSource { return source }, Again: again}
}

// Guard gives the guard of one inspection.
func (s *TokenSource) Guard() Guard { return &sourceGuard{tokens: s} }

// sourceGuard asks the token source for a token before each request, and for a refresh
// at most once.
type sourceGuard struct {
	tokens    *TokenSource
	refreshed bool          // the source was asked to refresh
	fresh     *oauth2.Token // the token of the refresh, for the next request only
}

// WaitsFor implements [Guard].
func (g *sourceGuard) WaitsFor() string { return "the token source" }

// Token implements [Guard]. It gives the token of a refresh once, and otherwise asks the
// source. It never gives an expired token.
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

// token asks the source for a token. It returns when ctx ends, even where the source
// does not.
func (s *TokenSource) token(ctx context.Context) (*oauth2.Token, error) {
	source := s.source()
	ask := func(context.Context) (*oauth2.Token, error) { return source.Token() }
	if source, ok := source.(contextTokenSource); ok {
		ask = source.TokenContext
	}
	return s.usable(s.calls.Do(ctx, "", ask))
}

// usable returns an error unless token can be sent in a header as it is.
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

// sourceError says what an error of the caller's token source means. It does not pass on
// the text of err: that of oauth2.RetrieveError, for example, quotes the server's answer.
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
