package receipt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// unescape reads what Printable wrote.
func unescape(text string) (string, error) {
	return strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
}

// FuzzParse: no panic; what is refused says why; what is accepted is stable
// and says what encoding/json reads in it.
func FuzzParse(f *testing.F) {
	var vectors []struct {
		Receipt *answer
	}
	readJSON(f, "../testdata/inspect.json", &vectors)
	for _, vector := range vectors {
		if vector.Receipt != nil && vector.Receipt.PaddingBytes == 0 {
			f.Add(vector.Receipt.bytes())
		}
	}
	f.Add([]byte(good().String()))
	f.Add([]byte(good().with("result.text", `"\ud800\u2028<"`).reversed().String()))
	f.Add([]byte(good().with("result.rate_limit", `{"a":{"b":1,"b":2}}`).String()))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := receipt.Parse(data, want)
		if err != nil {
			failure, ok := errors.AsType[*feedback.Error](err)
			if got != nil || !ok || failure.Feedback.Message == "" ||
				failure.Feedback.Code != feedback.CodeAgentInvalidResponse && failure.Feedback.Code != feedback.CodeAgentSchemaUnsupported {
				t.Fatalf("got %+v, %v", got, err)
			}
			return
		}
		agreesWithEncodingJSON(t, data, got)

		wire, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := receipt.Parse(wire, want)
		if err != nil {
			t.Fatalf("%v\n%s", err, wire)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("want -, got +:\n%s", diff)
		}
		if rewired := must(json.Marshal(again)); !bytes.Equal(wire, rewired) {
			t.Fatalf("not stable:\n%s\n%s", wire, rewired)
		}
		progress, settled := restated(got)
		if got.Progress() != progress || got.Settled() != settled {
			t.Fatalf("%s: %s", describe(got), got.Progress())
		}
		if got.Result != nil && notPrintable(receipt.Printable(got.Result.Text)) != "" {
			t.Fatalf("not printable: %q", got.Result.Text)
		}
	})
}

// agreesWithEncodingJSON decodes data once more, names and values as they
// stand, and compares what is in the receipt.
func agreesWithEncodingJSON(t *testing.T, data []byte, got *receipt.Receipt) {
	t.Helper()
	var plain map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&plain); err != nil {
		t.Fatalf("encoding/json refuses it: %v", err)
	}
	if decoder.More() {
		t.Fatal("encoding/json sees a second document")
	}
	number := func(n int64) any { return json.Number(strconv.FormatInt(n, 10)) }
	check := func(name string, of map[string]any, want any) {
		t.Helper()
		if diff := cmp.Diff(want, of[name]); diff != "" {
			t.Fatalf("%s: receipt -, encoding/json +:\n%s", name, diff)
		}
	}
	optional := func(name string, of map[string]any, n int64) {
		t.Helper()
		if _, there := of[name]; there || n != 0 {
			check(name, of, number(n))
		}
	}
	check("schema_version", plain, got.SchemaVersion)
	check("read_only", plain, true)
	check("business_operation_performed", plain, false)
	check("invocation_id", plain, invocation)
	check("agent_run_id", plain, got.AgentRunID)
	check("route", plain, workspace)
	check("tool", plain, got.Tool)
	check("result_source", plain, string(got.ResultSource))
	check("dispatch_state", plain, string(got.DispatchState))
	check("journal_state", plain, string(got.JournalState))
	at, err := time.Parse(time.RFC3339, plain["observed_at"].(string))
	if err != nil || !at.Equal(got.ObservedAt) || got.ObservedAt.Location() != time.UTC {
		t.Fatalf("observed_at: %v, %v, %v", got.ObservedAt, at, err)
	}
	approval := plain["approval"].(map[string]any)
	check("status", approval, string(got.Approval.Status))
	optional("approval_id", approval, got.Approval.ID)
	if got.Result == nil {
		if value, there := plain["result"]; !there || value != nil {
			t.Fatalf("result: %v", value)
		}
		return
	}
	result := plain["result"].(map[string]any)
	check("schema_version", result, got.Result.SchemaVersion)
	check("invocation_id", result, invocation)
	check("route", result, workspace)
	check("tool", result, got.Tool)
	check("state", result, string(got.Result.State))
	check("ok", result, got.Result.OK)
	check("auto_retry_allowed", result, got.Result.AutoRetryAllowed)
	check("text", result, got.Result.Text)
	optional("business_status", result, int64(got.Result.BusinessStatus))
	optional("approval_id", result, got.Result.ApprovalID)
	if got.Result.RetryAfterMS != 0 {
		check("retry_after_ms", result, number(got.Result.RetryAfterMS))
	}
	if limit := got.Result.RateLimit; limit != nil {
		of := result["rate_limit"].(map[string]any)
		check("level", of, string(limit.Level))
		check("count", of, number(limit.Count))
		check("window_sec", of, number(limit.WindowSec))
		check("scope", of, string(limit.Scope))
		check("source", of, limit.Source)
	}
}

// FuzzParseCapabilities: no panic, and nothing but the one contract is good.
func FuzzParseCapabilities(f *testing.F) {
	var vectors []struct {
		Capabilities answer
	}
	readJSON(f, "../testdata/inspect.json", &vectors)
	for _, vector := range vectors {
		f.Add(vector.Capabilities.bytes())
	}
	f.Add([]byte(goodCapabilities().reversed().String()))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := receipt.ParseCapabilities(data)
		if err != nil {
			if got != (receipt.Capabilities{}) || feedback.CodeOf(err) != feedback.CodeAgentSchemaUnsupported {
				t.Fatalf("got %+v, %v", got, err)
			}
			return
		}
		var plain map[string]any
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		if plain["schema_version"] != receipt.CapabilitiesSchema || plain["receipt_schema"] != receipt.Schema || plain["read_only"] != true {
			t.Fatalf("accepted: %s", data)
		}
		again, err := receipt.ParseCapabilities(must(json.Marshal(got)))
		if err != nil || again != got {
			t.Fatalf("got %+v, %v", again, err)
		}
	})
}
