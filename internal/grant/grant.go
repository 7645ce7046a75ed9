// Package grant reads the answer in which a Hub gives tokens. It gives the same
// answer to a login and to the refresh of a session (contract, section 6).
package grant

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

// Limit is how many bytes the answer may have.
const Limit = 64 << 10

// The greatest lifetimes. Parse cuts a longer one to these, so that a date can
// always be computed from it.
const (
	maxAccess  = 31 * 24 * time.Hour
	maxRefresh = 366 * 24 * time.Hour
)

// AccessBeforeRefresh is how much earlier than the refresh token the access token
// ends at least. Where the Hub gives both the same lifetime, [Grant.Expiries]
// shortens that of the access token by this, so that the credentials as a whole
// end with the refresh token.
const AccessBeforeRefresh = time.Second

// Grant is what a Hub gives with a pair of tokens. Its tokens are secrets, so
// it is never printed.
type Grant struct {
	AccessToken, RefreshToken string
	SessionID, ClientAppID    string
	// access and refresh are the lifetimes, counted from the start of the request.
	access, refresh time.Duration
}

// Parse reads the body of a 200. It reports false for a body that is not a
// complete grant in exactly the form of the contract.
func Parse(body []byte) (Grant, bool) {
	var wire struct {
		TokenType        string `json:"token_type"`
		AccessToken      string `json:"access_token"`
		RefreshToken     string `json:"refresh_token"`
		ExpiresIn        int64  `json:"expires_in"`
		RefreshExpiresIn int64  `json:"refresh_expires_in"`
		SessionID        string `json:"session_id"`
		ClientAppID      string `json:"client_app_id"`
	}
	if err := strictjson.Unmarshal(body, &wire, strictjson.DropUnknown); err != nil ||
		wire.TokenType != "Bearer" ||
		!identifier.BearerToken(wire.AccessToken) || !identifier.BearerToken(wire.RefreshToken) ||
		wire.ExpiresIn < 1 || wire.RefreshExpiresIn < 1 ||
		!identifier.UUID(wire.SessionID) || !identifier.ClientAppID(wire.ClientAppID) {
		return Grant{}, false
	}
	return Grant{
		AccessToken: wire.AccessToken, RefreshToken: wire.RefreshToken,
		SessionID: wire.SessionID, ClientAppID: wire.ClientAppID,
		access:  lifetime(wire.ExpiresIn, maxAccess),
		refresh: lifetime(wire.RefreshExpiresIn, maxRefresh),
	}, true
}

// Expiries gives the times at which the tokens end. start is when the request for
// them began.
func (g Grant) Expiries(start time.Time) (access, refresh time.Time) {
	refresh = start.Add(g.refresh)
	access = start.Add(min(g.access, g.refresh-AccessBeforeRefresh))
	return access, refresh
}

func lifetime(seconds int64, most time.Duration) time.Duration {
	return time.Duration(min(seconds, int64(most/time.Second))) * time.Second
}

// Tokens finds what may be tokens in a body that [Parse] refused, so that the
// caller can revoke the session that the Hub may have made for them. Either is ""
// where the body has none.
func Tokens(body []byte) (access, refresh string) {
	// The error is of no interest: behind the tokens the body may be damaged.
	_ = strictjson.Object(body, func(name []byte, d *jsontext.Decoder) error {
		var into *string
		switch string(name) {
		case "access_token":
			into = &access
		case "refresh_token":
			into = &refresh
		default:
			return nil
		}
		text, ok, err := strictjson.String(d)
		if ok && identifier.BearerToken(text) {
			*into = text
		}
		return err
	})
	return access, refresh
}
