package hubtest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// A program is a client app in the course of a login.
type program struct {
	*host
	callback, state, verifier string
}

func newProgram(t *testing.T, hub *hubtest.Hub) *program {
	return &program{
		host: newHost(t, hub, hubtest.Session{}), callback: "http://127.0.0.1:43123/callback", state: "synthetic-state-1",
		verifier: strings.Repeat("synthetic-verifier-", 3),
	}
}

// start asks for an authorization and returns the address to open.
func (p *program) start(routes ...string) (id, address string) {
	p.t.Helper()
	sum := sha256.Sum256([]byte(p.verifier))
	body, _ := json.Marshal(map[string]any{
		"client_app_id": hubtest.DefaultClient, "redirect_uri": p.callback, "state": p.state, "requested_routes": routes,
		"device_label": "Synthetic <laptop>", "code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	})
	got := p.do(http.MethodPost, "/agent-auth/v1/authorizations", string(body))
	if got.status != 201 {
		p.t.Fatalf("start: %d %s", got.status, got.raw)
	}
	return got.text("authorization_id"), got.text("authorization_url")
}

// exchange exchanges the code of a callback.
func (p *program) exchange(callback string) reply {
	p.t.Helper()
	u, err := url.Parse(callback)
	if err != nil || u.Query().Get("state") != p.state {
		p.t.Fatalf("callback %q, %v", callback, err)
	}
	body, _ := json.Marshal(map[string]string{
		"grant_type": "authorization_code", "client_app_id": hubtest.DefaultClient, "code": u.Query().Get("code"),
		"redirect_uri": p.callback, "code_verifier": p.verifier,
	})
	return p.do(http.MethodPost, tokenPath, string(body))
}

func TestConsentPressed(t *testing.T) {
	t.Parallel()
	hub := newHub(t, hubtest.WithPathPrefix("/hub"))
	p := newProgram(t, hub)
	p.url += "/hub"
	page := &hubtest.Consent{Hub: hub, Account: hubtest.Account{ID: "account-7", Tenant: "tenant", Roles: []string{"clerk"}, Name: "Synthetic Person"}}
	id, address := p.start(hubtest.DefaultRoute)
	if want := hubtest.DefaultAuthorizeURL + "?authorization_id=" + id; address != want {
		t.Errorf("address %s, want %s", address, want)
	}
	callback, err := page.Agree(t.Context(), address)
	must(t, err)
	got := p.exchange(callback)
	if got.status != 200 {
		t.Fatalf("exchange: %d %s", got.status, got.raw)
	}
	s, _ := hub.Session(got.text("session_id"))
	want := hubtest.Session{
		ID: s.ID, ClientID: hubtest.DefaultClient, AuthorizationID: id, DeviceLabel: "Synthetic <laptop>", Routes: []string{hubtest.DefaultRoute},
		Principal: "account-7", Tenant: "tenant", Roles: []string{"clerk"}, OnBehalfOf: "account-7", SubjectName: "Synthetic Person",
		AccessToken: got.text("access_token"), RefreshToken: got.text("refresh_token"),
		CreatedAt: s.CreatedAt, AccessExpiresAt: s.CreatedAt.Add(15 * time.Minute), RefreshExpiresAt: s.CreatedAt.Add(30 * 24 * time.Hour),
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	p.token = s.AccessToken
	if got := p.get("/agent-auth/v1/session"); got.status != 200 || got.text("session_id") != s.ID {
		t.Errorf("session: %d %s", got.status, got.raw)
	}
	// The session is one for operations too.
	if _, err := hub.Submit(s.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool}); err != nil {
		t.Error(err)
	}
	// Once is enough.
	_, err = page.Agree(t.Context(), address)
	wantRefusal(t, err, 409, "invalid_state")
	_, err = page.Refuse(t.Context(), address)
	wantRefusal(t, err, 409, "invalid_state")
	if got := hub.Requests(); got.Start != 1 || got.Exchange != 1 || got.Session != 1 || got.Consent != 6 {
		t.Errorf("requests %+v", got)
	}
	if made, _ := hub.Authorization(id); made.Status != hubtest.AuthorizationConsumed || made.SessionID != s.ID || made.URL != address {
		t.Errorf("authorization %+v", made)
	}
}

func TestConsentRefused(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	p, page := newProgram(t, hub), &hubtest.Consent{Hub: hub}
	id, address := p.start(hubtest.DefaultRoute)
	callback, err := page.Refuse(t.Context(), address)
	if want := "http://127.0.0.1:43123/callback?error=access_denied&state=synthetic-state-1"; err != nil || callback != want {
		t.Errorf("callback %s, %v, want %s", callback, err, want)
	}
	if made, _ := hub.Authorization(id); made.Status != hubtest.AuthorizationDenied || len(hub.Sessions()) != 0 {
		t.Errorf("authorization %+v", made)
	}
}

func TestConsentInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := newHub(t)
		p, page := newProgram(t, hub), &hubtest.Consent{Hub: hub}
		_, late := p.start(hubtest.DefaultRoute)
		time.Sleep(10 * time.Minute)
		_, err := page.Agree(t.Context(), late)
		wantRefusal(t, err, 410, "expired")

		id, ended := p.start(hubtest.DefaultRoute)
		if !hub.ExpireAuthorization(id) || hub.ExpireAuthorization("no") {
			t.Error("what was ended, and what was not, is told wrongly")
		}
		_, err = page.Refuse(t.Context(), ended)
		wantRefusal(t, err, 410, "expired")

		// A code has a time of its own.
		_, address := p.start(hubtest.DefaultRoute)
		callback, err := page.Agree(t.Context(), address)
		must(t, err)
		time.Sleep(2 * time.Minute)
		if got := p.exchange(callback); got.status != 400 || got.text("error") != "invalid_grant" {
			t.Errorf("a code after its time: %d %s", got.status, got.raw)
		}
		id, address = p.start(hubtest.DefaultRoute)
		callback, err = page.Agree(t.Context(), address)
		must(t, err)
		hub.ExpireAuthorization(id)
		if got := p.exchange(callback); got.status != 400 {
			t.Errorf("a code whose time was ended: %d %s", got.status, got.raw)
		}
		var statuses []hubtest.AuthorizationStatus
		for _, a := range hub.Authorizations() {
			statuses = append(statuses, a.Status)
		}
		want := []hubtest.AuthorizationStatus{"expired", "expired", "approved", "approved"}
		if diff := cmp.Diff(want, statuses); diff != "" {
			t.Errorf("authorizations, the oldest first:\n%s", diff)
		}
	})
}

