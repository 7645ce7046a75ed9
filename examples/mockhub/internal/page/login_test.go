package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// start begins a login, and gives the address at which the person decides.
func (b *bench) start(device string) (id, address string) {
	b.t.Helper()
	body := fmt.Sprintf(`{"client_app_id":"synthetic-host","redirect_uri":"http://127.0.0.1:43123/callback","state":"synthetic-state","requested_routes":["catalog-agent"],`+
		`"device_label":%q,"code_challenge":%q,"code_challenge_method":"S256"}`, device, strings.Repeat("c", 43))
	w := b.serve(httptest.NewRequest(http.MethodPost, "/agent-auth/v1/authorizations", strings.NewReader(body)))
	var started struct {
		ID  string `json:"authorization_id"`
		URL string `json:"authorization_url"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &started); err != nil || w.Code != http.StatusCreated {
		b.t.Fatalf("start: %d %s", w.Code, w.Body)
	}
	return started.ID, started.URL
}

// login says how the newest login stands.
func (b *bench) login() string {
	b.t.Helper()
	l := b.state().Logins[0]
	var buttons []string
	for _, press := range l.Buttons {
		buttons = append(buttons, press.Do)
	}
	state, _, _ := strings.Cut(l.State, " until ")
	return fmt.Sprintf("%s|%t|%t|%s", state, l.Live, l.Page != "", strings.Join(buttons, " "))
}

// The page lists logins as they come and go.
func TestLogins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	consent := &hubtest.Consent{Hub: b.hub, Account: hubtest.Account{Name: "Dora"}}
	is := func(want string) {
		t.Helper()
		if got := b.login(); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	if logins := b.state().Logins; len(logins) != 0 {
		t.Errorf("%+v", logins)
	}
	id, address := b.start("laptop\u202e")
	is("waits for a person|true|true|lapse")
	if l := b.state().Logins[0]; l.ID != id || l.Device != `laptop\u202e` || l.For != "synthetic-host in catalog-agent" || l.Page != address {
		t.Errorf("%+v", l)
	}
	if status, said := b.press("lapse", "no", ""); status != http.StatusConflict || said != "There is no such login." {
		t.Errorf("%d %s", status, said)
	}
	b.do("lapse", id, "")
	is("expired|false|false|")
	if _, err := consent.Agree(t.Context(), address); err == nil {
		t.Error("a login whose time is over was agreed to")
	}

	_, address = b.start("laptop")
	if _, err := consent.Refuse(t.Context(), address); err != nil {
		t.Error(err)
	}
	is("refused|false|false|")

	id, address = b.start("laptop")
	if _, err := consent.Agree(t.Context(), address); err != nil {
		t.Error(err)
	}
	is("agreed, its code not used yet|true|false|lapse")
	b.do("lapse", id, "")
	is("agreed, its code ran out|false|false|")
	if n := len(b.state().Logins); n != 3 {
		t.Errorf("%d logins are shown", n)
	}
}

// A session that came of a login stands beside those that the page knows by name.
func TestSessionsOfLogins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.hub.Login(hubtest.Grant{SubjectName: "Dora\u202e"})
	b.do("submit", s.ID, hubtest.WriteTool)
	shown := b.state().Sessions
	if len(shown) != 3 || shown[2].ID != s.ID || shown[2].Name != `Dora\u202e` || b.state().Invocations[0].Session != `Dora\u202e` {
		t.Errorf("%+v", shown)
	}
	for range 25 {
		b.hub.Login(hubtest.Grant{})
	}
	if n := len(b.state().Sessions); n != 22 {
		t.Errorf("%d sessions are shown, want the two and the newest 20", n)
	}
}
