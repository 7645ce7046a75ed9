package hubtest_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	made := hub.Login(hubtest.Grant{})
	if made.ClientID != hubtest.DefaultClient || !strings.HasPrefix(made.AccessToken, "synthetic-access-") || !strings.HasPrefix(made.RefreshToken, "synthetic-refresh-") {
		t.Errorf("login made %+v", made)
	}
	given := hub.Login(hubtest.Grant{SessionID: runID, AccessToken: "synthetic-access-a", RefreshToken: "synthetic-refresh-a", Routes: []string{"catalog-agent"}})
	if given.ID != runID || given.AccessToken != "synthetic-access-a" || given.RefreshToken != "synthetic-refresh-a" {
		t.Errorf("login made %+v of what was given", given)
	}
	now, ok := hub.Session(runID)
	if diff := cmp.Diff(given, now); !ok || diff != "" {
		t.Errorf("the session is not what the login gave:\n%s", diff)
	}
	given.Routes[0] = "changed"
	if now, _ := hub.Session(runID); now.Routes[0] != "catalog-agent" {
		t.Error("a copy of a session reaches into the Hub")
	}
	hub.EditSession(runID, func(s *hubtest.Session) { s.ID = "another" })
	if now, ok := hub.Session(runID); !ok || now.ID != runID {
		t.Errorf("the id of a session was changed: %+v", now)
	}
	if _, ok := hub.Session("no"); ok || hub.Revoke("no") {
		t.Error("the Hub knows a session that nobody made")
	}
	wantPanic(t, func() { hub.Login(hubtest.Grant{SessionID: "no"}) })
	wantPanic(t, func() { hub.Login(hubtest.Grant{SessionID: runID}) })
	wantPanic(t, func() { hub.Login(hubtest.Grant{AccessToken: "synthetic-access-a"}) })
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	hub := newHub(t, hubtest.WithLifetimes(90*time.Second, 48*time.Hour), hubtest.WithClock(func() time.Time { return now }))
	s := hub.Login(hubtest.Grant{SubjectName: "Synthetic Person"})
	host := newHost(t, hub, s)
	now = now.Add(time.Minute)

	first := host.refresh(s.ClientID, s.RefreshToken)
	is, _ := hub.Session(s.ID)
	want := map[string]any{
		"token_type": "Bearer", "access_token": is.AccessToken, "refresh_token": is.RefreshToken,
		"expires_in": 90.0, "refresh_expires_in": 172740.0, "session_id": s.ID, "client_app_id": s.ClientID,
		"subject_display": map[string]any{"name": "Synthetic Person"}, "subject_display_status": "provided",
	}
	if !is.RefreshExpiresAt.Equal(s.RefreshExpiresAt) || !is.AccessExpiresAt.Equal(now.Add(90*time.Second)) {
		t.Errorf("after a refresh the session ends at %v and the access token at %v", is.RefreshExpiresAt, is.AccessExpiresAt)
	}
	if diff := cmp.Diff(want, first.json); first.status != 200 || diff != "" {
		t.Errorf("refresh: status %d\n%s", first.status, diff)
	}
	if is.AccessToken == s.AccessToken || is.RefreshToken == s.RefreshToken || is.Rotations != 1 {
		t.Errorf("after a refresh the session is %+v", is)
	}
	if got := host.get(capabilitiesPath).status; got != 401 {
		t.Errorf("the access token from before the refresh: %d", got)
	}
	host.token = is.AccessToken
	if got := host.get(capabilitiesPath).status; got != 200 {
		t.Errorf("the access token of the refresh: %d", got)
	}

	second := host.refresh(s.ClientID, s.RefreshToken)
	if second.status != 400 || second.text("error") != "invalid_grant" {
		t.Errorf("second use of a refresh token: %d %s", second.status, second.raw)
	}
	if now, _ := hub.Session(s.ID); !now.Revoked {
		t.Error("the second use of a refresh token left the session alive")
	}
	if got := host.get(capabilitiesPath).status; got != 401 {
		t.Errorf("the access token of an ended session: %d", got)
	}
	if got := host.refresh(s.ClientID, is.RefreshToken); got.status != 400 {
		t.Errorf("the refresh token of an ended session: %d", got.status)
	}
	if got := hub.Requests().Refresh; got != 3 {
		t.Errorf("%d refreshes were counted, want 3", got)
	}
}

