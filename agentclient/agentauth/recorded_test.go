package agentauth_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// recorded is a request to the Hub's own login code, and its answer.
type recorded struct {
	Flow, Name, Step string
	Request          struct {
		Method, Path, Authorization string
		Body                        json.RawMessage
	}
	Answer struct {
		Status int
		Raw    string
	}
}

func readRecorded(t testing.TB) (cases []recorded) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/hub-login-recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// What the client makes of each refusal that the Hub was seen to give.
var refusals = map[string]map[string]struct {
	code feedback.Code
	next feedback.NextAction
}{
	"start": {
		`400 {"error":"invalid_request"}`:             {feedback.CodeInvalidRequest, feedback.NextNone},
		`400 {"error":"invalid_client"}`:              {feedback.CodeInvalidClient, feedback.NextNone},
		`429 {"error":"rate_limited"}`:                {feedback.CodeRateLimited, feedback.NextReauthorize},
		`500 {"error":"internal_error"}`:              {feedback.CodeAgentTransportUnavailable, feedback.NextReauthorize},
		`503 {"error":"agent_authorize_url_invalid"}`: {feedback.CodeAgentAuthorizeURLInvalid, feedback.NextNone},
		`503 {"error":"agent_auth_unavailable"}`:      {feedback.CodeAgentAuthUnavailable, feedback.NextReauthorize},
	},
	"exchange": {
		`400 {"error":"invalid_request"}`:        {feedback.CodeInvalidRequest, feedback.NextNone},
		`400 {"error":"invalid_grant"}`:          {feedback.CodeInvalidGrant, feedback.NextReauthorize},
		`400 {"error":"unsupported_grant_type"}`: {feedback.CodeUnknownFailure, feedback.NextNone},
		`500 {"error":"internal_error"}`:         {feedback.CodeAgentTransportUnavailable, feedback.NextReauthorize},
		`503 {"error":"agent_auth_unavailable"}`: {feedback.CodeAgentAuthUnavailable, feedback.NextReauthorize},
	},
	"session": {
		`401 {"error":"unauthorized"}`:   {feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize},
		`500 {"error":"internal_error"}`: {feedback.CodeAgentTransportUnavailable, feedback.NextReauthorize},
	},
	"revoke": {
		`400 {"error":"invalid_request"}`:        {feedback.CodeInvalidRequest, feedback.NextNone},
		`401 {"error":"unauthorized"}`:           {feedback.CodeUnknownFailure, feedback.NextNone},
		`500 {"error":"internal_error"}`:         {feedback.CodeAgentTransportUnavailable, feedback.NextNone},
		`503 {"error":"agent_auth_unavailable"}`: {feedback.CodeAgentAuthUnavailable, feedback.NextNone},
	},
}

// The client meets every recorded answer with the right error, or takes it.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	met := map[string]map[string]bool{"start": {}, "exchange": {}, "session": {}, "revoke": {}}
	for _, c := range readRecorded(t) {
		seen, ours := met[c.Step]
		if !ours {
			continue
		}
		var refusal struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal([]byte(c.Answer.Raw), &refusal)
		key := ""
		if c.Answer.Status >= 400 {
			key = fmt.Sprintf(`%d {"error":%q}`, c.Answer.Status, refusal.Error)
			if _, known := refusals[c.Step][key]; !known {
				t.Errorf("%s, %s: nobody expects %s", c.Flow, c.Name, key)
			}
			seen[key] = true
		}
		t.Run(c.Flow+"/"+c.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { meet(t, c, key) })
		})
	}
	for step, all := range refusals {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(met[step]))); diff != "" {
			t.Errorf("%s: %s", step, diff)
		}
	}
}

