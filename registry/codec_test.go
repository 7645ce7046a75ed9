package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/registry"
)

// encoded is the text of credentials() as a file holds it.
const encoded = `{"schema_version":1,"base_url":"https://hub.example.com","client_app_id":"commerce-agent","route":"inventory",` +
	`"session_id":"` + session + `","access_token":"` + accessCanary + `","refresh_token":"` + refreshCanary + `",` +
	`"access_expires_at":"2099-01-01T00:00:00.000Z","refresh_expires_at":"2099-02-01T00:00:00.000Z"}`

func TestEncodeCredentials(t *testing.T) {
	t.Parallel()
	got, err := registry.EncodeCredentials(credentials())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encoded, string(got)); diff != "" {
		t.Errorf("EncodeCredentials (-want +got):\n%s", diff)
	}
}

func TestEncodeCredentialsNormalizes(t *testing.T) {
	t.Parallel()
	c := credentials()
	c.HubURL = "HTTPS://HUB.example.com:443/"
	c.AccessExpiresAt = time.Date(2099, 1, 1, 8, 0, 0, 999999, time.FixedZone("", 8*3600))
	got, err := registry.EncodeCredentials(c)
	if err != nil || string(got) != encoded {
		t.Errorf("EncodeCredentials = %s, %v; want %s", got, err, encoded)
	}
}

func TestEncodeCredentialsKeepsEveryToken(t *testing.T) {
	t.Parallel()
	var ascii strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		ascii.WriteByte(c)
	}
	for _, token := range []string{ascii.String(), strings.Repeat("x", 8192), strings.Repeat(`"`, 8192), `\u0000`, "</script>"} {
		c := credentials()
		c.AccessToken, c.RefreshToken = registry.NewSecret(token), registry.NewSecret("r"+token[1:])
		data, err := registry.EncodeCredentials(c)
		if err != nil {
			t.Fatalf("EncodeCredentials with a token of %d characters: %v", len(token), err)
		}
		got, err := registry.DecodeCredentials(data)
		if err != nil || got.AccessToken.Reveal() != token || !got.Equal(c) {
			t.Errorf("a token of %d characters does not come back (%v)", len(token), err)
		}
	}
}

