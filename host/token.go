package host

import (
	"context"
	"errors"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// Token gives the access token of exactly the session that an original was
// captured under, for the host's own sending of the operation. It sends no
// operation: at most the refresh of the session goes to the Hub.
//
// The connection and its session are compared with original.ExpectedBinding like
// before every request of an inspection, and the token comes from the very read
// that was compared. Where it has less than 30 seconds left, it is renewed
// through the store, so that a host that was idle does not send with a token that
// has run out. Its Expiry is when it runs out. The token is for the very next
// request, to the Hub of the binding alone: ask again before the one after that,
// because the login can be replaced or removed at any time.
//
// It takes no longer than the time limit of an inspection. Every error is a
// [*feedback.Error], with the codes of an inspection; where there is one, the
// operation was not sent by this call, and should not be sent under anything
// else instead.
func (t *Transport) Token(ctx context.Context, original Original) (*oauth2.Token, error) {
	switch {
	case ctx == nil:
		return nil, invalidFor(original.InvocationID, "The context is nil.")
	case t.store == nil:
		return nil, invalidFor(original.InvocationID, "The transport was not made by New.")
	}
	if err := original.valid(); err != nil {
		return nil, err
	}
	s, err := t.session(original)
	if err != nil {
		return nil, err
	}
	defer t.release(s)
	limited, cancel := context.WithTimeout(ctx, t.settings.Timeout)
	defer cancel()
	g := &guard{session: s}
	credentials, err := await.Do(limited, g.usable)
	if err == nil {
		token := bearer(credentials)
		token.Expiry = credentials.AccessExpiresAt
		return token, nil
	}
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok || limited.Err() != nil {
		failure = failures.New(failures.EndedDuring(ctx, g.WaitsFor()))
	}
	named := *failure
	named.Feedback.InvocationID = original.InvocationID
	return nil, s.noted(&named)
}

// TokenSource gives [Transport.Token] for one original as a token source. What
// it gives is an agentclient.ContextTokenSource too. Each call of Token checks
// the binding again; nothing is remembered in between, and nothing is checked
// before the first call. It is safe for concurrent use.
//
// Ask it before each request, and set the header of that request. It is not for
// [oauth2.Transport], which sets the token on every request that passes through
// it, those of a redirect to another host included, so that the token leaves
// the Hub; nor for [oauth2.ReuseTokenSource], which gives a token without a look
// at the binding until that has run out.
func (t *Transport) TokenSource(original Original) oauth2.TokenSource {
	return tokenSource{t, original}
}

type tokenSource struct {
	transport *Transport
	original  Original
}

func (s tokenSource) Token() (*oauth2.Token, error) { return s.TokenContext(context.Background()) }

func (s tokenSource) TokenContext(ctx context.Context) (*oauth2.Token, error) {
	return s.transport.Token(ctx, s.original)
}
