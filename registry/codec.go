package registry

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

// MaxCredentialsSize is the greatest size of encoded credentials in bytes.
const MaxCredentialsSize = 64 << 10

// timeFormat writes a time in UTC as files hold it.
const timeFormat = "2006-01-02T15:04:05.000Z"

// credentialsFile is the content of a credential file.
type credentialsFile struct {
	SchemaVersion    *int64  `json:"schema_version"`
	BaseURL          *string `json:"base_url"`
	ClientAppID      *string `json:"client_app_id"`
	Route            *string `json:"route"`
	SessionID        *string `json:"session_id"`
	AccessToken      *string `json:"access_token"`
	RefreshToken     *string `json:"refresh_token"`
	AccessExpiresAt  *string `json:"access_expires_at"`
	RefreshExpiresAt *string `json:"refresh_expires_at"`
}

// EncodeCredentials gives credentials as the JSON text of a credential file, for a
// store to save. The tokens stand in it unencrypted: the store must let nobody but
// their owner read it.
//
// EncodeCredentials refuses credentials that are not complete and valid. The error
// matches feedback.CodeInvalidRequest and quotes no part of them.
func EncodeCredentials(credentials Credentials) ([]byte, error) {
	c, flaw := credentials.normal()
	if flaw != "" {
		return nil, invalid(flaw)
	}
	var out []byte
	for i, member := range [...]struct{ name, text string }{
		{"base_url", c.HubURL},
		{"client_app_id", c.ClientAppID},
		{"route", c.Workspace},
		{"session_id", c.SessionID},
		{"access_token", c.AccessToken.Reveal()},
		{"refresh_token", c.RefreshToken.Reveal()},
		{"access_expires_at", c.AccessExpiresAt.Format(timeFormat)},
		{"refresh_expires_at", c.RefreshExpiresAt.Format(timeFormat)},
	} {
		if i == 0 {
			out = append(out, `{"schema_version":1`...)
		}
		out = append(out, `,"`+member.name+`":`...)
		// AppendQuote fails for invalid UTF-8 only, and everything here is ASCII.
		out, _ = jsontext.AppendQuote(out, member.text)
	}
	// The length of each member is limited, and all of them together stay below
	// MaxCredentialsSize.
	return append(out, '}'), nil
}

// DecodeCredentials reads what [EncodeCredentials] or the TypeScript SDK of the Hub
// wrote. It accepts one JSON object of at most [MaxCredentialsSize] bytes that has
// every member exactly once, no unknown member, only valid values, and the Hub URL
// in normal form. The error matches [ErrDamaged], says what is wrong and quotes
// nothing of the text.
//
// The caller checks whether the credentials belong to its connection: see
// [Connection.Check].
func DecodeCredentials(data []byte) (Credentials, error) {
	c, flaw := decodeCredentials(data)
	if flaw != "" {
		return Credentials{}, damaged("the text of the credentials " + flaw)
	}
	return c, nil
}

// decodeCredentials does what DecodeCredentials does. Where the text is not valid,
// flaw continues a sentence that begins with the name of the text; else it is "".
func decodeCredentials(data []byte) (c Credentials, flaw string) {
	if len(data) > MaxCredentialsSize {
		return Credentials{}, "is larger than 64 KiB"
	}
	var file credentialsFile
	if err := strictjson.Unmarshal(data, &file, strictjson.RefuseUnknown); err != nil {
		return Credentials{}, err.Error()
	}
	if file.SchemaVersion == nil || *file.SchemaVersion != 1 {
		return Credentials{}, "has a schema version that is not 1"
	}
	for _, text := range [...]*string{
		file.BaseURL, file.ClientAppID, file.Route, file.SessionID,
		file.AccessToken, file.RefreshToken, file.AccessExpiresAt, file.RefreshExpiresAt,
	} {
		if text == nil {
			return Credentials{}, "lacks a member"
		}
	}
	c = Credentials{
		HubURL:       *file.BaseURL,
		ClientAppID:  *file.ClientAppID,
		Workspace:    *file.Route,
		SessionID:    *file.SessionID,
		AccessToken:  NewSecret(*file.AccessToken),
		RefreshToken: NewSecret(*file.RefreshToken),
	}
	var accessOK, refreshOK bool
	c.AccessExpiresAt, accessOK = parseTime(*file.AccessExpiresAt)
	c.RefreshExpiresAt, refreshOK = parseTime(*file.RefreshExpiresAt)
	if !accessOK || !refreshOK {
		return Credentials{}, "has an expiry that is not a time of RFC 3339"
	}
	c, flaw = c.normal()
	switch {
	case flaw != "":
		return Credentials{}, "has a flaw: " + flaw
	case c.HubURL != *file.BaseURL:
		return Credentials{}, "has a Hub URL that is not in normal form"
	}
	return c, ""
}

// parseTime reads a time in exactly the form of RFC 3339. time.Parse also accepts a
// comma, an hour of one digit and an offset of a day.
func parseTime(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		return time.Time{}, false
	}
	if hours, minutes, ok := strings.Cut(text[len(text)-len("07:00"):], ":"); text[len(text)-1] != 'Z' && (!ok || hours > "23" || minutes > "59") {
		return time.Time{}, false
	}
	return t, true
}