func TestRefreshRefused(t *testing.T) {
	t.Parallel()
	const body = `{"grant_type":"refresh_token","client_app_id":"synthetic-host","refresh_token":"synthetic-refresh-a"}`
	nothing := func(*hubtest.Hub) {}
	for name, tt := range map[string]struct {
		set          func(*hubtest.Hub)
		method, path string
		body         string
		status       int
		code         string
	}{
		"wrong grant":     {nothing, "POST", tokenPath, strings.Replace(body, "refresh_token", "password", 1), 400, "unsupported_grant_type"},
		"no JSON":         {nothing, "POST", tokenPath, "grant_type=refresh_token", 400, "invalid_request"},
		"no token":        {nothing, "POST", tokenPath, `{"grant_type":"refresh_token","client_app_id":"synthetic-host"}`, 400, "invalid_grant"},
		"no grant":        {nothing, "POST", tokenPath, `{"client_app_id":"synthetic-host","refresh_token":"synthetic-refresh-a"}`, 400, "invalid_request"},
		"unknown member":  {nothing, "POST", tokenPath, strings.Replace(body, "}", `,"scope":"x"}`, 1), 400, "invalid_request"},
		"no agent-auth":   {func(h *hubtest.Hub) { h.Break(hubtest.AgentAuth) }, "POST", tokenPath, body, 503, "agent_auth_unavailable"},
		"no client":       {nothing, "POST", tokenPath, `{"grant_type":"refresh_token","refresh_token":"synthetic-refresh-a"}`, 400, "invalid_request"},
		"too large":       {nothing, "POST", tokenPath, body + strings.Repeat(" ", 1<<20), 400, "invalid_request"},
		"wrong method":    {nothing, "GET", tokenPath, "", 404, "not_found"},
		"unknown token":   {nothing, "POST", tokenPath, strings.Replace(body, "refresh-a", "refresh-b", 1), 400, "invalid_grant"},
		"wrong client":    {nothing, "POST", tokenPath, strings.Replace(body, "synthetic-host", "another-host", 1), 400, "invalid_grant"},
		"revoked":         {func(h *hubtest.Hub) { h.Revoke(runID) }, "POST", tokenPath, body, 400, "invalid_grant"},
		"client disabled": {func(h *hubtest.Hub) { h.RemoveClient(hubtest.DefaultClient) }, "POST", tokenPath, body, 400, "invalid_grant"},
		"expired": {func(h *hubtest.Hub) {
			h.EditSession(runID, func(s *hubtest.Session) { s.RefreshExpiresAt = s.RefreshExpiresAt.Add(-31 * 24 * time.Hour) })
		}, "POST", tokenPath, body, 400, "invalid_grant"},
		"no control plane": {func(h *hubtest.Hub) { h.Break(hubtest.ControlPlane) }, "POST", tokenPath, body, 503, "agent_auth_unavailable"},
		"storage":          {func(h *hubtest.Hub) { h.Break(hubtest.AuthStorage) }, "POST", tokenPath, body, 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t)
			s := hub.Login(hubtest.Grant{SessionID: runID, RefreshToken: "synthetic-refresh-a"})
			tt.set(hub)
			before, _ := hub.Session(s.ID)
			got := newHost(t, hub, s).do(tt.method, tt.path, tt.body)
			if got.status != tt.status || got.text("error") != tt.code {
				t.Errorf("%d %s, want %d %s", got.status, got.raw, tt.status, tt.code)
			}
			after, _ := hub.Session(s.ID)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("a refused refresh changed the session:\n%s", diff)
			}
		})
	}
}

// A used refresh token ends its session only where its own client, in force,
// presents it: the Hub looks at the client first.
func TestUsedRefreshToken(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	hub.EditClient("another-host", func(*hubtest.Client) {})
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	host.refresh(s.ClientID, s.RefreshToken)
	disable := func(disabled bool) {
		hub.EditClient(s.ClientID, func(c *hubtest.Client) { c.Disabled = disabled })
	}
	for _, step := range []struct {
		name, client string
		disabled     bool
		ends         bool
	}{
		{"another client", "another-host", false, false},
		{"a disabled client", s.ClientID, true, false},
		{"its own client", s.ClientID, false, true},
	} {
		disable(step.disabled)
		if got := host.refresh(step.client, s.RefreshToken); got.status != 400 || got.text("error") != "invalid_grant" {
			t.Errorf("%s: %d %s", step.name, got.status, got.raw)
		}
		if now, _ := hub.Session(s.ID); now.Revoked != step.ends || now.RevokedAt.IsZero() == step.ends {
			t.Errorf("%s: the session is %+v", step.name, now)
		}
	}
}