// What the page asks for is asked over HTTP, and faults meet it.
func TestConsentMeetsFaults(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	p, page := newProgram(t, hub), &hubtest.Consent{Hub: hub}
	_, address := p.start(hubtest.DefaultRoute)
	hub.Inject(hubtest.Fault{On: hubtest.ConsentRequest, Drop: hubtest.DropRequest})
	if _, err := page.Agree(t.Context(), address); err == nil || errors.As(err, new(*hubtest.Refusal)) {
		t.Errorf("a lost request: %v", err)
	}
	hub.Inject(hubtest.Fault{On: hubtest.ConsentRequest, Skip: 1, Drop: hubtest.DropMidBody})
	if _, err := page.Agree(t.Context(), address); err == nil {
		t.Error("a lost answer is told as one")
	}
	_, err := page.Agree(t.Context(), address)
	wantRefusal(t, err, 409, "invalid_state") // the Hub had it
	hub.Inject(hubtest.Fault{On: hubtest.ConsentRequest, Status: 200, Body: []byte("<html>")})
	if _, err := page.Agree(t.Context(), address); err == nil {
		t.Error("a page passed for the Hub's answer")
	}
	hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.Disabled = true })
	_, err = page.Agree(t.Context(), address)
	wantRefusal(t, err, 401, "unauthorized")
	if _, err := page.Agree(t.Context(), "http://[::1"); err == nil {
		t.Error("an address that is none was taken")
	}
	_, err = page.Agree(t.Context(), "https://business.example.test/")
	wantRefusal(t, err, 404, "not_found")
}

