package receipt_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

type answer struct {
	Status       int             `json:"status"`
	Raw          *string         `json:"raw"`
	Body         json.RawMessage `json:"body"`
	PaddingBytes int             `json:"padding_bytes"`
}

func (a answer) bytes() []byte {
	if a.Raw != nil {
		return []byte(*a.Raw)
	}
	if a.PaddingBytes == 0 {
		return a.Body
	}
	body := strings.TrimSuffix(strings.TrimSpace(string(a.Body)), "}")
	return []byte(body + `,"padding":"` + strings.Repeat("x", a.PaddingBytes) + `"}`)
}

type expectation struct {
	Receipt        json.RawMessage `json:"receipt"`
	Error          map[string]any  `json:"error"`
	ResultFeedback map[string]any  `json:"result_feedback"`
	Capabilities   string          `json:"capabilities"`
	Progress       string          `json:"progress"`
	Settled        bool            `json:"settled"`
	Requests       []string        `json:"requests"`
}

// equalAsJSON compares two texts as JSON, instants as instants.
func equalAsJSON(t *testing.T, want, got []byte) {
	t.Helper()
	decode := func(data []byte) (v map[string]any) {
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, v["observed_at"].(string))
		if err != nil {
			t.Fatal(err)
		}
		v["observed_at"] = at
		return v
	}
	if diff := cmp.Diff(decode(want), decode(got)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestInspectVectors(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		Group, Name  string
		Connection   struct{ Workspace string }
		InvocationID string `json:"invocation_id"`
		Capabilities answer
		Receipt      *answer
		Expect       expectation
	}
	readJSON(t, "../testdata/inspect.json", &vectors)
	receipts, negotiations := 0, 0
	for _, vector := range vectors {
		if vector.Group == "negotiate" && vector.Capabilities.Status == 200 {
			negotiations++
			t.Run(vector.Name, func(t *testing.T) {
				t.Parallel()
				_, err := receipt.ParseCapabilities(vector.Capabilities.bytes())
				if diff := cmp.Diff(vector.Expect.Error["code"], string(feedback.CodeOf(err))); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
			})
		}
		if len(vector.Expect.Requests) < 2 || vector.Receipt.Status != 200 {
			continue // what decides is not a body of this package
		}
		receipts++
		t.Run(vector.Name, func(t *testing.T) {
			t.Parallel()
			if _, err := receipt.ParseCapabilities(vector.Capabilities.bytes()); err != nil {
				t.Error(err)
			}
			got, err := receipt.Parse(vector.Receipt.bytes(), receipt.Want{InvocationID: vector.InvocationID, Workspace: vector.Connection.Workspace})
			if vector.Expect.Error != nil {
				checkError(t, err, vector.Expect.Error)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equalAsJSON(t, vector.Expect.Receipt, must(json.Marshal(got)))
			account, ok := got.Feedback()
			if ok != (vector.Expect.ResultFeedback != nil) {
				t.Fatalf("feedback of the result: %v", ok)
			}
			if ok {
				var is map[string]any
				if err := json.Unmarshal(must(json.Marshal(account)), &is); err != nil {
					t.Fatal(err)
				}
				delete(is, "message")
				delete(is, "schema")
				if diff := cmp.Diff(vector.Expect.ResultFeedback, is); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
			}
		})
	}
	if receipts < 90 || negotiations < 8 {
		t.Errorf("%d receipts and %d negotiations were tested", receipts, negotiations)
	}
}

// checkError compares what does not depend on the answer's status, which the
// caller of Parse adds.
func checkError(t *testing.T, err error, want map[string]any) {
	t.Helper()
	var is map[string]any
	if err := json.Unmarshal(must(json.Marshal(err)), &is); err != nil {
		t.Fatal(err)
	}
	ignored := cmpopts.IgnoreMapEntries(func(name string, _ any) bool {
		return name == "status" || name == "dispatch" || name == "message" || name == "schema" || name == "invocation_id"
	})
	if diff := cmp.Diff(want, is, ignored); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if is["invocation_id"] == nil {
		t.Error("the error does not name the invocation")
	}
}

func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	var records []struct {
		Name, Workspace string
		InvocationID    string `json:"invocation_id"`
		Answer          answer
		Expect          *expectation
	}
	readJSON(t, "../testdata/hub-recorded.json", &records)
	receipts := 0
	for _, record := range records {
		if record.Answer.Status != 200 || record.Expect == nil {
			continue
		}
		t.Run(record.Name, func(t *testing.T) {
			t.Parallel()
			if record.Expect.Capabilities != "" {
				if _, err := receipt.ParseCapabilities(record.Answer.bytes()); err != nil {
					t.Error(err)
				}
				return
			}
			got, err := receipt.Parse(record.Answer.bytes(), receipt.Want{InvocationID: record.InvocationID, Workspace: record.Workspace})
			if record.Expect.Error != nil {
				checkError(t, err, record.Expect.Error)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equalAsJSON(t, record.Expect.Receipt, must(json.Marshal(got)))
			if got.Progress() != receipt.Progress(record.Expect.Progress) || got.Settled() != record.Expect.Settled {
				t.Errorf("got %s, settled %v; want %s, settled %v", got.Progress(), got.Settled(), record.Expect.Progress, record.Expect.Settled)
			}
		})
		receipts++
	}
	if receipts < 70 {
		t.Errorf("%d answers were tested", receipts)
	}
}
