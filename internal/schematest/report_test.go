package schematest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// A framework that infers the schema of a report has the one that the SDK
// publishes.
func TestReportSchemaIsTheInferredOne(t *testing.T) {
	t.Parallel()
	inferred, err := jsonschema.For[host.Report](nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(inferred, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), host.ReportSchema); diff != "" {
		t.Errorf("host.ReportSchema (-want +got):\n%s", diff)
	}
}

// reportSchema is the published one, ready to validate.
func reportSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(host.ReportSchema), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// instance gives a value as a reader of its JSON sees it.
func instance(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var read any
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// The schema refuses what is no report.
func TestReportSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := reportSchema(t)
	good := map[string]any{"invocation_id": "", "answered": false, "settled": false, "sentence": "", "next": "nothing", "advice": ""}
	if err := schema.Validate(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string]any){
		"no sentence":       func(m map[string]any) { delete(m, "sentence") },
		"settled as a text": func(m map[string]any) { m["settled"] = "true" },
		"half a second":     func(m map[string]any) { m["ask_again_after_seconds"] = 0.5 },
		"one member more":   func(m map[string]any) { m["retryable"] = true },
	} {
		bad := instance(t, good).(map[string]any)
		change(bad)
		if schema.Validate(bad) == nil {
			t.Errorf("%s: taken for a report", name)
		}
	}
}

// checkInferred holds an answer against the schemas that are inferred from its
// types: the receipt and its parts, or the error and its feedback.
func checkInferred(t *testing.T, name string, observed *receipt.Receipt, err error) {
	t.Helper()
	values := []any{observed}
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		values = []any{failure, failure.Feedback}
	} else if account, ok := observed.Feedback(); ok {
		values = append(values, account)
	}
	for _, value := range values {
		inferred, err := jsonschema.ForType(reflect.TypeOf(value), nil)
		if err != nil {
			t.Fatal(err)
		}
		resolved, err := inferred.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(instance(t, value)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// answer is one answer of a Hub, as the vectors have it.
type answer struct {
	Network      bool              `json:"network"`
	Status       int               `json:"status"`
	Headers      map[string]string `json:"headers"`
	Raw          *string           `json:"raw"`
	Body         json.RawMessage   `json:"body"`
	PaddingBytes int               `json:"padding_bytes"`
}

func (a answer) response() (*http.Response, error) {
	if a.Network {
		return nil, errors.New("the connection was lost")
	}
	body := []byte(a.Body)
	if a.Raw != nil {
		body = []byte(*a.Raw)
	}
	if a.PaddingBytes > 0 {
		body = append(bytes.TrimSuffix(bytes.TrimSpace(body), []byte("}")), `,"padding":"`+strings.Repeat("x", a.PaddingBytes)+`"}`...)
	}
	response := &http.Response{StatusCode: a.Status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1, ProtoMajor: 1, ProtoMinor: 1}
	for name, value := range a.Headers {
		response.Header.Set(name, value)
	}
	return response, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Every vector's report is valid by the schema, and says what its expectation
// says.
func TestReportsOfTheVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "inspect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Group, Name string
		Connection  struct {
			HubURL    string `json:"hub_url"`
			Workspace string `json:"workspace"`
		} `json:"connection"`
		InvocationID string `json:"invocation_id"`
		Capabilities answer `json:"capabilities"`
		Receipt      answer `json:"receipt"`
		Expect       struct {
			Error   map[string]any `json:"error"`
			Receipt map[string]any `json:"receipt"`
		} `json:"expect"`
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 100 {
		t.Fatalf("%d vectors were found", len(vectors))
	}
	schema := reportSchema(t)
	var answered, failed int
	for _, vector := range vectors {
		client, err := agentclient.New(agentclient.Config{
			HubURL: vector.Connection.HubURL, Workspace: vector.Connection.Workspace,
			TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "synthetic-access-1"}),
		}, agentclient.WithMaxRetries(0), agentclient.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/receipt") {
				return vector.Receipt.response()
			}
			return vector.Capabilities.response()
		})}))
		if err != nil {
			t.Fatal(err)
		}
		observed, err := client.InspectInvocation(t.Context(), vector.InvocationID)
		checkInferred(t, vector.Group+"/"+vector.Name, observed, err)
		report := host.Explain(host.Original{InvocationID: vector.InvocationID, Workspace: vector.Connection.Workspace}, observed, err)
		if err := schema.Validate(instance(t, report)); err != nil {
			t.Errorf("%s/%s: %v", vector.Group, vector.Name, err)
		}
		if report.Answered != (vector.Expect.Error == nil) {
			t.Errorf("%s/%s: answered is %v", vector.Group, vector.Name, report.Answered)
		}
		if report.Answered {
			answered++
			if string(report.Dispatch) != vector.Expect.Receipt["dispatch_state"] || string(report.Journal) != vector.Expect.Receipt["journal_state"] {
				t.Errorf("%s/%s: other evidence: %+v", vector.Group, vector.Name, report)
			}
		} else {
			failed++
			if string(report.Code) != vector.Expect.Error["code"] {
				t.Errorf("%s/%s: another code: %+v", vector.Group, vector.Name, report)
			}
		}
	}
	if answered == 0 || failed == 0 {
		t.Errorf("%d were answered and %d were not", answered, failed)
	}
}

// So is the report of every receipt that the Hub's recorded answers hold.
func TestReportsOfTheRecordedAnswers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "hub-recorded.json"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct {
		Name         string
		Answer       struct{ Raw string }
		Workspace    string
		InvocationID string `json:"invocation_id"`
		Expect       *struct {
			Receipt  map[string]any
			Progress receipt.Progress
			Settled  bool
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	schema := reportSchema(t)
	seen := 0
	for _, r := range recorded {
		if r.Expect == nil || r.Expect.Receipt == nil {
			continue
		}
		seen++
		observed, err := receipt.Parse([]byte(r.Answer.Raw), receipt.Want{InvocationID: r.InvocationID, Workspace: r.Workspace})
		if err != nil {
			t.Fatal(err)
		}
		checkInferred(t, r.Name, observed, nil)
		report := host.Explain(host.Original{InvocationID: r.InvocationID, Workspace: r.Workspace}, observed, nil)
		if err := schema.Validate(instance(t, report)); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		if report.Progress != r.Expect.Progress || report.Settled != r.Expect.Settled {
			t.Errorf("%s: %+v", r.Name, report)
		}
	}
	if seen < 40 {
		t.Errorf("%d receipts were found", seen)
	}
}