func TestEncodeCredentialsIsBounded(t *testing.T) {
	t.Parallel()
	c := credentials()
	c.HubURL = "https://hub.example.com/" + strings.Repeat("x", 8192-len("https://hub.example.com/"))
	c.ClientAppID, c.Workspace = strings.Repeat("c", 64), strings.Repeat("w", 64)
	c.AccessToken, c.RefreshToken = registry.NewSecret(strings.Repeat(`"`, 8192)), registry.NewSecret(strings.Repeat(`\`, 8192))
	data, err := registry.EncodeCredentials(c)
	if err != nil || len(data) > registry.MaxCredentialsSize {
		t.Fatalf("EncodeCredentials of the longest credentials gives %d bytes, %v", len(data), err)
	}
	if got, err := registry.DecodeCredentials(data); err != nil || !got.Equal(c) {
		t.Errorf("the longest credentials do not come back: %v", err)
	}
}

func TestEncodeCredentialsRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range badCredentials() {
		data, err := registry.EncodeCredentials(bad.credentials)
		wantInvalid(t, err, bad.member, "")
		if data != nil {
			t.Errorf("EncodeCredentials gives data beside the error %v", err)
		}
		if err != nil {
			wantNoCanary(t, err.Error())
		}
	}
	long := credentials()
	long.HubURL = "https://hub.example.com/" + strings.Repeat("x", 8192)
	_, err := registry.EncodeCredentials(long)
	wantInvalid(t, err, "Hub URL", long.HubURL)
}

// The files of the other SDK read, and write back to the same JSON.
func TestInteropCredentials(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/interop-v[12]/agent-connections/*.json")
	if err != nil || len(files) != 5 {
		t.Fatalf("found %d credential files, %v; want 5", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := registry.DecodeCredentials(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		again, err := registry.EncodeCredentials(c)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s is written back as %s, %v", file, again, err)
		}
		var want, got map[string]any
		if err := errors.Join(json.Unmarshal(data, &want), json.Unmarshal(again, &got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-file +written):\n%s", file, diff)
		}
	}
}

func TestDecodeCredentials(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"as written":             encoded,
		"with spaces":            " {\n\t\"schema_version\" : 1," + encoded[len(`{"schema_version":1,`):] + "\r\n ",
		"in another order":       `{"refresh_expires_at":"2099-02-01T00:00:00.000Z",` + strings.Replace(encoded[1:], `,"refresh_expires_at":"2099-02-01T00:00:00.000Z"`, "", 1),
		"with escapes":           strings.Replace(encoded, "inventory", `\u0069nventor\u0079`, 1),
		"with escapes in names":  strings.Replace(encoded, `"route"`, `"\u0072oute"`, 1),
		"without a fraction":     strings.Replace(encoded, "2099-01-01T00:00:00.000Z", "2099-01-01T00:00:00Z", 1),
		"with an offset":         strings.Replace(encoded, "2099-01-01T00:00:00.000Z", "2099-01-01T08:00:00+08:00", 1),
		"with more digits":       strings.Replace(encoded, "2099-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000999999Z", 1),
		"with a slash in escape": strings.Replace(encoded, "https://hub", `https:\/\/hub`, 1),
	} {
		got, err := registry.DecodeCredentials([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(credentials(), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	plain := strings.Replace(encoded, "https://hub.example.com", "http://hub.internal:8787", 1)
	if got, err := registry.DecodeCredentials([]byte(plain)); err != nil || got.HubURL != "http://hub.internal:8787" {
		t.Errorf("credentials of a Hub with http: %q, %v", got.HubURL, err)
	}
}

func TestDecodeCredentialsRefuses(t *testing.T) {
	t.Parallel()
	replace := func(old, new string) string {
		if !strings.Contains(encoded, old) {
			t.Fatalf("nothing to replace: %s", old)
		}
		return strings.Replace(encoded, old, new, 1)
	}
	tests := map[string]string{
		"empty":                     "",
		"null":                      "null",
		"an array":                  "[" + encoded + "]",
		"text":                      accessCanary,
		"cut off":                   encoded[:len(encoded)-1],
		"two documents":             encoded + encoded,
		"something behind":          encoded + "x",
		"a byte order mark":         "\ufeff" + encoded,
		"invalid UTF-8":             replace("inventory", "inv\xffentory"),
		"too large":                 encoded + strings.Repeat(" ", 64<<10),
		"an unknown member":         replace(`"route"`, `"extra":"canary","route"`),
		"an unknown null member":    replace(`"route"`, `"extra":null,"route"`),
		"another letter case":       replace(`"route"`, `"Route"`),
		"a member twice":            replace(`"route"`, `"route":"inventory","route"`),
		"a member twice by escape":  replace(`"route"`, `"\u0072oute":"inventory","route"`),
		"schema 2":                  replace(`"schema_version":1`, `"schema_version":2`),
		"schema 0":                  replace(`"schema_version":1`, `"schema_version":0`),
		"schema 1.0":                replace(`"schema_version":1`, `"schema_version":1.0`),
		"schema 1e0":                replace(`"schema_version":1`, `"schema_version":1e0`),
		"schema text":               replace(`"schema_version":1`, `"schema_version":"1"`),
		"schema null":               replace(`"schema_version":1`, `"schema_version":null`),
		"schema missing":            replace(`"schema_version":1,`, ""),
		"URL not in normal form":    replace("https://hub.example.com", "https://hub.example.com/"),
		"URL in upper case":         replace("https://hub.example.com", "https://HUB.example.com"),
		"URL with a query":          replace("https://hub.example.com", "https://hub.example.com?token=canary"),
		"URL with a password":       replace("https://hub.example.com", "https://u:canary@hub.example.com"),
		"client missing":            replace(`"client_app_id":"commerce-agent",`, ""),
		"workspace auto":            replace("inventory", "auto"),
		"session of another form":   replace(session, "canary"),
		"session null":              replace(`"`+session+`"`, "null"),
		"access token empty":        replace(accessCanary, ""),
		"access token null":         replace(`"`+accessCanary+`"`, "null"),
		"access token a number":     replace(`"`+accessCanary+`"`, "1"),
		"access token an object":    replace(`"`+accessCanary+`"`, `{"canary":1}`),
		"access token with a space": replace(accessCanary, "canary 1"),
		"access token with a line":  replace(accessCanary, `canary\r\nX: 1`),
		"access token too long":     replace(accessCanary, strings.Repeat("x", 8193)),
		"access token not ASCII":    replace(accessCanary, "canary令牌"),
		"access token surrogate":    replace(accessCanary, `canary\ud800`),
		"refresh token empty":       replace(refreshCanary, ""),
		"refresh token too long":    replace(refreshCanary, strings.Repeat("x", 8193)),
		"refresh token missing":     replace(`"refresh_token":"`+refreshCanary+`",`, ""),
		"expiry missing":            replace(`"access_expires_at":"2099-01-01T00:00:00.000Z",`, ""),
		"expiry a number":           replace(`"2099-01-01T00:00:00.000Z"`, "4070908800"),
		"expiry with a comma":       replace("2099-01-01T00:00:00.000Z", "2099-01-01T00:00:00,000Z"),
		"expiry without a zone":     replace("2099-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000"),
		"expiry in February":        replace("2099-02-01T00:00:00.000Z", "2099-02-30T00:00:00.000Z"),
		"expiry at hour 24":         replace("2099-01-01T00:00:00.000Z", "2099-01-01T24:00:00.000Z"),
		"expiry with one digit":     replace("2099-01-01T00:00:00.000Z", "2099-01-01T0:00:00.000Z"),
		"expiry with hour offset":   replace("2099-01-01T00:00:00.000Z", "2099-01-01T00:00:00+24:00"),
		"expiry with bad offset":    replace("2099-01-01T00:00:00.000Z", "2099-01-01T00:00:00+08:60"),
		"expiry in lower case":      replace("2099-01-01T00:00:00.000Z", "2099-01-01t00:00:00.000z"),
		"expiry a date":             replace("2099-01-01T00:00:00.000Z", "2099-01-01"),
		"expiry in words":           replace("2099-01-01T00:00:00.000Z", "canary"),
		"expiry in the year 0":      replace("2099-01-01T00:00:00.000Z", "0000-01-01T00:00:00.000Z"),
		"refresh expires first":     replace("2099-02-01", "2098-02-01"),
		"both expire at once":       replace("2099-02-01", "2099-01-01"),
		"an unknown deep duplicate": replace(`"route"`, `"extra":{"a":1,"a":2},"route"`),
		"deeply nested":             replace(`"inventory"`, strings.Repeat("[", 20000)+strings.Repeat("]", 20000)),
	}
	for name, text := range tests {
		got, err := registry.DecodeCredentials([]byte(text))
		var safe *registry.Error
		if !errors.Is(err, registry.ErrDamaged) || !errors.As(err, &safe) {
			t.Errorf("%s: %v; want a *registry.Error that matches ErrDamaged", name, err)
			continue
		}
		if got != (registry.Credentials{}) {
			t.Errorf("%s: credentials beside an error", name)
		}
		wantNoCanary(t, err.Error())
	}
}

func TestDecodeCredentialsTakesTheLargest(t *testing.T) {
	t.Parallel()
	text := encoded + strings.Repeat(" ", 64<<10-len(encoded))
	if _, err := registry.DecodeCredentials([]byte(text)); err != nil {
		t.Errorf("credentials of %d bytes: %v", len(text), err)
	}
}

func FuzzDecodeCredentials(f *testing.F) {
	f.Add([]byte(encoded))
	f.Add([]byte(strings.Replace(encoded, "inventory", `\u0069nventor\u0079`, 1)))
	f.Add([]byte(strings.Replace(encoded, "00:00:00.000Z", "08:00:00.123456789+08:00", 1)))
	f.Add([]byte(strings.Replace(encoded, `"route"`, `"route":1,"route"`, 1)))
	f.Add([]byte(strings.Replace(encoded, accessCanary, `\ud800`, 1)))
	f.Add([]byte(strings.Replace(encoded, accessCanary, `\"\\\u007e</`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := registry.DecodeCredentials(data)
		if err != nil {
			if !errors.Is(err, registry.ErrDamaged) {
				t.Fatalf("error %v does not match ErrDamaged", err)
			}
			wantNoCanary(t, err.Error())
			return
		}
		text, err := registry.EncodeCredentials(first)
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		second, err := registry.DecodeCredentials(text)
		if err != nil || !second.Equal(first) {
			t.Fatalf("what was encoded decodes differently: %v", err)
		}
		again, err := registry.EncodeCredentials(second)
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("encoding twice differs: %v", err)
		}
	})
}