// The end of a session is the login's, and no rotation moves it.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	hub := newHub(t, hubtest.WithLifetimes(time.Minute, time.Hour), hubtest.WithClock(func() time.Time { return now }))
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	for range 6 {
		now = now.Add(599 * time.Second)
		current, _ := hub.Session(s.ID)
		got := host.refresh(s.ClientID, current.RefreshToken)
		if left := s.RefreshExpiresAt.Sub(now).Seconds(); got.json["refresh_expires_in"] != left {
			t.Errorf("refresh_expires_in %v, want %v", got.json["refresh_expires_in"], left)
		}
	}
	now = now.Add(6 * time.Second)
	current, _ := hub.Session(s.ID)
	if got := host.refresh(s.ClientID, current.RefreshToken); got.status != 400 || current.State(now) != "expired" || current.Revoked {
		t.Errorf("at its end: %d %s, session %+v", got.status, got.raw, current)
	}
	if !hub.Revoke(s.ID) {
		t.Error("no session to revoke")
	}
	hub.EditSession(s.ID, func(s *hubtest.Session) { s.Revoked = false })
	if again, _ := hub.Session(s.ID); !again.RevokedAt.IsZero() {
		t.Errorf("a session that is not revoked any more: %+v", again)
	}
	if hub.ExpireSession("no") {
		t.Error("a session that nobody made was ended")
	}
	other := hub.Login(hubtest.Grant{})
	hub.ExpireSession(other.ID)
	if got := host.refresh(other.ClientID, other.RefreshToken).status; got != 400 {
		t.Errorf("the refresh of a session whose time was ended: %d", got)
	}
	if all := hub.Sessions(); len(all) != 2 || all[0].ID != s.ID || all[1].ID != other.ID {
		t.Errorf("sessions %+v", all)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	hub := newHub(t, hubtest.WithClock(func() time.Time { return now }))
	s := hub.Login(hubtest.Grant{})
	now = s.RefreshExpiresAt.Add(-time.Minute)
	newHost(t, hub, s).refresh(s.ClientID, s.RefreshToken)
	late, _ := hub.Session(s.ID)
	for name, s := range map[string]hubtest.Session{"fresh": s, "in its last minute": late} {
		c := s.Credentials("https://hub.example", hubtest.DefaultRoute)
		encoded, err := registry.EncodeCredentials(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := registry.DecodeCredentials(encoded)
		if err != nil || !back.Equal(c) {
			t.Errorf("%s: not what was encoded, %v", name, err)
		}
		if c.HubURL != "https://hub.example" || c.ClientAppID != s.ClientID || c.Workspace != hubtest.DefaultRoute || c.SessionID != s.ID ||
			c.AccessToken.Reveal() != s.AccessToken || c.RefreshToken.Reveal() != s.RefreshToken || !c.RefreshExpiresAt.Equal(s.RefreshExpiresAt) {
			t.Errorf("%s: not the credentials of the session", name)
		}
	}
}

func TestAccessTokenExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := newHub(t)
		s := hub.Login(hubtest.Grant{})
		host := newHost(t, hub, s)
		status := func() int { return host.get(capabilitiesPath).status }
		if got := status(); got != 200 {
			t.Errorf("a fresh token: %d", got)
		}
		// The Hub counts whole seconds: the token is good until the second after
		// its time is over.
		hub.Inject(hubtest.Fault{Latency: 15*time.Minute + time.Second - time.Nanosecond}, hubtest.Fault{Latency: time.Nanosecond})
		if got := status(); got != 200 {
			t.Errorf("a token just before its end: %d", got)
		}
		if got := status(); got != 401 {
			t.Errorf("a token at its end: %d", got)
		}
		if got := host.refresh(s.ClientID, s.RefreshToken).status; got != 200 {
			t.Errorf("refresh after the access token expired: %d", got)
		}
	})
}

func TestDeclaredDead(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	if !hub.ExpireAccess(s.ID) {
		t.Error("no session to expire")
	}
	if got := host.get(capabilitiesPath).status; got != 401 {
		t.Errorf("a token declared dead: %d", got)
	}
	if got := host.refresh(s.ClientID, s.RefreshToken); got.status != 200 {
		t.Errorf("its refresh: %d", got.status)
	} else {
		host.token = got.text("access_token")
	}
	if got := host.get(capabilitiesPath).status; got != 200 {
		t.Errorf("the token of the refresh: %d", got)
	}
	hub.Revoke(s.ID)
	if got := host.get(capabilitiesPath).status; got != 401 {
		t.Errorf("a token of a revoked session: %d", got)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 15, 8, 30, 0, 123_456_789, time.FixedZone("", 8*3600))
	hub := newHub(t, hubtest.WithClock(func() time.Time { return now }))
	s := hub.Login(hubtest.Grant{})
	if want := now.Add(15 * time.Minute).Truncate(time.Second); !s.AccessExpiresAt.Equal(want) {
		t.Errorf("the access token ends at %v, want %v", s.AccessExpiresAt, want)
	}
	id := submit(t, hub, s, hubtest.ReadTool)
	if got, want := newHost(t, hub, s).get(receiptPath(id)).text("observed_at"), "2026-09-15T00:30:00.123Z"; got != want {
		t.Errorf("observed at %s, want %s", got, want)
	}
	if got := hub.Log()[0].Time; !got.Equal(now) {
		t.Errorf("logged at %v, want %v", got, now)
	}
}

func TestLostRefreshAnswer(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Drop: hubtest.DropAnswer})
	if _, err := host.try(t.Context(), http.MethodPost, tokenPath, refreshBody(s.ClientID, s.RefreshToken)); err == nil {
		t.Error("the answer arrived")
	}
	now, _ := hub.Session(s.ID)
	if now.Rotations != 1 || now.Revoked {
		t.Errorf("after a lost refresh answer the session is %+v, want one rotation", now)
	}
	if got := host.refresh(s.ClientID, s.RefreshToken).status; got != 400 {
		t.Errorf("the same refresh again: %d", got)
	}
	if now, _ := hub.Session(s.ID); !now.Revoked {
		t.Error("the session outlived the second use")
	}
}