// A person presses the buttons of the page.
func TestConsentPage(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	consent := &hubtest.Consent{Hub: hub, Account: hubtest.Account{Name: "Synthetic <Person>"}}
	server := httptest.NewServer(consent)
	t.Cleanup(server.Close)
	hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.AuthorizeURL, c.Name = server.URL+"/agree?from=hub", "Synthetic program" })
	browser := &http.Client{
		Transport:     server.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	read := func(res *http.Response, err error) (int, string, *http.Response) {
		t.Helper()
		must(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must(t, err)
		if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", res.Header)
		}
		return res.StatusCode, string(body), res
	}
	press := func(id, decision string, header ...string) (int, string, *http.Response) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/agree", strings.NewReader(url.Values{"authorization_id": {id}, "decision": {decision}}.Encode()))
		must(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return read(browser.Do(req))
	}
	p := newProgram(t, hub)
	id, address := p.start(hubtest.DefaultRoute)

	status, page, _ := read(browser.Get(address))
	for _, want := range []string{"Let Synthetic program act for you?", "Synthetic &lt;Person&gt;", hubtest.DefaultAccount, "Synthetic &lt;laptop&gt;", hubtest.DefaultRoute, ">Agree<", ">Refuse<", "You can decide until"} {
		if status != 200 || !strings.Contains(page, want) {
			t.Errorf("%d: the page does not have %q:\n%s", status, want, page)
		}
	}
	if status, _, _ := press(id, "agree", "Origin", "https://other.example"); status != 403 {
		t.Errorf("a press of another site: %d", status)
	}
	if status, _, _ := press(id, "perhaps"); status != 400 {
		t.Errorf("a press of no button: %d", status)
	}
	if made, _ := hub.Authorization(id); made.Status != hubtest.AuthorizationPending {
		t.Errorf("it was decided: %+v", made)
	}
	status, _, res := press(id, "agree", "Origin", server.URL)
	callback := res.Header.Get("Location")
	if status != 303 || !strings.HasPrefix(callback, p.callback+"?code=synthetic-code-") {
		t.Errorf("agree: %d, to %q", status, callback)
	}
	status, page, _ = read(browser.Get(address))
	if status != 200 || !strings.Contains(page, "has not picked the login up yet") || strings.Contains(page, ">Agree<") {
		t.Errorf("the page after it: %d\n%s", status, page)
	}
	if got := p.exchange(callback); got.status != 200 {
		t.Errorf("exchange: %d %s", got.status, got.raw)
	}
	if _, page, _ = read(browser.Get(address)); !strings.Contains(page, "The program is logged in.") {
		t.Errorf("the page once the program is logged in:\n%s", page)
	}
	if status, page, _ := press(id, "refuse"); status != 409 || !strings.Contains(page, "decided already") {
		t.Errorf("a second press: %d\n%s", status, page)
	}

	id, address = p.start(hubtest.DefaultRoute)
	if status, _, res = press(id, "refuse"); status != 303 || !strings.Contains(res.Header.Get("Location"), "error=access_denied") {
		t.Errorf("refuse: %d %v", status, res.Header)
	}
	if _, page, _ = read(browser.Get(address)); !strings.Contains(page, "You have refused") {
		t.Errorf("the page after a refusal:\n%s", page)
	}

	id, address = p.start(hubtest.DefaultRoute)
	hub.ExpireAuthorization(id)
	if _, page, _ = read(browser.Get(address)); !strings.Contains(page, "Its time ran out") {
		t.Errorf("the page of a request that is over:\n%s", page)
	}
	if status, page, _ = press(id, "agree"); status != 410 || !strings.Contains(page, "Its time ran out") {
		t.Errorf("a press on it: %d\n%s", status, page)
	}
	for _, other := range []string{"", "?authorization_id=no", "?authorization_id=" + runID} {
		if status, page, _ := read(browser.Get(server.URL + "/agree" + other)); status != 404 || !strings.Contains(page, "There is no such login") {
			t.Errorf("%q: %d\n%s", other, status, page)
		}
	}
	hub.Break(hubtest.AgentAuth)
	if status, page, _ := read(browser.Get(address)); status != 502 || !strings.Contains(page, "503 agent_auth_unavailable") {
		t.Errorf("without a Hub that can: %d\n%s", status, page)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, address, nil)
	must(t, err)
	if status, _, res := read(browser.Do(req)); status != 405 || res.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("DELETE: %d %v", status, res.Header)
	}
}

