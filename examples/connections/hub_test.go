//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// hub is the login side of a Hub, with the page where people decide.
type hub struct {
	*httptest.Server
	mu       sync.Mutex
	starts   []map[string]any
	sessions map[string]bool // by the number in their tokens; true while they live
	disabled bool
}

func newHub(t *testing.T) *hub {
	h := &hub{sessions: map[string]bool{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var members map[string]any
	_ = json.NewDecoder(r.Body).Decode(&members)
	say := func(status int, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, format, args...)
	}
	number := func(token any) string {
		text, _ := token.(string)
		return text[strings.LastIndex(text, "-")+1:]
	}
	bearer := number(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	switch r.URL.Path {
	case "/agent-auth/v1/authorizations":
		h.starts = append(h.starts, members)
		id := fmt.Sprintf("aaaaaaaa-aaaa-4aaa-8aaa-%012d", len(h.starts))
		say(201, `{"authorization_id":%q,"authorization_url":"http://%s/page?authorization_id=%s","expires_in":600}`, id, r.Host, id)
	case "/page", "/refuse":
		var n int
		fmt.Sscanf(r.URL.Query().Get("authorization_id")[24:], "%d", &n)
		start := h.starts[n-1]
		back := url.Values{"state": {start["state"].(string)}, "code": {fmt.Sprint("canary-code-", n)}}
		if r.URL.Path == "/refuse" {
			back = url.Values{"state": {start["state"].(string)}, "error": {"access_denied"}}
		}
		http.Redirect(w, r, start["redirect_uri"].(string)+"?"+back.Encode(), http.StatusFound)
	case "/agent-auth/v1/token":
		n := number(members["code"])
		if n == "" || h.sessions[n] {
			say(400, `{"error":"invalid_grant"}`)
			return
		}
		h.sessions[n] = true
		say(200, `{"token_type":"Bearer","access_token":"canary-access-%[1]s","expires_in":900,"refresh_token":"canary-refresh-%[1]s","refresh_expires_in":2592000,"session_id":"bbbbbbbb-bbbb-4bbb-8bbb-%012[1]s","client_app_id":"demo-client"}`, n)
	case "/agent-auth/v1/session":
		if !h.sessions[bearer] || h.disabled {
			say(401, `{"error":"unauthorized"}`)
			return
		}
		now := time.Now().UTC()
		at := func(d time.Duration) string { return now.Add(d).Format("2006-01-02T15:04:05.000Z") }
		say(200, `{"session_id":"bbbbbbbb-bbbb-4bbb-8bbb-%012s","client_app_id":"demo-client","device_label":"bailinghub-go","subject_display":{"name":"Example\u202e Person 例"},"principal":{"id":"user-1","roles":[]},"on_behalf_of":"user-1","allowed_routes":["inventory"],"created_at":%q,"expires_at":%q,"refresh_expires_at":%q}`,
			bearer, at(0), at(15*time.Minute), at(30*24*time.Hour))
	case "/agent-auth/v1/revoke":
		if h.disabled {
			say(503, `{"error":"agent_auth_unavailable"}`)
			return
		}
		if token, ok := members["refresh_token"]; ok {
			bearer = number(token)
		}
		if h.sessions[bearer] {
			h.sessions[bearer] = false
		}
		say(200, `{"revoked":true}`)
	default:
		say(404, `{"error":"not_found"}`)
	}
}

// living is how many sessions have not ended.
func (h *hub) living() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, lives := range h.sessions {
		if lives {
			n++
		}
	}
	return n
}

func (h *hub) disable(disabled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disabled = disabled
}

// visit is a browser that opens an address and goes wherever that leads.
func visit(t *testing.T, address string) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(address)
	if err != nil {
		t.Error(err)
		return
	}
	response.Body.Close()
}
