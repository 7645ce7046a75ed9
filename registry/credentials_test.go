package registry_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/registry"
)

func TestCredentialsEqual(t *testing.T) {
	t.Parallel()
	c := credentials()
	elsewhere := c
	elsewhere.AccessExpiresAt = c.AccessExpiresAt.In(time.FixedZone("", 3600))
	elsewhere.AccessToken = registry.NewSecret(strings.Clone(accessCanary))
	if !c.Equal(elsewhere) {
		t.Error("credentials differ by the zone of a time")
	}
	for name, change := range map[string]func(*registry.Credentials){
		"HubURL":           func(c *registry.Credentials) { c.HubURL += "/x" },
		"ClientAppID":      func(c *registry.Credentials) { c.ClientAppID = "x1" },
		"Workspace":        func(c *registry.Credentials) { c.Workspace = "x1" },
		"SessionID":        func(c *registry.Credentials) { c.SessionID = strings.ToUpper("aaaaaaaa" + session[8:]) },
		"AccessToken":      func(c *registry.Credentials) { c.AccessToken = registry.NewSecret("x") },
		"RefreshToken":     func(c *registry.Credentials) { c.RefreshToken = registry.NewSecret("x") },
		"AccessExpiresAt":  func(c *registry.Credentials) { c.AccessExpiresAt = c.AccessExpiresAt.Add(1) },
		"RefreshExpiresAt": func(c *registry.Credentials) { c.RefreshExpiresAt = c.RefreshExpiresAt.Add(1) },
	} {
		other := credentials()
		change(&other)
		if c.Equal(other) {
			t.Errorf("credentials are equal although %s differs", name)
		}
	}
}

func TestCredentialsBinding(t *testing.T) {
	t.Parallel()
	want := registry.Binding{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory", SessionID: session}
	if diff := cmp.Diff(want, credentials().Binding()); diff != "" {
		t.Errorf("Binding (-want +got):\n%s", diff)
	}
}

func TestCredentialsAreNotForJSON(t *testing.T) {
	t.Parallel()
	c := credentials()
	for _, v := range []any{c, &c, []registry.Credentials{c}, map[string]any{"login": c}} {
		data, err := json.Marshal(v)
		if err == nil || len(data) > 0 {
			t.Errorf("json.Marshal(%T) = %q, %v; want an error", v, data, err)
		}
		if err != nil && !strings.Contains(err.Error(), "EncodeCredentials") {
			t.Errorf("error %q does not say what to use", err)
		}
	}
	for _, text := range []string{`{}`, `{"HubURL":"https://hub.example.com"}`} {
		var back registry.Credentials
		if err := json.Unmarshal([]byte(text), &back); err == nil {
			t.Errorf("json.Unmarshal(%s): no error", text)
		}
	}
}

func TestConnectionCheck(t *testing.T) {
	t.Parallel()
	connection := registry.Connection{Key: "conn_ad8c5f3426e68dfa6b0838bd575794c2", HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"}
	respelled := credentials()
	respelled.HubURL = "HTTPS://hub.example.com:443/"
	for _, good := range []registry.Credentials{credentials(), respelled} {
		if err := connection.Check(good); err != nil {
			t.Errorf("Check: %v", err)
		}
	}
	for _, bad := range badCredentials() {
		err := connection.Check(bad.credentials)
		wantInvalid(t, err, bad.member, "")
		if err != nil {
			wantNoCanary(t, err.Error())
		}
	}
	for name, change := range map[string]func(*registry.Credentials){
		"Hub":        func(c *registry.Credentials) { c.HubURL = "https://other.example.com" },
		"client app": func(c *registry.Credentials) { c.ClientAppID = "other-agent" },
		"workspace":  func(c *registry.Credentials) { c.Workspace = "orders" },
	} {
		foreign := credentials()
		change(&foreign)
		wantInvalid(t, connection.Check(foreign), name, "")
	}
}

type badCredential struct {
	member      string
	credentials registry.Credentials
}

// badCredentials are those that break one rule each, and the member that the
// error has to name.
func badCredentials() (all []badCredential) {
	add := func(member string, change func(*registry.Credentials)) {
		c := credentials()
		change(&c)
		all = append(all, badCredential{member, c})
	}
	for _, url := range []string{"", "hub.example.com", "https://u:canary@hub.example.com", "https://hub.example.com?token=canary", "ftp://hub.example.com"} {
		add("Hub URL", func(c *registry.Credentials) { c.HubURL = url })
	}
	for _, id := range []string{"", "A", "commerce agent", "x\n"} {
		add("client app ID", func(c *registry.Credentials) { c.ClientAppID = id })
	}
	for _, id := range []string{"", "auto", "库存"} {
		add("workspace", func(c *registry.Credentials) { c.Workspace = id })
	}
	for _, id := range []string{"", "1", session + "\n", strings.Repeat("0", 36)} {
		add("session ID", func(c *registry.Credentials) { c.SessionID = id })
	}
	for _, token := range []string{"", " ", "canary x", "canary\r\nX: y", "canary\x00", "canary\x7f", "canary令牌", "canary\xff", strings.Repeat("canary..", 1024) + "x"} {
		add("access token", func(c *registry.Credentials) { c.AccessToken = registry.NewSecret(token) })
		add("refresh token", func(c *registry.Credentials) { c.RefreshToken = registry.NewSecret(token) })
	}
	for _, moment := range []time.Time{{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 30, 0, 0, time.FixedZone("", -3600))} {
		add("access token's expiry", func(c *registry.Credentials) { c.AccessExpiresAt = moment })
		add("refresh token's expiry", func(c *registry.Credentials) { c.RefreshExpiresAt = moment })
	}
	add("later", func(c *registry.Credentials) { c.RefreshExpiresAt = c.AccessExpiresAt })
	add("later", func(c *registry.Credentials) { c.RefreshExpiresAt = c.AccessExpiresAt.Add(999 * time.Microsecond) })
	add("later", func(c *registry.Credentials) { c.RefreshExpiresAt = c.AccessExpiresAt.Add(-time.Second) })
	return all
}
