package agentauth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hubURL    = "https://hub.example.com/bailing"
	clientApp = "demo-client"
	workspace = "inventory"
)

func config() agentauth.Config {
	return agentauth.Config{HubURL: hubURL, ClientAppID: clientApp, Workspace: workspace, DeviceLabel: "Test device"}
}

// hub is the login side of a Hub behind a round tripper, so that a test can lose
// or change any answer after it took effect. It keeps the sessions that live.
type hub struct {
	t *testing.T

	mu        sync.Mutex
	sessions  map[string]*hubSession // by refresh token
	started   map[string]*hubStart   // by authorization ID
	requests  []string
	count     int
	lifetime  int // of a start, in seconds
	routes    []string
	subject   string
	intercept func(step string, real func() *http.Response) (*http.Response, error)
	see       func(step string, r *http.Request, members map[string]any) // nil for nobody
}

type hubSession struct {
	id, access, refresh string
	created             time.Time
	lives               bool
}

type hubStart struct {
	redirect, state, challenge, code string
	used                             bool
}

func newHub(t *testing.T) *hub {
	return &hub{t: t, sessions: map[string]*hubSession{}, started: map[string]*hubStart{}, lifetime: 600, routes: []string{workspace}, subject: `null`}
}

// client gives a client of this Hub.
func (h *hub) client(opts ...agentclient.Option) *agentauth.Client {
	h.t.Helper()
	client, err := agentauth.New(config(), append([]agentclient.Option{h.option()}, opts...)...)
	if err != nil {
		h.t.Fatal(err)
	}
	return client
}

func (h *hub) option() agentclient.Option {
	return agentclient.WithHTTPClient(&http.Client{Transport: h})
}

