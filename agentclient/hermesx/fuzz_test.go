package hermesx_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// FuzzDecoders: whatever a server answers, no question panics; what is refused
// is an invalid response whose words are not the server's; what is accepted is
// what encoding/json reads in it, marshals to the same JSON value, and is read
// again as the same.
func FuzzDecoders(f *testing.F) {
	for _, r := range recordings(f) {
		if r.Status == http.StatusOK && len(r.Body) < 1000 { // short ones are mutated faster
			f.Add([]byte(r.Body))
		}
	}
	f.Add([]byte(receiptBody))
	f.Add([]byte(with("created_at", `"2026-05-24T04:00:00.120+08:00"`)))
	f.Add([]byte(with("output", `"\ud800\u2028<\ufffd"`)))
	f.Add([]byte(with("extra", `{"a":{"b":1,"b":2}}`)))
	f.Add([]byte(`{"execution_receipts":[` + receiptBody + `,` + with("id", `"rcpt_2"`) + `],"total":2}`))
	var body []byte
	client := newClient(f, roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1}, nil
	}), agentclient.WithMaxRetries(0))
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		// The id has to be the one that was asked for.
		var named struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(data, &named)
		if receipt, err := client.Receipt(t.Context(), named.ID); refused(t, data, err) {
			if receipt != nil {
				t.Fatal("a receipt beside an error")
			}
		} else {
			receipt.ReadRequestID = ""
			agrees(t, data, "", receipt)
		}
		if page, err := client.Receipts(t.Context(), hermesx.ReceiptQuery{}); !refused(t, data, err) {
			agrees(t, data, "execution_receipts", page.Receipts)
		}
		if page, err := client.AuditLogs(t.Context(), hermesx.AuditQuery{}); !refused(t, data, err) {
			agrees(t, data, "audit_logs", page.Entries)
		}
	})
}

// refused reports an error, after a look at it.
func refused(t *testing.T, data []byte, err error) bool {
	t.Helper()
	if err == nil {
		return false
	}
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok || failure.Feedback.Code != feedback.CodeAgentInvalidResponse && failure.Feedback.Code != feedback.CodeInvalidRequest || failure.Feedback.Message == "" {
		t.Fatalf("%v", err)
	}
	return true
}

// agrees compares what was read from a member, or from the whole, with what
// encoding/json reads there.
func agrees[T any](t *testing.T, data []byte, member string, value T) {
	t.Helper()
	if !utf8.Valid(data) {
		t.Fatal("accepted, and not UTF-8")
	}
	var want any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&want); err != nil {
		t.Fatalf("accepted, and no JSON: %v", err)
	}
	if member != "" {
		want = want.(map[string]any)[member]
	}
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var got any
	decoder = json.NewDecoder(bytes.NewReader(written))
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	// Members that are not known are dropped, and so are those that are empty
	// where the server leaves them out.
	members := receiptMembers
	if member == "audit_logs" {
		members = auditMembers
	}
	if diff := gocmp.Diff(known(want, members), known(got, members)); diff != "" {
		t.Fatalf("(-read by encoding/json +written):\n%s", diff)
	}
	again := reflect.New(reflect.TypeFor[T]())
	if err := json.Unmarshal(written, again.Interface()); err != nil {
		t.Fatal(err)
	}
	if twice, err := json.Marshal(again.Elem().Interface()); err != nil || !bytes.Equal(twice, written) {
		t.Fatalf("read again: %v\n%s\n%s", err, written, twice)
	}
}

const (
	receiptMembers = " id tenant_id session_id user_id tool_name input output status duration_ms idempotency_id trace_id created_at "
	auditMembers   = " id tenant_id user_id session_id action detail request_id status_code latency_ms source_ip error_code user_agent created_at "
)

// known gives a record, or some, without what is not among the members, or is
// empty.
func known(value any, members string) any {
	switch value := value.(type) {
	case []any:
		if len(value) == 0 {
			return nil
		}
		all := []any{}
		for _, v := range value {
			all = append(all, known(v, members))
		}
		return all
	case map[string]any:
		kept := map[string]any{}
		for name, v := range value {
			if strings.Contains(members, " "+name+" ") && v != "" && v != json.Number("0") {
				kept[name] = v
			}
		}
		return kept
	}
	return value
}
