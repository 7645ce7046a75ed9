package receipt_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// The wire form, byte by byte: names and order of the contract.
func TestMarshalWireForm(t *testing.T) {
	t.Parallel()
	const head = `{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,` +
		`"invocation_id":"` + invocation + `","agent_run_id":"33333333-3333-4333-8333-333333333333","route":"inventory","tool":"goods_update",`
	const resultHead = `"result":{"schema_version":"bailing.agent-tool-invocation.v1","invocation_id":"` + invocation + `","route":"inventory","tool":"goods_update",`
	tests := []struct {
		name   string
		change func(*receipt.Receipt)
		want   string
	}{
		{"everything", func(*receipt.Receipt) {}, good().String()},
		{"nothing optional", func(r *receipt.Receipt) {
			r.Result.BusinessStatus, r.Result.ApprovalID, r.Result.RetryAfterMS, r.Result.RateLimit = 0, 0, 0, nil
			r.Approval = receipt.Approval{Status: receipt.ApprovalNone}
		}, head + `"observed_at":"2026-09-15T12:00:00.000Z",` + resultHead + `"state":"rejected_before_dispatch","ok":false,"auto_retry_allowed":true,"text":"Synthetic result."},` +
			`"result_source":"job","dispatch_state":"not_dispatched","approval":{"status":"none"},"journal_state":"absent"}`},
		{"no result", func(r *receipt.Receipt) { r.Result, r.ResultSource = nil, receipt.ResultSourceNone },
			head + `"observed_at":"2026-09-15T12:00:00.000Z","result":null,"result_source":"none","dispatch_state":"not_dispatched",` +
				`"approval":{"status":"approved","approval_id":9},"journal_state":"absent"}`},
		{"another zone, and more exact than the wire", func(r *receipt.Receipt) {
			r.Result, r.ResultSource = nil, receipt.ResultSourceNone
			r.ObservedAt = time.Date(2026, 9, 15, 1, 2, 3, 4_567_891, time.FixedZone("", 8*3600))
		}, head + `"observed_at":"2026-09-14T17:02:03.004Z","result":null,"result_source":"none","dispatch_state":"not_dispatched",` +
			`"approval":{"status":"approved","approval_id":9},"journal_state":"absent"}`},
		{"hints that may not be kept", func(r *receipt.Receipt) { r.Result.AutoRetryAllowed = false },
			strings.NewReplacer(`"auto_retry_allowed":true`, `"auto_retry_allowed":false`, `,"retry_after_ms":60000`, "",
				`,"rate_limit":{"level":"provider","count":120,"window_sec":3600,"scope":"tool_provider_shared","source":"provider_total"}`, "").Replace(good().String())},
		{"hints below their range", func(r *receipt.Receipt) { r.Result.RetryAfterMS, r.Result.RateLimit.Count = -1, -1 },
			strings.NewReplacer(`,"retry_after_ms":60000`, "",
				`,"rate_limit":{"level":"provider","count":120,"window_sec":3600,"scope":"tool_provider_shared","source":"provider_total"}`, "").Replace(good().String())},
		{"hints out of range", func(r *receipt.Receipt) { r.Result.RetryAfterMS, r.Result.RateLimit.Source = 86_400_001, "\xff" },
			strings.NewReplacer(`,"retry_after_ms":60000`, "",
				`,"rate_limit":{"level":"provider","count":120,"window_sec":3600,"scope":"tool_provider_shared","source":"provider_total"}`, "").Replace(good().String())},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := goodReceipt()
			test.change(r)
			before := must(json.Marshal(fmt.Sprintf("%+v %+v", r, r.Result)))
			got, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			byValue, err := json.Marshal(*r)
			if err != nil || string(byValue) != string(got) {
				t.Errorf("by value: %s, %v", byValue, err)
			}
			parse(t, string(got))
			if diff := cmp.Diff(string(before), string(must(json.Marshal(fmt.Sprintf("%+v %+v", r, r.Result))))); diff != "" {
				t.Errorf("marshalling changed the receipt:\n%s", diff)
			}
		})
	}
}

