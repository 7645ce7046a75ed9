package agentclient_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jarcoal/httpmock"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// vectorAnswer is one answer in testdata/inspect.json.
type vectorAnswer struct {
	Network      bool              `json:"network"`
	Status       int               `json:"status"`
	Headers      map[string]string `json:"headers"`
	Raw          *string           `json:"raw"`
	Body         json.RawMessage   `json:"body"`
	PaddingBytes int               `json:"padding_bytes"`
}

func (a vectorAnswer) responder() httpmock.Responder {
	if a.Network {
		return httpmock.NewErrorResponder(errors.New("the connection was lost"))
	}
	body := []byte(a.Body)
	if a.Raw != nil {
		body = []byte(*a.Raw)
	}
	if a.PaddingBytes > 0 {
		body = append(bytes.TrimSuffix(bytes.TrimSpace(body), []byte("}")), `,"padding":"`+strings.Repeat("x", a.PaddingBytes)+`"}`...)
	}
	response := httpmock.NewBytesResponse(a.Status, body)
	for name, value := range a.Headers {
		response.Header.Set(name, value)
	}
	return httpmock.ResponderFromResponse(response)
}

type vectorExpectation struct {
	Requests       []string         `json:"requests"`
	Error          map[string]any   `json:"error"`
	Receipt        map[string]any   `json:"receipt"`
	ResultFeedback map[string]any   `json:"result_feedback"`
	Progress       receipt.Progress `json:"progress"`
	Settled        bool             `json:"settled"`
	Capabilities   string           `json:"capabilities"`
}

// check compares what an inspection gave with what is expected of it.
func (want vectorExpectation) check(t *testing.T, observed *receipt.Receipt, err error) {
	t.Helper()
	if want.Error != nil {
		got := object(t, failureOf(t, err))
		delete(got, "message")
		delete(got, "schema")
		if _, given := want.Error["invocation_id"]; !given {
			delete(got, "invocation_id")
		}
		if diff := cmp.Diff(want.Error, got); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		if observed != nil {
			t.Error("a receipt beside an error")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(instants(t, want.Receipt), instants(t, object(t, observed))); diff != "" {
		t.Errorf("receipt (-want +got):\n%s", diff)
	}
	resultFeedback, unresolved := observed.Feedback()
	if unresolved != (want.ResultFeedback != nil) && want.Progress == "" {
		t.Errorf("Feedback: %v, want %v", unresolved, want.ResultFeedback != nil)
	}
	if want.ResultFeedback != nil {
		got := object(t, resultFeedback)
		delete(got, "message")
		delete(got, "schema")
		if diff := cmp.Diff(want.ResultFeedback, got); diff != "" {
			t.Errorf("result feedback (-want +got):\n%s", diff)
		}
	}
}

// object gives the JSON object that value marshals to.
func object(t *testing.T, value any) (members map[string]any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	return members
}

// instants replaces the observation time by its instant.
func instants(t *testing.T, members map[string]any) map[string]any {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, members["observed_at"].(string))
	if err != nil {
		t.Fatal(err)
	}
	members["observed_at"] = at.UnixNano()
	return members
}

func TestInspectVectors(t *testing.T) {
	t.Parallel()
	for _, vector := range golden[[]struct {
		Group, Name string
		Connection  struct {
			HubURL      string `json:"hub_url"`
			Workspace   string `json:"workspace"`
			AccessToken string `json:"access_token"`
		} `json:"connection"`
		InvocationID string            `json:"invocation_id"`
		Capabilities vectorAnswer      `json:"capabilities"`
		Receipt      vectorAnswer      `json:"receipt"`
		Expect       vectorExpectation `json:"expect"`
	}](t, "inspect.json") {
		t.Run(vector.Group+"/"+vector.Name, func(t *testing.T) {
			t.Parallel()
			mock := httpmock.NewMockTransport()
			base := vector.Connection.HubURL + "/agent-api/v1/tool-invocations/"
			mock.RegisterResponder(http.MethodGet, base+"inspection-capabilities", vector.Capabilities.responder())
			mock.RegisterResponder(http.MethodGet, base+vector.InvocationID+"/receipt", vector.Receipt.responder())
			w := &wire{answer: mock.RoundTrip}
			client, err := agentclient.New(agentclient.Config{
				HubURL: vector.Connection.HubURL, Workspace: vector.Connection.Workspace, TokenSource: static(vector.Connection.AccessToken),
			}, agentclient.WithHTTPClient(&http.Client{Transport: w}), agentclient.WithMaxRetries(0))
			if err != nil {
				t.Fatal(err)
			}
			observed, err := client.InspectInvocation(t.Context(), vector.InvocationID)
			vector.Expect.check(t, observed, err)
			if diff := cmp.Diff(vector.Expect.Requests, w.sent()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			for _, r := range w.requests {
				checkRequest(t, r, vector.Connection.AccessToken)
			}
		})
	}
}

// checkRequest holds a request against section 2 of the contract.
func checkRequest(t *testing.T, r *http.Request, token string) {
	t.Helper()
	want := http.Header{
		"Authorization":   {"Bearer " + token},
		"Accept":          {"application/json"},
		"Accept-Encoding": {"gzip"}, // as net/http sends it by itself
		"User-Agent":      {"bailinghub-go/0.1.0"},
	}
	if diff := cmp.Diff(want, r.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if r.Body != nil && r.Body != http.NoBody {
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			t.Error("the request has a body")
		}
	}
	if r.URL.RawQuery != "" || r.URL.ForceQuery || r.URL.Fragment != "" {
		t.Errorf("the request has more than a path: %s", r.URL)
	}
}

func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	played := 0
	for _, recorded := range golden[[]struct {
		Name    string
		Request struct{ Path string }
		Answer  struct {
			Status  int
			Headers map[string]string
			Raw     string
		}
		Workspace    string
		InvocationID string             `json:"invocation_id"`
		Expect       *vectorExpectation `json:"expect"`
	}](t, "hub-recorded.json") {
		if recorded.Expect == nil {
			continue // a request that no SDK sends
		}
		played++
		t.Run(recorded.Name, func(t *testing.T) {
			t.Parallel()
			raw := recorded.Answer.Raw
			answer := vectorAnswer{Status: recorded.Answer.Status, Headers: recorded.Answer.Headers, Raw: &raw}.responder()
			w := &wire{answer: good}
			client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: recorded.Workspace, TokenSource: static(canary)},
				agentclient.WithHTTPClient(&http.Client{Transport: w}), agentclient.WithMaxRetries(0))
			if err != nil {
				t.Fatal(err)
			}
			if recorded.InvocationID == "" {
				w.answer = answer
				capabilities, err := client.InvocationInspectionCapabilities(t.Context())
				if recorded.Expect.Capabilities == "good" {
					if err != nil || !capabilities.ReadOnly {
						t.Errorf("%+v, %v", capabilities, err)
					}
					return
				}
				recorded.Expect.check(t, nil, err)
				return
			}
			w.answer = then(answer)
			observed, err := client.InspectInvocation(t.Context(), recorded.InvocationID)
			recorded.Expect.check(t, observed, err)
			if err == nil && (observed.Progress() != recorded.Expect.Progress || observed.Settled() != recorded.Expect.Settled) {
				t.Errorf("%s, settled %v; want %s, %v", observed.Progress(), observed.Settled(), recorded.Expect.Progress, recorded.Expect.Settled)
			}
		})
	}
	if played != 115 {
		t.Errorf("%d answers were played, want 115", played)
	}
}
