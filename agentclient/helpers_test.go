package agentclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hubURL    = "https://hub.example.com"
	workspace = "inventory"
	canary    = "synthetic-canary-token"

	capabilitiesBody = `{"schema_version":"bailing.agent-invocation-inspection-capabilities.v1","receipt_schema":"bailing.agent-invocation-receipt.v1","read_only":true}`
)

var (
	invocationID = strings.Repeat("a", 64)

	capabilitiesPath = "/agent-api/v1/tool-invocations/inspection-capabilities"
	receiptPath      = "/agent-api/v1/tool-invocations/" + invocationID + "/receipt"

	receiptBody = `{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,"invocation_id":"` + invocationID +
		`","agent_run_id":"33333333-3333-4333-8333-333333333333","route":"inventory","tool":"goods_update","observed_at":"2026-09-15T12:00:00.000Z","result":null,"result_source":"none","dispatch_state":"unknown","approval":{"status":"none"},"journal_state":"absent"}`
)

func golden[T any](t testing.TB, name string) (value T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// wire is a network in one function. It keeps what was sent. No test of this
// package may send anything but the two reads.
type wire struct {
	answer func(*http.Request) (*http.Response, error)

	mu       sync.Mutex
	requests []*http.Request
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = nameOf(r)
	w.mu.Lock()
	w.requests = append(w.requests, r.Clone(context.WithoutCancel(r.Context())))
	w.mu.Unlock()
	return w.answer(r)
}

// sent gives the requests so far: "capabilities" or "receipt".
func (w *wire) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := []string{}
	for _, r := range w.requests {
		names = append(names, nameOf(r))
	}
	return names
}

func nameOf(r *http.Request) string {
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/inspection-capabilities"):
		return "capabilities"
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/receipt"):
		return "receipt"
	}
	panic("this must never leave: " + r.Method + " " + r.URL.String())
}

func respond(status int, body string, headers ...string) *http.Response {
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
}

// good answers both requests as a Hub does.
func good(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/receipt") {
		return respond(200, receiptBody), nil
	}
	return respond(200, capabilitiesBody), nil
}

// then answers the requests for the receipt one after the other, the last one
// for ever, and the negotiation as a Hub does.
func then(answers ...func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	var mu sync.Mutex
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/receipt") {
			return good(r)
		}
		mu.Lock()
		answer := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		return answer(r)
	}
}

func status(code int, body string, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return respond(code, body, headers...), nil }
}

func lost(*http.Request) (*http.Response, error) {
	return nil, errors.New("lost, with a text that nobody may see: " + canary)
}

// half gives a body that breaks off.
func half(code int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		r := respond(code, "")
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(receiptBody[:40]), brokenReader{}))
		return r, nil
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func static(token string) oauth2.TokenSource {
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token})
}

func newClient(t testing.TB, w http.RoundTripper, opts ...agentclient.Option) *agentclient.BailingHubAgentClient {
	t.Helper()
	return newClientOf(t, static(canary), w, opts...)
}

func newClientOf(t testing.TB, source oauth2.TokenSource, w http.RoundTripper, opts ...agentclient.Option) *agentclient.BailingHubAgentClient {
	t.Helper()
	opts = append([]agentclient.Option{agentclient.WithHTTPClient(&http.Client{Transport: w})}, opts...)
	client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: source}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// failureOf gives the error as what every error of an inspection is.
func failureOf(t testing.TB, err error) *feedback.Error {
	t.Helper()
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		t.Fatalf("not a *feedback.Error: %v", err)
	}
	if text := err.Error(); strings.Contains(text, canary) {
		t.Errorf("the token, or a text of the wire, is in the error: %s", text)
	}
	return failure
}
