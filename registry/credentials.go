package registry

import (
	"time"

	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// Credentials are one login: an agent session and its tokens. Printing Credentials
// does not show the tokens, and json.Marshal returns an error for them. Otherwise
// tokens could get into a log or a file by accident. A store uses
// [EncodeCredentials].
//
// Credentials are a plain value. Compare them with [Credentials.Equal].
type Credentials struct {
	// HubURL, ClientAppID and Workspace are those of the connection. HubURL is
	// in normal form where a store gave the credentials.
	HubURL      string
	ClientAppID string
	Workspace   string
	// SessionID is the agent session, a UUID. A refresh of the tokens keeps it; a
	// new login has another one.
	SessionID string
	// AccessToken and RefreshToken are 1 to 8,192 visible ASCII characters.
	AccessToken  Secret
	RefreshToken Secret
	// AccessExpiresAt and RefreshExpiresAt are cut to whole milliseconds when they
	// are saved. RefreshExpiresAt is the later of the two.
	AccessExpiresAt  time.Time
	RefreshExpiresAt time.Time
}

// Binding gives the authorization that the credentials stand for.
func (c Credentials) Binding() Binding {
	return Binding{HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace, SessionID: c.SessionID}
}

// Equal reports whether both are the same login with the same tokens. Times
// are the same when they are the same instant.
func (c Credentials) Equal(other Credentials) bool {
	return c.Binding() == other.Binding() && c.AccessToken == other.AccessToken && c.RefreshToken == other.RefreshToken &&
		c.AccessExpiresAt.Equal(other.AccessExpiresAt) && c.RefreshExpiresAt.Equal(other.RefreshExpiresAt)
}

var errNoJSON = fail("credentials are not for JSON; a store uses EncodeCredentials and DecodeCredentials")

// MarshalJSON is always an error.
func (c Credentials) MarshalJSON() ([]byte, error) { return nil, errNoJSON }

// UnmarshalJSON is always an error.
func (c *Credentials) UnmarshalJSON([]byte) error { return errNoJSON }

// normal gives the form in which credentials are saved: the Hub URL in normal form,
// the times in UTC and in whole milliseconds. Where the credentials are not valid,
// flaw names a member and the rule that it breaks; else it is "". Plain http is
// valid here, because the connection says whether it is allowed.
func (c Credentials) normal() (normal Credentials, flaw string) {
	hub, err := huburl.Normalize(c.HubURL, true)
	if err != nil {
		return Credentials{}, "the Hub URL of the credentials " + err.Error()
	}
	c.HubURL = hub
	c.AccessExpiresAt = milliseconds(c.AccessExpiresAt)
	c.RefreshExpiresAt = milliseconds(c.RefreshExpiresAt)
	for _, member := range [...]struct {
		ok         bool
		name, rule string
	}{
		{identifier.ClientAppID(c.ClientAppID), "client app ID", idRule},
		{identifier.Workspace(c.Workspace), "workspace", workspaceRule},
		{identifier.UUID(c.SessionID), "session ID", "must be a UUID"},
		{identifier.BearerToken(c.AccessToken.Reveal()), "access token", tokenRule},
		{identifier.BearerToken(c.RefreshToken.Reveal()), "refresh token", tokenRule},
		{writable(c.AccessExpiresAt), "access token's expiry", timeRule},
		{writable(c.RefreshExpiresAt), "refresh token's expiry", timeRule},
		{c.RefreshExpiresAt.After(c.AccessExpiresAt), "refresh token's expiry", "must be later than that of the access token"},
	} {
		if !member.ok {
			return Credentials{}, "the " + member.name + " of the credentials " + member.rule
		}
	}
	return c, ""
}

const (
	tokenRule = "must be 1 to 8192 visible ASCII characters"
	timeRule  = "must be set, between the years 1 and 9999"
)

// milliseconds gives t with the precision of a file.
func milliseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// writable reports whether t, in UTC, is set and can be written in RFC 3339.
func writable(t time.Time) bool {
	return !t.IsZero() && t.Year() >= 1 && t.Year() <= 9999
}