func TestMarshalAsTheSeedDoes(t *testing.T) {
	t.Parallel()
	const seed = `{
  "schema_version": "bailing.agent-invocation-receipt.v1",
  "read_only": true,
  "business_operation_performed": false,
  "invocation_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "agent_run_id": "22222222-2222-4222-8222-222222222222",
  "route": "catalog-agent",
  "tool": "product_update",
  "observed_at": "2026-09-15T00:00:00.000Z",
  "result": {
    "schema_version": "bailing.agent-tool-invocation.v1",
    "invocation_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "route": "catalog-agent",
    "tool": "product_update",
    "state": "awaiting_approval",
    "ok": false,
    "auto_retry_allowed": false,
    "text": "The governed tool invocation is awaiting approval.",
    "approval_id": 1
  },
  "result_source": "job",
  "dispatch_state": "not_dispatched",
  "approval": {
    "status": "approved",
    "approval_id": 1
  },
  "journal_state": "absent"
}`
	got, err := receipt.Parse([]byte(seed), receipt.Want{InvocationID: invocation, Workspace: "catalog-agent"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seed, string(must(json.MarshalIndent(got, "", "  ")))); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// What is parsed, marshalled and parsed again is the same, whatever is in the
// text and whichever package does it.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`""`, `"\ud800"`, `"a\udfff\ud800b"`, `"\u0000\u001f\u007f\u0085"`, "\"\u2028\u2029\ufeff\"", `"<script>&amp;</script>"`, `"\"\\\/\b\f\n\r\t"`,
		`"\ufffd\uffff\ufdd0"`, `"\ud83d\ude00👨‍👩‍👧 订单 ١٢٣"`, text(strings.Repeat("<", 8192)), `"` + strings.Repeat(`\udc00`, 8192) + `"`,
	} {
		t.Run(short(value), func(t *testing.T) {
			t.Parallel()
			first := parse(t, good().with("result.text", value).with("result.rate_limit.source", `"\ud800<&>\u2028"`).String())
			type nested struct {
				Many  []receipt.Receipt           `json:"many"`
				By    map[string]*receipt.Receipt `json:"by"`
				None  *receipt.Receipt            `json:"none"`
				Inner struct{ R receipt.Receipt }
			}
			in := nested{Many: []receipt.Receipt{*first}, By: map[string]*receipt.Receipt{"x": first}}
			in.Inner.R = *first
			for name, codec := range map[string]struct {
				marshal   func(any) ([]byte, error)
				unmarshal func([]byte, any) error
			}{
				"encoding/json":    {json.Marshal, json.Unmarshal},
				"indented":         {func(v any) ([]byte, error) { return json.MarshalIndent(v, "\t", "  ") }, json.Unmarshal},
				"json version two": {func(v any) ([]byte, error) { return jsonv2.Marshal(v) }, func(b []byte, v any) error { return jsonv2.Unmarshal(b, v) }},
			} {
				again, err := codec.marshal(first)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := cmp.Diff(first, parse(t, string(again))); diff != "" {
					t.Errorf("%s: want -, got +:\n%s", name, diff)
				}
				var out nested
				data, err := codec.marshal(in)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if err := codec.unmarshal(data, &out); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := cmp.Diff(in, out); diff != "" {
					t.Errorf("%s: want -, got +:\n%s", name, diff)
				}
			}
		})
	}
}

