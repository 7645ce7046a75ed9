package hermesx_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// recorded is one answer of a running server.
type recorded struct {
	Name    string
	Request struct {
		Method, Path string
	}
	Status  int
	Headers map[string]string
	Body    string
}

func recordings(t testing.TB) (all []recorded) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "hermesx-recorded.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// unexported leaves out how a time was written.
var unexported = cmpopts.IgnoreUnexported(hermesx.Receipt{}, hermesx.AuditEntry{})

// answer plays a recording.
func (r recorded) answer() answers {
	var headers []string
	for name, value := range r.Headers {
		headers = append(headers, name, value)
	}
	return always(r.Status, r.Body, headers...)
}

// codes are what the answers of a HermesX server other than 200 mean for the
// three questions; "" marks what is not asked again.
var codes = map[int]struct {
	receipt, list feedback.Code
	repeats       bool
}{
	307: {feedback.CodeAgentInvalidResponse, feedback.CodeAgentInvalidResponse, false},
	400: {feedback.CodeInvalidRequest, feedback.CodeInvalidRequest, false},
	401: {feedback.CodeAgentAuthorizationUnavailable, feedback.CodeAgentAuthorizationUnavailable, false},
	403: {feedback.CodeAgentAuthorizationUnavailable, feedback.CodeAgentAuthorizationUnavailable, false},
	404: {feedback.CodeReceiptNotFound, feedback.CodeAgentSchemaUnsupported, false},
	405: {feedback.CodeAgentSchemaUnsupported, feedback.CodeAgentSchemaUnsupported, false},
	429: {feedback.CodeAgentTransportUnavailable, feedback.CodeAgentTransportUnavailable, false}, // Retry-After is too long to wait for
	500: {feedback.CodeAgentTransportUnavailable, feedback.CodeAgentTransportUnavailable, true},
	503: {feedback.CodeAgentTransportUnavailable, feedback.CodeAgentTransportUnavailable, true},
}

// Every recorded answer decodes to the right value or the right error,
// whichever of the three questions it is the answer to.
func TestRecorded(t *testing.T) {
	t.Parallel()
	all := recordings(t)
	if len(all) != 159 {
		t.Fatalf("%d recordings", len(all))
	}
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			w := &wire{answer: r.answer()}
			client := newClient(t, w, agentclient.WithMaxRetries(0))
			target, err := url.Parse(r.Request.Path)
			if err != nil {
				t.Fatal(err)
			}
			id := strings.TrimPrefix(target.Path, "/v1/execution-receipts/")

			receipt, receiptErr := client.Receipt(t.Context(), cmp.Or(strings.Trim(id, "/"), "none"))
			receipts, receiptsErr := client.Receipts(t.Context(), hermesx.ReceiptQuery{})
			entries, entriesErr := client.AuditLogs(t.Context(), hermesx.AuditQuery{})
			requestID := r.Headers["X-Request-Id"]
			if r.Status != http.StatusOK {
				want := codes[r.Status]
				if r.Status == http.StatusNotFound && r.Body != "not found\n" { // the router's
					want.receipt = feedback.CodeAgentSchemaUnsupported
				}
				for question, test := range map[string]struct {
					value any
					err   error
					code  feedback.Code
				}{
					"receipt":  {receipt, receiptErr, want.receipt},
					"receipts": {receipts, receiptsErr, want.list},
					"entries":  {entries, entriesErr, want.list},
				} {
					failure := failureOf(t, test.err)
					if failure.Feedback.Code != test.code || failure.StatusCode != r.Status || failure.Feedback.Origin != feedback.OriginCore || failure.Feedback.Dispatch != feedback.DispatchAttempted {
						t.Errorf("%s: %+v", question, failure)
					}
					if failure.RequestID != requestID {
						t.Errorf("%s: request id %q, want %q", question, failure.RequestID, requestID)
					}
					if (r.Headers["Retry-After"] == "60") != (failure.RetryAfter == time.Minute) {
						t.Errorf("%s: wait %v", question, failure.RetryAfter)
					}
					if said := strings.TrimSpace(r.Body); said != "" && strings.Contains(failure.Error(), said) {
						t.Errorf("%s: the server's text is in the error: %s", question, failure)
					}
				}
				return
			}

			// Exactly one of the three is answered by it.
			body := decoded(t, r.Body)
			_, isReceipts := body["execution_receipts"]
			_, isAudit := body["audit_logs"]
			for question, test := range map[string]struct {
				answered bool
				err      error
			}{
				"receipt":  {!isReceipts && !isAudit, receiptErr},
				"receipts": {isReceipts, receiptsErr},
				"entries":  {isAudit, entriesErr},
			} {
				if test.answered {
					if test.err != nil {
						t.Errorf("%s: %v", question, test.err)
					}
				} else if failure := failureOf(t, test.err); failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.StatusCode != 200 || failure.RequestID != requestID {
					t.Errorf("%s: %+v", question, failure)
				}
			}
			switch {
			case isReceipts:
				if receipts == nil {
					return
				}
				if receipts.RequestID != requestID || float64(receipts.Total) != body["total"] {
					t.Errorf("%+v", receipts)
				}
				for _, receipt := range receipts.Receipts {
					if receipt.ReadRequestID != requestID {
						t.Errorf("request id %q", receipt.ReadRequestID)
					}
				}
				same(t, body["execution_receipts"], receipts.Receipts)
			case isAudit:
				if entries == nil {
					return
				}
				if entries.RequestID != requestID || float64(entries.Total) != body["total"] || float64(entries.Limit) != body["limit"] || float64(entries.Offset) != body["offset"] {
					t.Errorf("%+v", entries)
				}
				for _, entry := range entries.Entries {
					if entry.ReadRequestID != requestID {
						t.Errorf("request id %q", entry.ReadRequestID)
					}
				}
				same(t, body["audit_logs"], entries.Entries)
			case receipt != nil:
				if receipt.ReadRequestID != requestID {
					t.Errorf("request id %q", receipt.ReadRequestID)
				}
				same(t, body, receipt)
			}
		})
	}
}