// fault has answers intercepted: step is start, exchange, refresh, session or
// revoke, and real lets the request take effect and gives the true answer.
func (h *hub) fault(intercept func(step string, real func() *http.Response) (*http.Response, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.intercept = intercept
}

// times gives how many requests of a step there were.
func (h *hub) times(step string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, request := range h.requests {
		if request == step {
			n++
		}
	}
	return n
}

// living gives the sessions that have not ended.
func (h *hub) living() (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions {
		if s.lives {
			ids = append(ids, s.id)
		}
	}
	return ids
}

func (h *hub) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	var members map[string]any
	_ = json.Unmarshal(body, &members)
	step := map[string]string{
		"POST /bailing/agent-auth/v1/authorizations": "start",
		"POST /bailing/agent-auth/v1/token":          "exchange",
		"GET /bailing/agent-auth/v1/session":         "session",
		"POST /bailing/agent-auth/v1/revoke":         "revoke",
	}[r.Method+" "+r.URL.EscapedPath()]
	if members["grant_type"] == "refresh_token" {
		step = "refresh"
	}
	h.mu.Lock()
	h.requests = append(h.requests, step)
	intercept := h.intercept
	h.mu.Unlock()
	if step == "" || r.URL.RawQuery != "" || r.Host != "hub.example.com" {
		h.t.Errorf("a request that no login sends: %s %s", r.Method, r.URL.Redacted())
	}
	if h.see != nil {
		h.see(step, r, members)
	}
	real := func() *http.Response {
		w := httptest.NewRecorder()
		h.serve(w, r, step, members)
		return w.Result()
	}
	if intercept != nil {
		return intercept(step, real)
	}
	return real(), nil
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request, step string, members map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := func(name string) string { s, _ := members[name].(string); return s }
	say := func(status int, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintf(w, format, args...)
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch step {
	case "start":
		h.count++
		id := fmt.Sprintf("aaaaaaaa-aaaa-4aaa-8aaa-%012d", h.count)
		h.started[id] = &hubStart{redirect: text("redirect_uri"), state: text("state"), challenge: text("code_challenge")}
		say(201, `{"authorization_id":%q,"authorization_url":"https://business.example.com/login?authorization_id=%s","expires_in":%d}`, id, id, h.lifetime)
	case "exchange":
		for _, s := range h.started {
			sum := sha256.Sum256([]byte(text("code_verifier")))
			if s.code == "" || s.used || s.code != text("code") || s.redirect != text("redirect_uri") || s.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
				continue
			}
			s.used = true
			n := len(h.sessions) + 1
			session := &hubSession{
				id:     fmt.Sprintf("bbbbbbbb-bbbb-4bbb-8bbb-%012d", n),
				access: fmt.Sprintf("synthetic-access-%d", n), refresh: fmt.Sprintf("synthetic-refresh-%d", n),
				created: time.Now(), lives: true,
			}
			h.sessions[session.refresh] = session
			say(200, `{"token_type":"Bearer","access_token":%q,"expires_in":900,"refresh_token":%q,"refresh_expires_in":2592000,"session_id":%q,"client_app_id":%q,"subject_display":null,"subject_display_status":"missing"}`,
				session.access, session.refresh, session.id, clientApp)
			return
		}
		say(400, `{"error":"invalid_grant"}`)
	case "refresh":
		for _, s := range h.sessions {
			if s.lives && s.refresh == text("refresh_token") {
				n := len(h.requests)
				delete(h.sessions, s.refresh)
				s.access, s.refresh = fmt.Sprintf("synthetic-access-renewed-%d", n), fmt.Sprintf("synthetic-refresh-renewed-%d", n)
				h.sessions[s.refresh] = s
				say(200, `{"token_type":"Bearer","access_token":%q,"expires_in":900,"refresh_token":%q,"refresh_expires_in":2591000,"session_id":%q,"client_app_id":%q}`, s.access, s.refresh, s.id, clientApp)
				return
			}
		}
		say(400, `{"error":"invalid_grant"}`)
	case "session":
		for _, s := range h.sessions {
			if s.lives && s.access == bearer {
				routes, _ := json.Marshal(h.routes)
				at := func(d time.Duration) string { return s.created.Add(d).UTC().Format("2006-01-02T15:04:05.000Z") }
				say(200, `{"session_id":%q,"client_app_id":%q,"device_label":"Test device","subject_display":%s,"subject_display_status":"missing","principal":{"id":"user-1","roles":["clerk"],"tenant":"tenant-1"},"on_behalf_of":"user-1","allowed_routes":%s,"created_at":%q,"expires_at":%q,"refresh_expires_at":%q}`,
					s.id, clientApp, h.subject, routes, at(0), at(900*time.Second), at(30*24*time.Hour))
				return
			}
		}
		say(401, `{"error":"unauthorized"}`)
	case "revoke":
		for _, s := range h.sessions {
			if bearer != "" && s.access == bearer || bearer == "" && s.refresh == text("refresh_token") && text("client_app_id") == clientApp {
				s.lives = false
			}
		}
		say(200, `{"revoked":true}`)
	default:
		say(404, `{"error":"not_found"}`)
	}
}

// approve decides for the person and gives the address that their browser comes
// back to.
func (h *hub) approve(login string) string {
	return h.decide(login, func(s *hubStart) url.Values {
		s.code = "synthetic-code-" + s.state[:8]
		return url.Values{"code": {s.code}, "state": {s.state}}
	})
}

// deny refuses for the person.
func (h *hub) deny(login string) string {
	return h.decide(login, func(s *hubStart) url.Values {
		return url.Values{"error": {"access_denied"}, "state": {s.state}}
	})
}

func (h *hub) decide(login string, how func(*hubStart) url.Values) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	parsed, err := url.Parse(login)
	if err != nil {
		h.t.Error(err)
		return ""
	}
	s := h.started[parsed.Query().Get("authorization_id")]
	if s == nil {
		h.t.Error("nobody began this login")
		return ""
	}
	return s.redirect + "?" + how(s).Encode()
}

// browse opens an address as a browser does, and gives the page.
func browse(t *testing.T, address string) (status int, page string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	return browseThrough(t, transport, address)
}

func browseThrough(t *testing.T, transport http.RoundTripper, address string) (status int, page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	want := http.Header{
		"Cache-Control": {"no-store"}, "Content-Security-Policy": {"default-src 'none'"},
		"Referrer-Policy": {"no-referrer"}, "X-Content-Type-Options": {"nosniff"},
		"Content-Type": {"text/html; charset=utf-8"},
	}
	for name, value := range want {
		if got := response.Header.Values(name); len(got) != 1 || got[0] != value[0] {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !response.Close {
		t.Error("the answer does not close its connection")
	}
	return response.StatusCode, string(body)
}

func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader([]byte(body))),
	}
}