// A person may agree to less than was asked for, and to nothing else.
func TestConsentToLess(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	hub.EditRoute("second-agent", func(*hubtest.Route) {})
	p := newProgram(t, hub)
	_, address := p.start(hubtest.DefaultRoute, "second-agent")
	_, err := (&hubtest.Consent{Hub: hub, Routes: []string{"third-agent"}}).Agree(t.Context(), address)
	wantRefusal(t, err, 403, "route_not_allowed")
	callback, err := (&hubtest.Consent{Hub: hub, Routes: []string{"second-agent"}}).Agree(t.Context(), address)
	must(t, err)
	got := p.exchange(callback)
	if s, _ := hub.Session(got.text("session_id")); !cmp.Equal(s.Routes, []string{"second-agent"}) {
		t.Errorf("the session may use %v", s.Routes)
	}
}

// The name to show for an account can be changed afterwards.
func TestSubjectDisplay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	hub := newHub(t, hubtest.WithClock(func() time.Time { return now }))
	hub.EditClient("another-host", func(*hubtest.Client) {})
	s := hub.Login(hubtest.Grant{SessionID: runID, Tenant: "tenant"})
	path := "/agent-auth/v1/sessions/" + runID + "/subject-display"
	put := func(client, path, body string) asked {
		t.Helper()
		return ask(t, hub, http.MethodPut, path, "Bearer "+hub.ClientToken(client), body, nil)
	}
	want := `{"session_id":"` + runID + `","client_app_id":"synthetic-host","device_label":"Synthetic device",` +
		`"subject_display":{"name":"例 Person"},"subject_display_status":"provided",` +
		`"principal":{"id":"synthetic-person","tenant":"tenant","roles":[]},"on_behalf_of":"synthetic-person","allowed_routes":["catalog-agent"],` +
		`"state":"active","created_at":"2026-11-30T00:00:00.000Z","expires_at":"2026-12-30T00:00:00.000Z"}`
	if got := put(s.ClientID, path, `{"subject_display":{"name":" 例 Person "}}`); got.Status != 200 || got.Raw != want {
		t.Errorf("%d %s\nwant %s", got.Status, got.Raw, want)
	}
	if now, _ := hub.Session(s.ID); now.SubjectName != "例 Person" {
		t.Errorf("the session is %+v", now)
	}
	for name, tt := range map[string]struct {
		client, path, body string
		status             int
	}{
		"taken away":     {s.ClientID, path, `{"subject_display":null}`, 200},
		"nothing":        {s.ClientID, path, ``, 400},
		"no object":      {s.ClientID, path, `{"subject_display":"x"}`, 400},
		"a member more":  {s.ClientID, path, `{"subject_display":{"name":"x","x":1}}`, 400},
		"one beside it":  {s.ClientID, path, `{"subject_display":null,"x":1}`, 400},
		"blank":          {s.ClientID, path, `{"subject_display":{"name":"  "}}`, 400},
		"a control":      {s.ClientID, path, `{"subject_display":{"name":"a\tb"}}`, 400},
		"half a letter":  {s.ClientID, path, `{"subject_display":{"name":"a\ud83d"}}`, 400},
		"121 units":      {s.ClientID, path, `{"subject_display":{"name":"` + strings.Repeat("x", 121) + `"}}`, 400},
		"too large":      {s.ClientID, path, `{"subject_display":null}` + strings.Repeat(" ", 4096), 400},
		"another client": {"another-host", path, `{"subject_display":null}`, 404},
		"no client":      {"nobody", path, `{"subject_display":null}`, 401},
		"no session":     {s.ClientID, strings.Replace(path, runID, authSession, 1), `{"subject_display":null}`, 404},
		"no UUID":        {s.ClientID, strings.Replace(path, runID, strings.Repeat("0", 36), 1), `{"subject_display":null}`, 404},
	} {
		if got := put(tt.client, tt.path, tt.body); got.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", name, got.Status, got.Raw, tt.status)
		}
	}
	if got := ask(t, hub, http.MethodGet, path, "Bearer "+hub.ClientToken(s.ClientID), "", nil); got.Status != 405 || got.Raw != `{"error":"method_not_allowed"}` {
		t.Errorf("GET: %d %s", got.Status, got.Raw)
	}
	hub.Revoke(s.ID)
	if got := put(s.ClientID, path, `{"subject_display":null}`); got.Status != 409 || got.Raw != `{"error":"session_inactive"}` {
		t.Errorf("of a session that is over: %d %s", got.Status, got.Raw)
	}
}

