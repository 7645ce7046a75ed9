package agentclient

import (
	"context"

	"golang.org/x/oauth2"
)

// ContextTokenSource is a token source that obeys a context. Where
// [Config.TokenSource] implements it, the client calls TokenContext instead of Token.
//
// The client asks the source before every request, repeats included. Only one call
// runs at a time: an inspection that needs a token meanwhile waits for that call and
// gets its token. The context has the values of the inspection that began the call, so
// a token must not depend on them. It ends when no inspection waits for the call any
// more. A source that ignores that makes later inspections wait, until their own time
// limits.
type ContextTokenSource interface {
	TokenContext(ctx context.Context) (*oauth2.Token, error)
}

// Refresher is a token source that can replace a token which the Hub refused. Where
// [Config.TokenSource] implements it, an inspection calls Refresh at most once: with
// the token that got a 401, or with an expired token that the source gave. As with
// [ContextTokenSource], only one call runs at a time, for all inspections that wait
// with the same token. The inspection repeats its request with the token that Refresh
// returns. Later requests ask the source again, so the source has to give the new token
// from then on.
//
// A Hub refreshes a session after a POST of JSON to agent-auth/v1/token:
// {"grant_type":"refresh_token","client_app_id":…,"refresh_token":…}. It answers
// with token_type, access_token, refresh_token, expires_in, refresh_expires_in,
// session_id and client_app_id. oauth2.Config has another form and cannot refresh such
// a session. A refresh token works once. So the new one has to be saved before anything
// else is done: when the old one is sent a second time, the Hub ends the session.
// Package host does all that.
type Refresher interface {
	Refresh(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error)
}
