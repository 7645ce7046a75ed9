package agentclient

import (
	"context"

	"golang.org/x/oauth2"
)

// ContextTokenSource is a token source that obeys a context. Where
// [Config.TokenSource] is one, TokenContext is called instead of Token.
//
// A source is asked before every request, repeats included, by one goroutine of
// a client at a time: whoever needs a token meanwhile waits, and gets what the
// call under way brings. The context has the values of the caller that began
// the call, so a token must not depend on them, and ends when nobody waits for
// the call any more. A source that goes on all the same holds up the later ones,
// until their own time limits.
type ContextTokenSource interface {
	TokenContext(ctx context.Context) (*oauth2.Token, error)
}

// Refresher is a token source that can replace a token which the Hub refused.
// Where [Config.TokenSource] is one, Refresh is called at most once in an
// inspection, after a 401 or where the source gave a token whose expiry has
// passed, with that token, as [ContextTokenSource] is: one call at a time, for
// all who wait with the same token. The request is
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
