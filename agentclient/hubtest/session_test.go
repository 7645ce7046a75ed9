package hubtest_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
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
	hub := newHub(t, hubtest.WithLifetimes(90*time.Second, 48*time.Hour))
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)

	first := host.refresh(s.ClientID, s.RefreshToken)
	now, _ := hub.Session(s.ID)
	want := map[string]any{
		"token_type": "Bearer", "access_token": now.AccessToken, "refresh_token": now.RefreshToken,
		"expires_in": 90.0, "refresh_expires_in": 172800.0, "session_id": s.ID, "client_app_id": s.ClientID,
	}
	if diff := cmp.Diff(want, first.json); first.status != 200 || diff != "" {
		t.Errorf("refresh: status %d\n%s", first.status, diff)
	}
	if now.AccessToken == s.AccessToken || now.RefreshToken == s.RefreshToken || now.Rotations != 1 {
		t.Errorf("after a refresh the session is %+v", now)
	}
	if got := host.get(capabilitiesPath).status; got != 401 {
		t.Errorf("the access token from before the refresh: %d", got)
	}
	host.token = now.AccessToken
	if got := host.get(capabilitiesPath).status; got != 200 {
		t.Errorf("the access token of the refresh: %d", got)
	}

	second := host.refresh(s.ClientID, s.RefreshToken)
	if second.status != 401 || second.text("error") != "invalid_grant" {
		t.Errorf("second use of a refresh token: %d %s", second.status, second.raw)
	}
	if now, _ := hub.Session(s.ID); !now.Revoked {
		t.Error("the second use of a refresh token left the session alive")
	}
	if got := host.get(capabilitiesPath).status; got != 401 {
		t.Errorf("the access token of an ended session: %d", got)
	}
	if got := host.refresh(s.ClientID, now.RefreshToken); got.status != 401 {
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
		"no token":        {nothing, "POST", tokenPath, `{"grant_type":"refresh_token","client_app_id":"synthetic-host"}`, 400, "invalid_request"},
		"no client":       {nothing, "POST", tokenPath, `{"grant_type":"refresh_token","refresh_token":"synthetic-refresh-a"}`, 400, "invalid_request"},
		"too large":       {nothing, "POST", tokenPath, body + strings.Repeat(" ", 1<<20), 400, "invalid_request"},
		"query":           {nothing, "POST", tokenPath + "?v=1", body, 400, "invalid_request"},
		"wrong method":    {nothing, "GET", tokenPath, "", 404, "not_found"},
		"unknown token":   {nothing, "POST", tokenPath, strings.Replace(body, "refresh-a", "refresh-b", 1), 401, "invalid_grant"},
		"wrong client":    {nothing, "POST", tokenPath, strings.Replace(body, "synthetic-host", "another-host", 1), 401, "invalid_grant"},
		"revoked":         {func(h *hubtest.Hub) { h.Revoke(runID) }, "POST", tokenPath, body, 401, "invalid_grant"},
		"client disabled": {func(h *hubtest.Hub) { h.RemoveClient(hubtest.DefaultClient) }, "POST", tokenPath, body, 401, "invalid_grant"},
		"expired": {func(h *hubtest.Hub) {
			h.EditSession(runID, func(s *hubtest.Session) { s.RefreshExpiresAt = s.RefreshExpiresAt.Add(-31 * 24 * time.Hour) })
		}, "POST", tokenPath, body, 401, "invalid_grant"},
		"no control plane": {func(h *hubtest.Hub) { h.Break(hubtest.ControlPlane) }, "POST", tokenPath, body, 401, "unauthorized"},
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
		hub.Inject(hubtest.Fault{Latency: 15*time.Minute - time.Nanosecond}, hubtest.Fault{Latency: time.Nanosecond})
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
	if want := now.Add(15 * time.Minute); !s.AccessExpiresAt.Equal(want) {
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
	if got := host.refresh(s.ClientID, s.RefreshToken).status; got != 401 {
		t.Errorf("the same refresh again: %d", got)
	}
	if now, _ := hub.Session(s.ID); !now.Revoked {
		t.Error("the session outlived the second use")
	}
}