func meet(t *testing.T, c recorded, refusal string) {
	h := newHub(t)
	var member struct {
		SessionID string   `json:"session_id"`
		Routes    []string `json:"allowed_routes"`
	}
	_ = json.Unmarshal([]byte(c.Answer.Raw), &member)
	h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
		r := real()
		if step == c.Step {
			return answer(c.Answer.Status, c.Answer.Raw), nil
		}
		return r, nil
	})
	client := h.client()
	p := newPipes()
	l, err := client.Begin(t.Context(), agentauth.WithListen(p.listen))
	want := refusals[c.Step][refusal]
	if c.Step == "start" {
		if refusal != "" {
			expectError(t, err, want.code, want.next)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var start struct {
			URL string `json:"authorization_url"`
		}
		_ = json.Unmarshal([]byte(c.Answer.Raw), &start)
		if l.URL() != start.URL {
			t.Errorf("the address is %s", l.URL())
		}
		l.Close()
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	done := wait(t.Context(), l)
	browseThrough(t, p.transport(), h.approve(l.URL()))
	w := <-done
	switch {
	case c.Step == "revoke":
		if w.err != nil {
			t.Fatal(w.err)
		}
		err := client.Revoke(t.Context(), w.credentials)
		if refusal == "" {
			if err != nil {
				t.Error(err)
			}
			return
		}
		expectError(t, err, want.code, want.next, agentauth.ErrSessionLivesOn)
	case refusal != "":
		expectError(t, w.err, want.code, want.next)
	case c.Step == "exchange":
		// A good grant. The session that this Hub of the test then tells of is
		// another one than the recorded, or has dead tokens.
		expectError(t, w.err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize)
	default:
		// A good answer about a session, which is another one than the login's.
		expectError(t, w.err, feedback.CodeAgentInvalidResponse, feedback.NextNone)
		s, ok := agentauth.ParseSession([]byte(c.Answer.Raw))
		if !ok || s.ID != member.SessionID || !slices.Equal(s.Workspaces, member.Routes) || s.EndsAt.Sub(s.CreatedAt) != 30*24*time.Hour || s.Principal.ID == "" || s.OnBehalfOf == "" {
			t.Errorf("%+v, %v", s, ok)
		}
	}
}

// What is sent has exactly the members that the Hub takes.
func TestRequestsAreTheRecordedOnes(t *testing.T) {
	t.Parallel()
	want := map[string][]string{}
	for _, c := range readRecorded(t) {
		var members map[string]any
		good := c.Answer.Status < 300 && json.Unmarshal(c.Request.Body, &members) == nil && c.Request.Authorization == "none"
		if _, known := want[c.Step]; good && !known && (c.Flow == "good" || c.Flow == "revoke by refresh token") {
			want[c.Step] = slices.Sorted(maps.Keys(members))
		}
	}
	h := newHub(t)
	got := map[string][]string{}
	bearers := map[string][]string{}
	h.see = func(step string, r *http.Request, members map[string]any) {
		if len(members) > 0 {
			got[step] = slices.Sorted(maps.Keys(members))
		}
		bearers[step] = append(bearers[step], r.Header.Get("Authorization"))
		for name, value := range map[string]string{"Accept": "application/json", "Cookie": ""} {
			if r.Header.Get(name) != value {
				t.Errorf("%s: %s: %q", step, name, r.Header.Get(name))
			}
		}
		if len(members) > 0 != (r.Header.Get("Content-Type") == "application/json") || !strings.HasPrefix(r.UserAgent(), "bailinghub-go/") {
			t.Errorf("%s: %v", step, r.Header)
		}
		if step == "start" && (members["code_challenge_method"] != "S256" || len(members["code_challenge"].(string)) != 43 ||
			!cmp.Equal(members["requested_routes"], []any{workspace}) || members["device_label"] != "Test device") {
			t.Errorf("%v", members)
		}
	}
	client := h.client()
	l, err := client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := wait(t.Context(), l)
	browse(t, h.approve(l.URL()))
	w := <-done
	if w.err != nil {
		t.Fatal(w.err)
	}
	if err := client.Revoke(t.Context(), w.credentials); err != nil {
		t.Fatal(err)
	}
	delete(want, "refresh")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	bearer := "Bearer " + w.credentials.AccessToken.Reveal()
	if diff := cmp.Diff(map[string][]string{
		"start": {""}, "exchange": {""}, "session": {bearer}, "revoke": {"", bearer},
	}, bearers); diff != "" {
		t.Error(diff)
	}
}
