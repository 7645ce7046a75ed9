package host

import (
	"context"
	"errors"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// Token gives the access token of the session that an original was captured under, so
// that the host can send the operation itself. Token never sends an operation: the only
// request that it may send is the refresh of the session.
//
// It compares the connection and its session with original.ExpectedBinding, as before
// every request of an inspection, and gives the token of the same read. A token with less
// than 30 seconds left is first refreshed through the store, so that a host that was idle
// does not send an expired token. The Expiry of the token is when it expires. Use the
// token for the next request to the Hub of the binding only, and call Token again before
// the request after that, because the login can be replaced or removed at any time.
//
// Token takes no longer than the time limit of an inspection. Every error is a
// [*feedback.Error] with a code of an inspection. After an error the operation was not
// sent, and the host should not send it under another authorization instead.
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

// TokenSource gives a token source that calls [Transport.Token] for one original. It is
// also an agentclient.ContextTokenSource. Each call checks the binding again: the source
// remembers nothing, and checks nothing before the first call. It is safe for concurrent
// use.
//
// Ask the source before each request, and set the header of that request. Do not use it
// with [oauth2.Transport], which sets the token on every request, also on one that a
// redirect sends to another host, which would then get the token. Do not use it with
// [oauth2.ReuseTokenSource] either, which gives the same token until it expires, without
// checking the binding.
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
