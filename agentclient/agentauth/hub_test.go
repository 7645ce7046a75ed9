package agentauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
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

// hub is the mock Hub behind a round tripper, so that a test can lose or change
// any answer after it took effect.
type hub struct {
	*hubtest.Hub
	t       *testing.T // nil in an example
	subject string     // the name that the business system gives to an account

	mu        sync.Mutex
	requests  []string // by step
	intercept fault
	see       func(step string, r *http.Request, members map[string]any) // nil for nobody
}

// A fault changes the answer to one step: start, exchange, refresh, session or
// revoke. Real lets the request take effect and gives the true answer.
type fault func(step string, real func() *http.Response) (*http.Response, error)

func newHub(t *testing.T) *hub {
	h := &hub{Hub: hubtest.New(hubtest.WithPathPrefix("/bailing")), t: t}
	h.EditClient(clientApp, func(c *hubtest.Client) { c.Routes = []string{workspace, "orders"} })
	return h
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

// fault has answers intercepted.
func (h *hub) fault(intercept fault) {
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
	for _, s := range h.Sessions() {
		if !s.Revoked {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// only gives the one session that there is.
func (h *hub) only() hubtest.Session {
	h.t.Helper()
	all := h.Sessions()
	if len(all) != 1 {
		h.t.Fatalf("there are %d sessions", len(all))
	}
	return all[0]
}

func (h *hub) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
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
	intercept, number := h.intercept, len(h.requests)
	h.mu.Unlock()
	if step == "" || r.URL.RawQuery != "" || r.Host != "hub.example.com" {
		h.t.Errorf("a request that no login sends: %s %s", r.Method, r.URL.Redacted())
	}
	if h.see != nil {
		h.see(step, r, members)
	}
	real := func() *http.Response { return h.call(r, body, number) }
	if intercept != nil {
		return intercept(step, real)
	}
	return real(), nil
}

// call has the mock Hub answer. Each request comes from an address of its own, so
// that logins are not too many for one address.
func (h *hub) call(r *http.Request, body []byte, number int) *http.Response {
	r = r.Clone(context.Background())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", number%250+1)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// approve decides for the person and gives the address that their browser comes
// back to.
func (h *hub) approve(login string) string {
	said := map[string]any{
		"principal": map[string]any{"id": "user-1", "tenant": "tenant-1", "roles": []string{"clerk"}}, "on_behalf_of": "user-1", "allowed_routes": []string{workspace},
	}
	if h.subject != "" {
		said["subject_display"] = map[string]string{"name": h.subject}
	}
	return h.decide(login, "approve", said)
}

// deny refuses for the person.
func (h *hub) deny(login string) string { return h.decide(login, "deny", map[string]any{}) }

// decide does what the business system does.
func (h *hub) decide(login, how string, said map[string]any) string {
	parsed, err := url.Parse(login)
	if err != nil {
		return ""
	}
	body, _ := json.Marshal(said)
	r := httptest.NewRequest(http.MethodPost, hubURL+"/agent-auth/v1/authorizations/"+parsed.Query().Get("authorization_id")+"/"+how, nil)
	r.Header.Set("Authorization", "Bearer "+h.ClientToken(clientApp))
	r.Header.Set("Content-Type", "application/json")
	response := h.call(r, body, 0)
	var answered struct {
		To string `json:"redirect_uri"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answered); err != nil || answered.To == "" {
		fmt.Println("the Hub refuses the decision:", response.Status) // an example fails by it
		if h.t != nil {
			h.t.Error("the Hub refuses the decision:", response.Status)
		}
	}
	return answered.To
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