// What the Hub says at paths of authorizations that are not quite right.
func TestAuthorizationPaths(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	id, _ := newProgram(t, hub).start(hubtest.DefaultRoute)
	authorization := "Bearer " + hub.ClientToken(hubtest.DefaultClient)
	const base = "/agent-auth/v1/authorizations"
	for _, tt := range []struct {
		method, path, authorization string
		status                      int
		code                        string
	}{
		{"GET", base + "/" + strings.ToUpper(id), authorization, 200, ""},
		{"GET", base + "/" + id + "?x=1", authorization, 200, ""},
		{"GET", base + "/" + id, "", 401, "unauthorized"},
		{"POST", base + "/" + id, authorization, 405, "method_not_allowed"},
		{"GET", base + "/" + id + "/approve", authorization, 405, "method_not_allowed"},
		{"POST", base + "/" + id + "/APPROVE", authorization, 405, "method_not_allowed"},
		{"POST", base + "/" + id + "/other", authorization, 404, "not_found"},
		{"GET", base + "/" + strings.Repeat("0", 36), authorization, 404, "not_found"},
		{"GET", base, authorization, 404, "not_found"},
		{"PUT", "/agent-auth/v1/token", "", 404, "not_found"},
		{"POST", "/agent-auth/v1/sessions/" + strings.Repeat("0", 36) + "/revoke", authorization, 404, "not_found"},
		{"GET", "/agent-auth/v1/sessions/" + runID + "/revoke", authorization, 404, "not_found"},
	} {
		got := ask(t, hub, tt.method, tt.path, tt.authorization, "", nil)
		var said struct{ Error string }
		must(t, json.Unmarshal([]byte(got.Raw), &said))
		if got.Status != tt.status || said.Error != tt.code {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, got.Status, got.Raw, tt.status, tt.code)
		}
	}
}

// Callback addresses, as the Hub takes them and as it writes them anew.
func TestCallbackAddresses(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://127.0.0.1:8080":              "http://127.0.0.1:8080/?",
		"HTTP://127.0.0.1:8080/A/../b":       "http://127.0.0.1:8080/b?",
		"http://[::1]:00081/":                "http://[::1]:81/?",
		"http://127.0.0.1:80/x":              "http://127.0.0.1/x?",
		"http://127.0.0.1:8080//x":           "http://127.0.0.1:8080//x?",
		"http://127.0.0.1:8080/x?":           "http://127.0.0.1:8080/x?",
		"http://127.0.0.1:8080/x?a=%zz&b+c*": "http://127.0.0.1:8080/x?a=%25zz&b+c*=&",
		"http://127.0.0.1:8080/x?é=%C3%28":   "http://127.0.0.1:8080/x?%C3%A9=%EF%BF%BD%28&",
		"http://127.0.0.1:8080\\x":           "",
		"http://127.0.0.1:100000/":           "",
		"http://127.0.0.1:8080/#x":           "",
		" http://127.0.0.1:8080/":            "",
		"http://[::1%25eth0]:8080/":          "",
		"http://[::ffff:7f00:1]:8080/":       "",
		"http://127.0.0.1.:8080/":            "",
	} {
		hub := newHub(t)
		p := newProgram(t, hub)
		p.callback = given
		body, _ := json.Marshal(map[string]any{
			"client_app_id": hubtest.DefaultClient, "redirect_uri": given, "state": p.state, "requested_routes": []string{hubtest.DefaultRoute},
			"device_label": "x", "code_challenge": strings.Repeat("c", 43), "code_challenge_method": "S256",
		})
		got := p.do(http.MethodPost, "/agent-auth/v1/authorizations", string(body))
		if want == "" {
			if got.status != 400 {
				t.Errorf("%s: %d %s", given, got.status, got.raw)
			}
			continue
		}
		callback, err := (&hubtest.Consent{Hub: hub}).Refuse(t.Context(), got.text("authorization_url"))
		if want += "error=access_denied&state=synthetic-state-1"; err != nil || callback != want {
			t.Errorf("%s: %s, %v, want %s", given, callback, err, want)
		}
	}
}
