// Package grant reads the answer of a Hub that gives tokens: to a login and to
// the refresh of a session, which are answered alike (contract, section 6).
package grant

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

// Limit is how many bytes the answer may have.
const Limit = 64 << 10

// A longer lifetime counts as this long.
const (
	maxAccess  = 31 * 24 * time.Hour
	maxRefresh = 366 * 24 * time.Hour
)

// AccessBeforeRefresh is how much earlier than its refresh token an access token
// ends that the Hub lets live as long: credentials end with their refresh token.
const AccessBeforeRefresh = time.Second

// Grant is what a Hub gives with a pair of tokens. Its tokens are secrets, so
// it is never printed.
type Grant struct {
	AccessToken, RefreshToken string
	SessionID, ClientAppID    string
	// access and refresh are lifetimes, from the request on.
	access, refresh time.Duration
}

// Parse reads the body of a 200. It reports false for a body that is not a
// whole grant in exactly the form of the contract.
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

// Expiries gives when the tokens end, where the request for them was begun at
// start.
func (g Grant) Expiries(start time.Time) (access, refresh time.Time) {
	refresh = start.Add(g.refresh)
	access = start.Add(min(g.access, g.refresh-AccessBeforeRefresh))
	return access, refresh
}

func lifetime(seconds int64, most time.Duration) time.Duration {
	return time.Duration(min(seconds, int64(most/time.Second))) * time.Second
}

// Tokens finds what looks like tokens in a body that is no grant, so that the
// session which it gives away can be ended. Either may be "".
func Tokens(body []byte) (access, refresh string) {
	// What follows the tokens may be no JSON any more; what stood before counts.
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
