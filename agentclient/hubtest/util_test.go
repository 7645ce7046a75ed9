package hubtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

const (
	minute = time.Minute
	hour   = time.Hour

	capabilitiesPath = "/agent-api/v1/tool-invocations/inspection-capabilities"
	submitPath       = "/agent-api/v1/tool-invocations"
	tokenPath        = "/agent-auth/v1/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func receiptPath(id string) string { return submitPath + "/" + id + "/receipt" }
func resumePath(id string) string  { return submitPath + "/" + id + "/resume" }

// A host sends requests to a Hub.
type host struct {
	t      *testing.T
	client *http.Client
	url    string
	token  string
}

// newHost reaches the Hub within the process, with the token of a session.
func newHost(t *testing.T, hub *hubtest.Hub, s hubtest.Session) *host {
	return &host{t: t, client: &http.Client{Transport: hub.Transport()}, url: "http://hub.example", token: s.AccessToken}
}

// reply is what a host gets: a status and the body, as JSON where it is JSON.
type reply struct {
	status int
	raw    string
	json   map[string]any
}

func (r reply) text(member string) string {
	s, _ := r.json[member].(string)
	return s
}

func (h *host) request(ctx context.Context, method, path, body string) (*http.Response, error) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	return h.client.Do(req)
}

// try sends a request and reads the whole answer.
func (h *host) try(ctx context.Context, method, path, body string) (reply, error) {
	h.t.Helper()
	res, err := h.request(ctx, method, path, body)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	out := reply{status: res.StatusCode, raw: string(raw)}
	_ = json.Unmarshal(raw, &out.json)
	return out, err
}

func (h *host) do(method, path, body string) reply {
	h.t.Helper()
	out, err := h.try(h.t.Context(), method, path, body)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

func (h *host) get(path string) reply {
	h.t.Helper()
	return h.do(http.MethodGet, path, "")
}

func (h *host) refresh(clientID, token string) reply {
	h.t.Helper()
	return h.do(http.MethodPost, tokenPath, refreshBody(clientID, token))
}

func refreshBody(clientID, token string) string {
	b, _ := json.Marshal(map[string]string{"grant_type": "refresh_token", "client_app_id": clientID, "refresh_token": token})
	return string(b)
}

// submit hands an operation of the default route to the Hub.
func submit(t *testing.T, hub *hubtest.Hub, s hubtest.Session, tool string, plan ...hubtest.Outcome) string {
	t.Helper()
	hub.Plan(plan...)
	id, err := hub.Submit(s.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: tool})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wantRefusal(t *testing.T, err error, status int, code string) {
	t.Helper()
	var refusal *hubtest.Refusal
	if !errors.As(err, &refusal) || refusal.Status != status || refusal.Code != code {
		t.Errorf("error %v, want a refusal with %d %s", err, status, code)
	}
}

func wantPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "hubtest: ") {
			t.Errorf("panic %q, want one that starts with hubtest:", p)
		}
	}()
	f()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newHub(t *testing.T, opts ...hubtest.Option) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(opts...)
	t.Cleanup(hub.Close)
	return hub
}
