package hermesx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	baseURL = "https://hermesx.example.com"
	canary  = "synthetic-canary-key"

	receiptBody = `{"id":"rcpt_1","tenant_id":"t","session_id":"s","user_id":"u","tool_name":"read_file","input":"{}","output":"","status":"success","duration_ms":17,"created_at":"2026-05-24T04:00:00Z"}`
	emptyPage   = `{"execution_receipts":null,"total":0}`
	emptyAudit  = `{"audit_logs":null,"limit":50,"offset":0,"total":0}`
)

// wire is a network in one function. It keeps what was sent. No test of this
// package may send anything but the three reads.
type wire struct {
	answer func(*http.Request) (*http.Response, error)

	mu       sync.Mutex
	requests []*http.Request
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	path := r.URL.EscapedPath()
	if id, ok := strings.CutPrefix(path, "/v1/execution-receipts/"); r.Method != http.MethodGet ||
		path != "/v1/execution-receipts" && path != "/v1/audit-logs" && (!ok || id == "" || strings.Contains(id, "/")) {
		panic("this must never leave: " + r.Method + " " + r.URL.String())
	}
	w.mu.Lock()
	w.requests = append(w.requests, r.Clone(context.WithoutCancel(r.Context())))
	w.mu.Unlock()
	return w.answer(r)
}

// sent gives the targets of the requests so far.
func (w *wire) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	targets := []string{}
	for _, r := range w.requests {
		targets = append(targets, r.URL.RequestURI())
	}
	return targets
}

func respond(status int, body string, headers ...string) *http.Response {
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
}

type answers = func(*http.Request) (*http.Response, error)

func always(status int, body string, headers ...string) answers {
	return func(*http.Request) (*http.Response, error) { return respond(status, body, headers...), nil }
}

// then answers one request after the other, the last one for ever.
func then(all ...answers) answers {
	var mu sync.Mutex
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		answer := all[min(n, len(all)-1)]
		n++
		mu.Unlock()
		return answer(r)
	}
}

// logging has a server's log hold the requests that it was sent. It answers the
// question for them, and other answers the rest.
func logging(other answers) answers {
	var mu sync.Mutex
	var logged []string
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		entries := strings.Join(logged, ",")
		logged = append(logged, fmt.Sprintf(`{"id":%d,"tenant_id":"t","action":"GET /v1/audit-logs","request_id":"%s","created_at":"2026-12-01T04:00:00Z"}`, 1000+len(logged), r.Header.Get("X-Request-Id")))
		if r.URL.Query().Get("action") == "GET /v1/audit-logs" {
			return respond(200, fmt.Sprintf(`{"audit_logs":[%s],"limit":100,"offset":0,"total":%d}`, entries, len(logged)-1)), nil
		}
		return other(r)
	}
}

func lost(*http.Request) (*http.Response, error) {
	return nil, errors.New("lost, with a text that nobody may see: " + canary)
}

func static(key string) oauth2.TokenSource {
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: key})
}

func newClient(t testing.TB, w http.RoundTripper, opts ...agentclient.Option) *hermesx.Client {
	t.Helper()
	return newClientOf(t, static(canary), w, opts...)
}

func newClientOf(t testing.TB, source oauth2.TokenSource, w http.RoundTripper, opts ...agentclient.Option) *hermesx.Client {
	t.Helper()
	opts = append([]agentclient.Option{agentclient.WithHTTPClient(&http.Client{Transport: w})}, opts...)
	client, err := hermesx.New(hermesx.Config{BaseURL: baseURL, TokenSource: source}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// newServer gives a mock server and a client with an auditor's key for it.
func newServer(t testing.TB, opts ...hermestest.Option) (*hermestest.HermesX, *hermesx.Client) {
	t.Helper()
	server := hermestest.New(opts...)
	t.Cleanup(server.Close)
	server.SetRateLimit("", 1_000_000)
	key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
	return server, newClientOf(t, static(key.Secret), server.Transport())
}

// failureOf gives the error as what every error of an inspection is.
func failureOf(t testing.TB, err error) *feedback.Error {
	t.Helper()
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		t.Fatalf("not a *feedback.Error: %v", err)
	}
	if failure.Feedback.Operation != feedback.OperationInspect {
		t.Errorf("operation %q", failure.Feedback.Operation)
	}
	if text := err.Error(); strings.Contains(text, canary) {
		t.Errorf("the key, or a text of the wire, is in the error: %s", text)
	}
	return failure
}

// collect gives the rows of a sequence and the error at its end.
func collect[T any](sequence iter.Seq2[T, error]) (rows []T, err error) {
	for row, failure := range sequence {
		if failure != nil {
			return rows, failure
		}
		rows = append(rows, row)
	}
	return rows, nil
}