// A receipt that Parse would refuse is not marshalled.
func TestMarshalRefuses(t *testing.T) {
	t.Parallel()
	const canary = "canary-91cd"
	for says, change := range map[string]func(*receipt.Receipt){
		"schema_version, or":           func(r *receipt.Receipt) { r.SchemaVersion = canary },
		"schema_version, or that of":   func(r *receipt.Receipt) { r.Result.SchemaVersion = "" },
		"read_only":                    func(r *receipt.Receipt) { r.ReadOnly = false },
		"business_operation_performed": func(r *receipt.Receipt) { r.BusinessOperationPerformed = true },
		"invocation_id is not an":      func(r *receipt.Receipt) { r.InvocationID, r.Result.InvocationID = canary, canary },
		"agent_run_id":                 func(r *receipt.Receipt) { r.AgentRunID = canary },
		"route is not":                 func(r *receipt.Receipt) { r.Route, r.Result.Route = "auto", "auto" },
		"tool is not the name":         func(r *receipt.Receipt) { r.Tool, r.Result.Tool = canary, canary },
		"observed_at":                  func(r *receipt.Receipt) { r.ObservedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"observed_at is":               func(r *receipt.Receipt) { r.ObservedAt = time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC) },
		"observed_at is not": func(r *receipt.Receipt) {
			r.ObservedAt = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200))
		},
		"result_source":                      func(r *receipt.Receipt) { r.ResultSource = canary },
		"dispatch_state":                     func(r *receipt.Receipt) { r.DispatchState = "" },
		"journal_state":                      func(r *receipt.Receipt) { r.JournalState = canary },
		"approval.status":                    func(r *receipt.Receipt) { r.Approval.Status = canary },
		"approval.approval_id is not an":     func(r *receipt.Receipt) { r.Approval.ID = 0 },
		"approval.approval_id is not an id":  func(r *receipt.Receipt) { r.Approval.Status = receipt.ApprovalNone },
		"approval.approval_id is out":        func(r *receipt.Receipt) { r.Approval.ID = 1 << 53 },
		"approval.approval_id is out of":     func(r *receipt.Receipt) { r.Approval.ID = -1 },
		"result is not null":                 func(r *receipt.Receipt) { r.Result = nil },
		"result is not null exactly":         func(r *receipt.Receipt) { r.ResultSource = receipt.ResultSourceNone },
		"result.invocation_id":               func(r *receipt.Receipt) { r.Result.InvocationID = strings.Repeat("b", 64) },
		"result.route":                       func(r *receipt.Receipt) { r.Result.Route = "inventory2" },
		"result.tool":                        func(r *receipt.Receipt) { r.Result.Tool = canary },
		"result.state":                       func(r *receipt.Receipt) { r.Result.State = canary },
		"result.text is too long":            func(r *receipt.Receipt) { r.Result.Text = strings.Repeat("字", 8193) },
		"result.text is not valid UTF-8":     func(r *receipt.Receipt) { r.Result.Text = canary + "\xff" },
		"result.business_status":             func(r *receipt.Receipt) { r.Result.BusinessStatus = 99 },
		"result.business_status is":          func(r *receipt.Receipt) { r.Result.BusinessStatus = -1 },
		"result.business_status is out of r": func(r *receipt.Receipt) { r.Result.BusinessStatus = 1000 },
		"result.approval_id is out":          func(r *receipt.Receipt) { r.Result.ApprovalID = -1 },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := goodReceipt()
			change(r)
			data, err := json.Marshal(r)
			if len(data) != 0 || feedback.CodeOf(err) != feedback.CodeInvalidRequest {
				t.Fatalf("got %s, %v", data, err)
			}
			if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), canary) {
				t.Errorf("got %q", err)
			}
		})
	}
	if _, err := json.Marshal(receipt.Receipt{}); feedback.CodeOf(err) != feedback.CodeInvalidRequest {
		t.Errorf("a zero receipt: %v", err)
	}
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	// Whatever invocation and workspace it names, by the same rules otherwise.
	other := strings.NewReplacer(invocation, strings.Repeat("0", 64), "inventory", "shop_2").Replace(good().String())
	var r receipt.Receipt
	if err := json.Unmarshal([]byte(other), &r); err != nil || r.Route != "shop_2" || r.Result.InvocationID != strings.Repeat("0", 64) {
		t.Errorf("got %+v, %v", r, err)
	}
	for name, test := range map[string]struct {
		body string
		code feedback.Code
	}{
		"another result":      {good().with("result.invocation_id", text(strings.Repeat("b", 64))).String(), invalid},
		"no invocation id":    {good().with("invocation_id", `""`).with("result.invocation_id", `""`).String(), invalid},
		"no workspace":        {good().with("route", `"auto"`).with("result.route", `"auto"`).String(), invalid},
		"null":                {"null", invalid},
		"a string":            {`"x"`, invalid},
		"an empty object":     {"{}", unsupported},
		"newer":               {good().with("schema_version", `"v2"`).String(), unsupported},
		"a duplicate":         {good().edit("tool", func(m member) []member { return []member{m, m} }).String(), invalid},
		"a duplicate further": {good().with("result.rate_limit", `{"x":{"a":1,"a":1}}`).String(), invalid},
		"another letter case": {good().renamed("tool", "Tool").String(), invalid},
		"invalid UTF-8":       {good().with("result.text", "\"\xff\"").String(), invalid},
		"larger than 1 MiB":   {good().edit("tool", func(m member) []member { return []member{m, {"x", text(strings.Repeat("x", 1<<20))}} }).String(), invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := goodReceipt()
			err := json.Unmarshal([]byte(test.body), kept)
			if feedback.CodeOf(err) != test.code {
				t.Errorf("got %v, want %s", err, test.code)
			}
			if failure, ok := errors.AsType[*feedback.Error](err); ok && failure.Feedback.InvocationID != "" {
				t.Errorf("the error names an invocation that nobody asked for: %+v", failure.Feedback)
			}
			if diff := cmp.Diff(goodReceipt(), kept); diff != "" {
				t.Errorf("a failed unmarshal changed the receipt: want -, got +:\n%s", diff)
			}
			var nested struct{ R *receipt.Receipt }
			if err := json.Unmarshal([]byte(`{"R":`+test.body+`}`), &nested); feedback.CodeOf(err) != test.code && name != "null" {
				t.Errorf("nested: got %v, want %s", err, test.code)
			}
		})
	}
	if err := new(receipt.Receipt).UnmarshalJSON(nil); feedback.CodeOf(err) != invalid {
		t.Errorf("nothing at all: %v", err)
	}
}

// A receipt can be shared and read by many goroutines.
func TestReceiptIsSafeToShare(t *testing.T) {
	t.Parallel()
	body := []byte(good().String())
	shared := parse(t, string(body))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, err := receipt.Parse(body, want)
			if err != nil || !cmp.Equal(got, shared) {
				t.Errorf("got %+v, %v", got, err)
			}
			data, err := json.Marshal(shared)
			if err != nil || string(data) != string(body) {
				t.Errorf("got %s, %v", data, err)
			}
			_, _ = shared.Feedback()
			if shared.Progress() != receipt.ProgressApprovedNotDispatched || shared.Settled() {
				t.Error("progress changed")
			}
		})
	}
	group.Wait()
}