func decoded(t testing.TB, text string) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// same reports that a value does not marshal to the JSON that it was read from,
// and does not read it again.
func same[T any](t testing.TB, want any, value T) {
	t.Helper()
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(written, &got); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("marshalled (-want +got):\n%.2000s", diff)
	}
	var again T
	if err := json.Unmarshal(written, &again); err != nil {
		t.Fatal(err)
	}
	if twice, err := json.Marshal(again); err != nil || string(twice) != string(written) {
		t.Errorf("read again: %v\n%.2000s\n%.2000s", err, written, twice)
	}
}

// What a recording is in Go.
func TestRecordedValues(t *testing.T) {
	t.Parallel()
	byName := map[string]recorded{}
	for _, r := range recordings(t) {
		byName[r.Name] = r
	}
	client := func(name string) *hermesx.Client { return newClient(t, &wire{answer: byName[name].answer()}) }

	t.Run("receipt", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"receipt_get_full", "receipt_get_uppercase_uuid", "receipt_get_uuid_no_dashes"} {
			id := strings.TrimPrefix(byName[name].Request.Path, "/v1/execution-receipts/")
			got, err := client(name).Receipt(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			want := hermesx.Receipt{
				ID: "f2eb2710-8e82-464d-a68f-e4f82731a797", TenantID: "3988b646-9df5-4d4d-92c3-f88572b0ea9f", SessionID: "sess_demo_1", UserID: "1121cca6-09c5-4a72-a06e-e53ada5947fa",
				ToolName: "seed_read", Input: `{"path":"docs/SECURITY_MODEL.md"}`, Output: `{"bytes":512,"redacted":false}`, Status: hermesx.StatusSuccess, Duration: 12 * time.Millisecond,
				IdempotencyID: "demo-001/seed_read/1", TraceID: "0af7651916cd43dd8448eb211c80319c", CreatedAt: time.Date(2026, 11, 30, 8, 18, 51, 811984000, time.UTC),
				ReadRequestID: byName[name].Headers["X-Request-Id"],
			}
			if diff := gocmp.Diff(want, *got, unexported); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
	t.Run("statuses and cuts", func(t *testing.T) {
		t.Parallel()
		page, err := client("receipts_list_all").Receipts(t.Context(), hermesx.ReceiptQuery{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, r := range page.Receipts {
			got[r.ToolName] += fmt.Sprintf("%s known=%v input=%v output=%v;", r.Status, r.Status.Known(), r.InputTruncated(), r.OutputTruncated())
		}
		ok := "known=true input=false output=false;"
		want := map[string]string{
			"odd_status": "cancelled known=false input=false output=false;", "slow_tool": "timeout " + ok, "no_such_tool": "error " + ok,
			"seed_mb_ok": "success " + ok, "seed_big": "success known=true input=true output=true;", "seed_plain_fail": "success " + ok,
			"seed_null_error": "error " + ok, "seed_fail": "error " + ok, "seed_read": "success " + ok + "success " + ok,
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("times", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string][]string{
			"receipts_timestamp_forms": {"2026-03-01T00:00:02.123456Z", "2026-03-01T00:00:01.12Z", "2026-03-01T00:00:00Z"},
			"tz_shanghai_list":         {"2026-03-01T08:00:02.123456+08:00", "2026-03-01T08:00:01.12+08:00", "2026-03-01T08:00:00+08:00"},
		} {
			page, err := client(name).Receipts(t.Context(), hermesx.ReceiptQuery{SessionID: "sess_ts"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range page.Receipts {
				got = append(got, r.CreatedAt.Format(time.RFC3339Nano))
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		receipts, err := client("receipts_list_empty").Receipts(t.Context(), hermesx.ReceiptQuery{})
		if err != nil || len(receipts.Receipts) != 0 || receipts.Total != 0 {
			t.Errorf("%+v, %v", receipts, err)
		}
		beyond, err := client("receipts_page_offset_past_end").Receipts(t.Context(), hermesx.ReceiptQuery{Limit: 2, Offset: 1000})
		if err != nil || len(beyond.Receipts) != 0 || beyond.Total != 10 {
			t.Errorf("%+v, %v", beyond, err)
		}
	})
	t.Run("audit", func(t *testing.T) {
		t.Parallel()
		page, err := client("audit_entry_of_a_chat_call").AuditLogs(t.Context(), hermesx.AuditQuery{})
		if err != nil {
			t.Fatal(err)
		}
		want := []*hermesx.AuditEntry{{
			ID: 220, TenantID: "3988b646-9df5-4d4d-92c3-f88572b0ea9f", UserID: "1121cca6-09c5-4a72-a06e-e53ada5947fa", Action: "POST /v1/agent/chat", RequestID: "chat-req-001",
			StatusCode: 500, Latency: 26 * time.Millisecond, SourceIP: "127.0.0.1:47660", UserAgent: "probe/1.0", CreatedAt: time.Date(2026, 11, 30, 8, 22, 10, 169270000, time.UTC),
			ReadRequestID: byName["audit_entry_of_a_chat_call"].Headers["X-Request-Id"],
		}}
		if diff := gocmp.Diff(want, page.Entries, unexported); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		named, err := client("audit_row_with_session_id").AuditLogs(t.Context(), hermesx.AuditQuery{Action: "FULL"})
		if err != nil || named.Entries[0].SessionID != "sess_x" || named.Entries[0].UserID != "" {
			t.Errorf("%+v, %v", named, err)
		}
	})
}
