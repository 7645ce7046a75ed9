package receipt_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	fine        feedback.Code = ""
	invalid                   = feedback.CodeAgentInvalidResponse
	unsupported               = feedback.CodeAgentSchemaUnsupported
)

// goodReceipt is what good says.
func goodReceipt() *receipt.Receipt {
	return &receipt.Receipt{
		SchemaVersion: receipt.Schema,
		ReadOnly:      true,
		InvocationID:  invocation,
		AgentRunID:    "33333333-3333-4333-8333-333333333333",
		Route:         workspace,
		Tool:          "goods_update",
		ObservedAt:    time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC),
		Result: &receipt.Result{
			SchemaVersion:    receipt.ResultSchema,
			InvocationID:     invocation,
			Route:            workspace,
			Tool:             "goods_update",
			State:            receipt.StateRejectedBeforeDispatch,
			AutoRetryAllowed: true,
			Text:             "Synthetic result.",
			BusinessStatus:   429,
			ApprovalID:       7,
			RetryAfterMS:     60000,
			RateLimit: &receipt.RateLimit{
				Level:     receipt.RateLimitProvider,
				Count:     120,
				WindowSec: 3600,
				Scope:     receipt.RateLimitShared,
				Source:    "provider_total",
			},
		},
		ResultSource:  receipt.ResultSourceJob,
		DispatchState: receipt.DispatchNotDispatched,
		Approval:      receipt.Approval{Status: receipt.ApprovalApproved, ID: 9},
		JournalState:  receipt.JournalAbsent,
	}
}

func TestParseReadsEveryMember(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"in the usual order":   good().String(),
		"in the reverse order": good().reversed().String(),
		"with white space":     "\r\n\t " + strings.NewReplacer(`:"`, " :\t\"", `,"`, "\n,\r\"").Replace(good().String()) + " \n\r\t",
		"with more members": strings.NewReplacer(`"tool":`, `"arguments":{"tool":[null,{"tool":"x"}]},"name":"tool","":0,"tool":`,
			`"level":`, `"burst":null,"level":`, `"status":`, `"by":"\ud800","status":`).Replace(good().String()),
		"with escaped names and values": strings.NewReplacer(`"state"`, `"st\u0061te"`, `"job"`, `"j\u006Fb"`,
			`"read_only"`, `"\u0072ead\u005fonly"`, `"agent_run_id":"3`, `"agent_run_id":"\u0033`, `2026-09`, `2026\u002d09`).Replace(good().String()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := []byte(body)
			got, err := receipt.Parse(data, want)
			if err != nil {
				t.Fatal(err)
			}
			clear(data) // what was parsed does not hang on to the body
			if diff := cmp.Diff(goodReceipt(), got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// How a member reacts when it is not there, and when its value is of another
// kind.
var (
	optional = []string{"result.business_status", "result.approval_id"}
	schemas  = []string{"schema_version", "result.schema_version"}
	isHint   = func(path string) bool {
		return strings.HasPrefix(path, "result.retry_after_ms") || strings.HasPrefix(path, "result.rate_limit")
	}
)

// Every member in turn is left out, null, of every other kind, there twice, or
// in another letter case.
func TestParseWithOneMemberChanged(t *testing.T) {
	t.Parallel()
	kinds := map[byte]string{'"': "string", 't': "boolean", 'f': "boolean", '{': "object"}
	values := map[string]string{
		"null": `null`, "string": `"x"`, "empty string": `""`, "boolean": `true`, "number": `3`, "zero": `0`,
		"array": `[]`, "array of the value": `[%s]`, "object": `{}`, "object of the value": `{"value":%s}`, "the value as a string": `%q`,
	}
	for _, path := range good().paths() {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			o := good()
			var value string
			o.edit(path, func(m member) []member { value = fmt.Sprint(m.value); return nil })
			kind := kinds[value[0]]
			if kind == "" {
				kind = "number"
			}

			// Left out, or under a name that is another one.
			gone := invalid
			switch {
			case slices.Contains(optional, path) || isHint(path):
				gone = fine
			case slices.Contains(schemas, path):
				gone = unsupported
			}
			last := path[strings.LastIndexByte(path, '.')+1:]
			for how, changed := range map[string]object{
				"left out":              o.without(path),
				"in capitals":           o.renamed(path, strings.ToUpper(last)),
				"with a capital":        o.renamed(path, strings.ToUpper(last[:1])+last[1:]),
				"with a space":          o.renamed(path, last+" "),
				"with NUL":              o.renamed(path, last+`\u0000`),
				"without its last byte": o.renamed(path, last[:len(last)-1]),
			} {
				if got := parseCode(changed.String()); got != gone {
					t.Errorf("%s: got %q, want %q", how, got, gone)
				}
			}

			// Of another kind.
			for name, other := range values {
				if strings.HasSuffix(name, kind) && name != "empty string" || kind == "number" && name == "zero" {
					continue
				}
				if strings.Contains(other, "%") {
					other = fmt.Sprintf(other, value)
				}
				if strings.HasPrefix(name, "the value as") && kind == "string" {
					continue
				}
				code := invalid
				switch {
				case slices.Contains(schemas, path):
					code = unsupported
				case isHint(path) || path == "result.text" && name == "empty string":
					code = fine
				case path == "result" && strings.HasPrefix(other, "{"):
					code = unsupported // an object without the schema
				}
				if got := parseCode(o.with(path, other).String()); got != code {
					t.Errorf("%s: got %q, want %q", name, got, code)
				}
			}

			// There twice: then there is no telling what the Hub says. A spelling
			// with an escape is the same name, another letter case is not.
			for _, spelling := range []struct {
				name string
				code feedback.Code
			}{
				{last, invalid},
				{fmt.Sprintf(`\u%04x`, last[0]) + last[1:], invalid},
				{strings.ToUpper(last), fine},
			} {
				for how, twice := range map[string]object{
					"again":     o.edit(path, func(m member) []member { return []member{m, {spelling.name, m.value}} }),
					"null then": o.edit(path, func(m member) []member { return []member{{spelling.name, "null"}, m} }),
					"then null": o.edit(path, func(m member) []member { return []member{m, {spelling.name, "null"}} }),
				} {
					if got := parseCode(twice.String()); got != spelling.code {
						t.Errorf("%s, %s: got %q, want %q", spelling.name, how, got, spelling.code)
					}
				}
			}
		})
	}
}

// Values at the edges of each rule, on both sides.
func TestParseValues(t *testing.T) {
	t.Parallel()
	noResult := good().with("result", `null`).with("result_source", `"none"`)
	tests := []struct {
		path string
		good []string
		bad  []string
		in   object // good() where there is none
	}{
		{path: "read_only", good: []string{`true`}, bad: []string{`false`, `"true"`, `1`}},
		{path: "business_operation_performed", good: []string{`false`}, bad: []string{`true`, `"false"`, `0`}},
		{path: "invocation_id", bad: []string{
			text(strings.Repeat("b", 64)), text(strings.Repeat("A", 64)), text(invocation[1:]), text(invocation + "a"),
			text(invocation + "\n"), text(" " + invocation), text("sha256:" + invocation)}},
		{path: "agent_run_id", bad: []string{
			`"33333333-3333-0333-8333-333333333333"`, `"33333333-3333-6333-8333-333333333333"`, `"33333333-3333-4333-7333-333333333333"`,
			`"33333333-3333-4333-c333-333333333333"`, `"33333333-3333-4333-8333-33333333333"`, `"33333333-3333-4333-8333-3333333333333"`,
			`"333333333333-4333-8333-333333333333"`, `"3333333333334333833333333333333333"`, `"{33333333-3333-4333-8333-333333333333}"`,
			`"33333333-3333-4333-8333-33333333333g"`, `"33333333-3333-4333-8333-333333333333\n"`, `"33333333_3333_4333_8333_333333333333"`},
			good: []string{`"33333333-3333-1333-9333-333333333333"`, `"33333333-3333-5333-b333-333333333333"`, `"ABCDEF01-2345-4789-ABCD-EF0123456789"`,
				`"abcdef01-2345-4789-Bbcd-ef0123456789"`}},
		{path: "route", bad: []string{`"inventorY"`, `"inventory "`, `"inventory2"`, `"auto"`, `"inventоry"`, `"inventory\u0000"`, `"i"`}},
		{path: "tool", in: noResult,
			good: []string{`"a"`, `"_"`, `"Z9"`, `"_0aZ"`, text(strings.Repeat("a", 64))},
			bad: []string{`""`, `"9a"`, `"a-b"`, `"a.b"`, `"a b"`, `"a\n"`, `"Ａ"`, `"ä"`, `"商品"`, `"@"`, "\"[\"", "\"`\"", `"{"`,
				text(strings.Repeat("a", 65))}},
		{path: "result_source", good: []string{`"job"`, `"journal"`}, bad: []string{`"none"`, `"Job"`, `"job "`, `""`, `"jobs"`, `"store"`}},
		{path: "result_source", in: noResult, good: []string{`"none"`}, bad: []string{`"job"`, `"journal"`, `"None"`, `""`}},
		{path: "result", in: noResult, good: []string{`null`}, bad: []string{`false`, `0`, `""`, `[]`, `[null]`, `"null"`}},
		{path: "dispatch_state", good: []string{`"not_dispatched"`, `"attempted"`, `"unknown"`},
			bad: []string{`"dispatched"`, `"Attempted"`, `""`, `"not dispatched"`, `"none"`}},
		{path: "journal_state",
			good: []string{`"absent"`, `"dispatching"`, `"response_recorded"`, `"completed"`, `"uncertain"`, `"evidence_degraded"`, `"unknown"`},
			bad:  []string{`"none"`, `"complete"`, `"Absent"`, `""`, `"absent\u0000"`}},
		{path: "approval.status", good: []string{`"pending"`, `"approved"`, `"denied"`}, bad: []string{`"none"`, `"rejected"`, `"Approved"`, `""`, `"expired"`}},
		{path: "approval",
			good: []string{`{"status":"none"}`, `{"approval_id":1,"status":"pending"}`, `{"status":"none","approval_ID":5}`, `{"status":"none","id":5}`},
			bad: []string{`{}`, `{"approval_id":1}`, `{"status":"none","approval_id":1}`, `{"status":"none","approval_id":null}`,
				`{"status":"none","approval_id":0}`, `{"status":"none","approval_id":""}`, `{"status":"pending"}`, `{"status":"approved"}`, `{"status":"denied"}`,
				`{"status":"pending","approval_id":null}`, `{"status":"pending","approval_ID":1}`}},
		{path: "approval.approval_id", good: []string{`1`, `9007199254740991`},
			bad: []string{`0`, `-0`, `-1`, `9007199254740992`, `9223372036854775807`, `18446744073709551617`, `1.0`, `1e0`, `1E0`, `10e-1`, `0.1`, `"1"`, `true`}},
		{path: "result.invocation_id", bad: []string{text(strings.Repeat("b", 64)), text(strings.ToUpper(invocation)), `""`}},
		{path: "result.route", bad: []string{`"inventory2"`, `"Inventory"`, `""`}},
		{path: "result.tool", bad: []string{`"goods_updatE"`, `"goods_update "`, `""`}},
		{path: "result.state",
			good: []string{`"executed"`, `"business_rejected"`, `"awaiting_approval"`, `"denied"`, `"rejected_before_dispatch"`, `"reconciliation_required"`, `"in_progress"`},
			bad:  []string{`"Executed"`, `"success"`, `""`, `"executed\n"`, `"unknown"`}},
		{path: "result.ok", good: []string{`true`, `false`}, bad: []string{`"true"`, `0`, `1`}},
		{path: "result.auto_retry_allowed", good: []string{`true`, `false`}, bad: []string{`"true"`, `0`, `1`}},
		{path: "result.business_status", good: []string{`100`, `204`, `599`, `600`, `700`, `999`},
			bad: []string{`0`, `99`, `-100`, `-0`, `1000`, `200.0`, `2e2`, `1e+21`, `"200"`, `18446744073709551816`, `4294967496`}},
		{path: "result.approval_id", good: []string{`1`, `9007199254740992`, `9223372036854775807`},
			bad: []string{`0`, `-0`, `-1`, `9223372036854775808`, `18446744073709551617`, `99999999999999999999`, `1.0`, `1e3`, `"1"`}},
		{path: "result.text",
			good: []string{`""`, `" "`, `"\u0000"`, `"\ud800"`, `"a\udfff"`, `"\u202e\u200b\u0085"`, text(strings.Repeat("a", 8192)), text(strings.Repeat("字", 8192)),
				text(strings.Repeat("é", 8192)), text(strings.Repeat("😀", 4096)), text("a" + strings.Repeat("字", 8191)), text(strings.Repeat("字", 8190) + "😀"),
				`"` + strings.Repeat(`\ud83d\ude00`, 4096) + `"`, `"` + strings.Repeat(`\ud83d`, 8192) + `"`, `"` + strings.Repeat(`\u5b57`, 8192) + `"`,
				`"` + strings.Repeat(`\n`, 8192) + `"`, `"` + strings.Repeat(`\udc00\ud83d`, 4096) + `"`},
			bad: []string{text(strings.Repeat("a", 8193)), text(strings.Repeat("字", 8193)), text(strings.Repeat("é", 8193)), text(strings.Repeat("😀", 4096) + "a"),
				text("a" + strings.Repeat("😀", 4096)), text(strings.Repeat("😀", 4097)), text(strings.Repeat("字", 8191) + "😀"), text(strings.Repeat("a", 100000)),
				`"` + strings.Repeat(`\ud83d\ude00`, 4096) + `\n"`, `"` + strings.Repeat(`\ud83d`, 8193) + `"`, `"` + strings.Repeat(`\u5b57`, 8193) + `"`,
				`"` + strings.Repeat(`\udc00\ud83d`, 4096) + `\udc00\ud83d\ude00"`}},
		{path: "observed_at",
			good: []string{`"2026-09-15T12:00:00Z"`, `"2026-09-15T12:00:00.1Z"`, `"2026-09-15T12:00:00.12Z"`, `"2026-09-15T23:59:59.999Z"`,
				`"2024-02-29T00:00:00Z"`, `"2000-02-29T00:00:00Z"`, `"2026-02-28T00:00:00Z"`, `"2026-12-31T00:00:00Z"`, `"2026-04-30T00:00:00Z"`,
				`"0000-02-29T00:00:00Z"`, `"0001-01-01T00:00:00.000Z"`, `"9999-12-31T23:59:59.999Z"`},
			bad: []string{`"2026-02-29T00:00:00Z"`, `"1900-02-29T00:00:00Z"`, `"2100-02-29T00:00:00Z"`, `"2024-02-30T00:00:00Z"`, `"2026-04-31T00:00:00Z"`,
				`"2026-00-15T12:00:00Z"`, `"2026-13-15T12:00:00Z"`, `"2026-09-00T12:00:00Z"`, `"2026-09-32T12:00:00Z"`, `"2026-09-15T24:00:00Z"`,
				`"2026-09-15T12:60:00Z"`, `"2026-09-15T12:00:60Z"`, `"2016-12-31T23:59:60Z"`, `"2026-09-15T12:00:00.Z"`, `"2026-09-15T12:00:00.0000Z"`,
				`"2026-09-15T12:00:00.000000000Z"`, `"2026-09-15T12:00:00,000Z"`, `"2026-09-15t12:00:00Z"`, `"2026-09-15T12:00:00z"`, `"2026-09-15 12:00:00Z"`,
				`"2026-09-15T12:00:00"`, `"2026-09-15T12:00:00+00:00"`, `"2026-09-15T12:00:00-00:00"`, `"2026-09-15T12:00:00+08:00"`, `"2026-09-15T12:00:00.000"`,
				`"2026-09-15T12:00Z"`, `"2026-09-15"`, `"2026-9-15T12:00:00Z"`, `"2026-09-15T1:00:00Z"`, `"26-09-15T12:00:00Z"`, `"12026-09-15T12:00:00Z"`,
				`"+2026-09-15T12:00:00Z"`, `"-2026-09-15T12:00:00Z"`, `" 2026-09-15T12:00:00Z"`, `"2026-09-15T12:00:00Z "`, `"2026-09-15T12:00:00Z\n"`,
				`"2026-09-15T12:00:00.0 Z"`, `"2026-09-15T12:00:00.+1Z"`, `"2026-09-15T12:00:00.1aZ"`, `"2026-09-15T12:00:00.1/Z"`, `"2026-09-15T12:00:00./Z"`, `"2026-09-15T12:00:00.:Z"`,
				`"202:-09-15T12:00:00Z"`, `"2026-09-1/T12:00:00Z"`, `"2026-09-15T12:00:0:Z"`, `"2026-09-15T12:00:1/Z"`, `"/026-09-15T12:00:00Z"`, `"2026-09-15T-1:00:00Z"`, `"2026/09/15T12:00:00Z"`,
				`"２026-09-15T12:00:00Z"`, `"2026-09-15T12:00:00.000ZZ"`, `"20260915T120000Z"`, `"1789473600000"`, `1789473600000`, `""`, `"Z"`}},
	}
	for _, test := range tests {
		o := test.in
		if o == nil {
			o = good()
		}
		for _, value := range test.good {
			t.Run(test.path+" "+short(value), func(t *testing.T) {
				t.Parallel()
				if got := parseCode(o.with(test.path, value).String()); got != fine {
					t.Errorf("refused as %s", got)
				}
			})
		}
		for _, value := range test.bad {
			t.Run(test.path+" bad "+short(value), func(t *testing.T) {
				t.Parallel()
				if got := parseCode(o.with(test.path, value).String()); got != invalid {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

// The length of a text counts in UTF-16 code units, wherever in it the longer
// characters stand.
func TestParseTextUnits(t *testing.T) {
	t.Parallel()
	units := func(s string) int { return len(utf16.Encode([]rune(s))) }
	for _, long := range []string{"é", "字", "😀"} {
		for before := range 9 {
			for _, end := range []string{"", "é", "字", "😀", "z😀", "😀zz", "字zzz", "😀😀"} {
				left := 8192 - before - units(end)
				s := strings.Repeat("a", before) + strings.Repeat(long, left/units(long)) + strings.Repeat("z", left%units(long))
				if got := parseCode(good().with("result.text", `"`+s+end+`"`).String()); got != fine {
					t.Errorf("8192 of %d, %s, %s: refused as %s", before, long, end, got)
				}
				if got := parseCode(good().with("result.text", `"`+s+"z"+end+`"`).String()); got != invalid {
					t.Errorf("8193 of %d, %s, %s: got %q", before, long, end, got)
				}
			}
		}
	}
}

func TestParseReadsValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path, value string
		get         func(*receipt.Receipt) any
		want        any
	}{
		{"result.text", `"a\ud83d"`, func(r *receipt.Receipt) any { return r.Result.Text }, "a\ufffd"},
		{"result.text", `"\ud83d\ud83d\ude00\ude00"`, func(r *receipt.Receipt) any { return r.Result.Text }, "\ufffd😀\ufffd"},
		{"result.text", `"\"\\\/\b\f\n\r\t\u8BA2 订"`, func(r *receipt.Receipt) any { return r.Result.Text }, "\"\\/\b\f\n\r\t订 订"},
		{"result.text", "\"a\u2028<&>\u007f\"", func(r *receipt.Receipt) any { return r.Result.Text }, "a\u2028<&>\u007f"},
		{"result.approval_id", `9223372036854775807`, func(r *receipt.Receipt) any { return r.Result.ApprovalID }, int64(9223372036854775807)},
		{"result.business_status", `599`, func(r *receipt.Receipt) any { return r.Result.BusinessStatus }, 599},
		{"approval.approval_id", `9007199254740991`, func(r *receipt.Receipt) any { return r.Approval.ID }, int64(9007199254740991)},
		{"agent_run_id", `"ABCDEF01-2345-4789-abcd-EF0123456789"`, func(r *receipt.Receipt) any { return r.AgentRunID }, "ABCDEF01-2345-4789-abcd-EF0123456789"},
		{"observed_at", `"2024-02-29T23:59:58.7Z"`, func(r *receipt.Receipt) any { return r.ObservedAt }, time.Date(2024, 2, 29, 23, 59, 58, 700e6, time.UTC)},
		{"observed_at", `"2024-02-29T23:59:58.07Z"`, func(r *receipt.Receipt) any { return r.ObservedAt }, time.Date(2024, 2, 29, 23, 59, 58, 70e6, time.UTC)},
		{"observed_at", `"2024-02-29T23:59:58.007Z"`, func(r *receipt.Receipt) any { return r.ObservedAt }, time.Date(2024, 2, 29, 23, 59, 58, 7e6, time.UTC)},
		{"observed_at", `"0000-01-01T00:00:00Z"`, func(r *receipt.Receipt) any { return r.ObservedAt }, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	for _, test := range tests {
		t.Run(test.path+" "+test.value, func(t *testing.T) {
			t.Parallel()
			got := test.get(parse(t, good().with(test.path, test.value).String()))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// "Unsupported" wins over everything else that is wrong with the object, but
// what is no strict JSON object has no schema.
func TestParseUnsupported(t *testing.T) {
	t.Parallel()
	o := good()
	newer := o.with("schema_version", `"bailing.agent-invocation-receipt.v2"`)
	newerResult := o.with("result.schema_version", `"bailing.agent-tool-invocation.v2"`)
	tests := []struct {
		name string
		body string
		want feedback.Code
	}{
		{"newer", newer.String(), unsupported},
		{"in another letter case", o.with("schema_version", `"Bailing.agent-invocation-receipt.v1"`).String(), unsupported},
		{"with a space", o.with("schema_version", `"bailing.agent-invocation-receipt.v1 "`).String(), unsupported},
		{"the schema of the capabilities", o.with("schema_version", `"bailing.agent-invocation-inspection-capabilities.v1"`).String(), unsupported},
		{"null", o.with("schema_version", `null`).String(), unsupported},
		{"a number", o.with("schema_version", `1`).String(), unsupported},
		{"an object", o.with("schema_version", `{"schema_version":"bailing.agent-invocation-receipt.v1"}`).String(), unsupported},
		{"an empty object", `{}`, unsupported},
		{"an error body", `{"error":"hub_paused"}`, unsupported},
		{"newer with a member of a wrong type", newer.with("tool", `7`).String(), unsupported},
		{"newer, the wrong type first", newer.with("tool", `7`).reversed().String(), unsupported},
		{"newer of another invocation", newer.with("invocation_id", text(strings.Repeat("b", 64))).String(), unsupported},
		{"newer with a result that is a string", newer.with("result", `"x"`).String(), unsupported},
		{"newer without anything else", `{"schema_version":"bailing.agent-invocation-receipt.v2"}`, unsupported},
		{"newer with a duplicate", newer.edit("tool", func(m member) []member { return []member{m, m} }).String(), invalid},
		{"newer with a duplicate in what it adds", newer.with("tool", `{"a":{"b":1,"b":1}}`).String(), invalid},
		{"newer with invalid UTF-8", newer.with("tool", "\"\xff\"").String(), invalid},
		{"newer with a byte order mark", "\ufeff" + newer.String(), invalid},
		{"newer and cut", newer.String()[:len(newer.String())-1], invalid},
		{"newer and something behind", newer.String() + "null", invalid},
		{"newer in an array", "[" + newer.String() + "]", invalid},
		{"newer beside this one", o.edit("schema_version", func(m member) []member { return []member{m, newer[0]} }).String(), invalid},
		{"newer result", newerResult.String(), unsupported},
		{"result without a schema", o.without("result.schema_version").String(), unsupported},
		{"result with a null schema", o.with("result.schema_version", `null`).String(), unsupported},
		{"result with the receipt's schema", o.with("result.schema_version", text(receipt.Schema)).String(), unsupported},
		{"result is an empty object", o.with("result", `{}`).String(), unsupported},
		{"newer result with another shape", o.with("result", `{"schema_version":"v2","state":["executed"],"ok":null}`).String(), unsupported},
		{"newer result and source none", newerResult.with("result_source", `"none"`).String(), unsupported},
		{"newer result of another invocation", newerResult.with("invocation_id", text(strings.Repeat("b", 64))).String(), unsupported},
		{"newer result in a receipt with a wrong type", newerResult.with("approval", `null`).reversed().String(), unsupported},
		{"newer result with a duplicate", newerResult.edit("result.text", func(m member) []member { return []member{m, m} }).String(), invalid},
		{"result is a string", o.with("result", `"bailing.agent-tool-invocation.v2"`).String(), invalid},
		{"result is an array", o.with("result", `[{"schema_version":"v2"}]`).String(), invalid},
		{"result is null with a source", o.with("result", `null`).String(), invalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := parseCode(test.body); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Hints are dropped where they may not be kept, and break nothing; but they
// are JSON like everything else.
func TestParseHints(t *testing.T) {
	t.Parallel()
	hints := func(r *receipt.Receipt) [2]bool {
		return [2]bool{r.Result.RetryAfterMS != 0, r.Result.RateLimit != nil}
	}
	both, none, after, limit := [2]bool{true, true}, [2]bool{}, [2]bool{true, false}, [2]bool{false, true}
	o := good()
	of := func(state, ok, retry string) object {
		return o.with("result.state", `"`+state+`"`).with("result.ok", ok).with("result.auto_retry_allowed", retry)
	}
	type test struct {
		name string
		o    object
		want [2]bool
	}
	tests := []test{
		{"kept", o, both},
		{"no retry allowed", of("rejected_before_dispatch", "false", "false"), none},
		{"executed", of("executed", "true", "true"), none},
		{"reconciliation required", of("reconciliation_required", "false", "true"), none},
		{"in progress", of("in_progress", "false", "true"), none},
		{"awaiting approval", of("awaiting_approval", "false", "true"), none},
		{"denied", of("denied", "false", "true"), none},
		{"business rejected", of("business_rejected", "false", "true"), none},
		{"ok does not count", of("rejected_before_dispatch", "true", "true"), both},
		{"more members in the limit", o.edit("result.rate_limit.level", func(m member) []member { return []member{m, {"more", "[]"}} }), both},
		{"no retry_after_ms", o.without("result.retry_after_ms"), limit},
		{"no rate_limit", o.without("result.rate_limit"), after},
	}
	for _, value := range []string{`0`, `-1`, `-0`, `86400001`, `9007199254740991`, `9223372036854775808`, `1.0`, `1e3`, `"1"`, `null`, `true`, `[]`, `{}`, `{"retry_after_ms":1}`} {
		tests = append(tests, test{"retry_after_ms " + value, o.with("result.retry_after_ms", value), limit})
	}
	for _, value := range []string{`1`, `86400000`} {
		tests = append(tests, test{"retry_after_ms " + value, o.with("result.retry_after_ms", value), both})
	}
	for path, values := range map[string][2][]string{ // kept and dropped
		"result.rate_limit":            {nil, {`null`, `"provider"`, `[]`, `1`, `{}`, `[{"level":"tool"}]`}},
		"result.rate_limit.level":      {{`"tool"`, `"provider"`}, {`"client"`, `"Tool"`, `""`, `null`, `1`, `["tool"]`}},
		"result.rate_limit.scope":      {{`"tool_provider_shared"`}, {`"tool"`, `""`, `null`, `{}`}},
		"result.rate_limit.count":      {{`1`, `9007199254740991`}, {`0`, `-1`, `9007199254740992`, `1.0`, `1e2`, `"1"`, `null`}},
		"result.rate_limit.window_sec": {{`1`, `9007199254740991`}, {`0`, `-1`, `9007199254740992`, `1.0`, `1e2`, `"1"`, `null`}},
		"result.rate_limit.source": {
			{`"x"`, `" "`, `"\ud800"`, text(strings.Repeat("s", 128)), text(strings.Repeat("源", 128)), text(strings.Repeat("😀", 64)), `"` + strings.Repeat(`\ud800`, 128) + `"`},
			{`""`, text(strings.Repeat("s", 129)), text(strings.Repeat("源", 129)), text(strings.Repeat("😀", 64) + "s"), `null`, `1`, `["x"]`}},
	} {
		for i, wanted := range [][2]bool{both, after} {
			for _, value := range values[i] {
				tests = append(tests, test{path + " " + value, o.with(path, value), wanted})
			}
		}
	}
	for _, path := range o.paths() {
		if strings.HasPrefix(path, "result.rate_limit.") {
			tests = append(tests, test{path + " missing", o.without(path), after})
		}
	}
	for _, test := range tests {
		for order, o := range map[string]object{"": test.o, ", reversed": test.o.reversed()} {
			t.Run(test.name+order, func(t *testing.T) {
				t.Parallel()
				if got := hints(parse(t, o.String())); got != test.want {
					t.Errorf("retry_after_ms and rate_limit kept: got %v, want %v", got, test.want)
				}
			})
		}
	}
	for name, value := range map[string]string{
		"name twice":         `{"level":"tool","level":"tool"}`,
		"name twice further": `{"more":[{"a":1,"a":1}]}`,
		"not closed":         `{"level":"tool"`,
		"invalid UTF-8":      "\"\xff\"",
		"leading zero":       `060000`,
	} {
		for _, path := range []string{"result.retry_after_ms", "result.rate_limit"} {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				if got := parseCode(o.with(path, value).with("result.state", `"executed"`).String()); got != invalid {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

func TestParseRefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	o := good().String()
	for name, body := range map[string]string{
		"nothing":                        "",
		"white space":                    " \n",
		"HTML":                           "<!doctype html><title>Hub</title>",
		"null":                           "null",
		"a string":                       text(o),
		"an array":                       "[" + o + "]",
		"two receipts":                   o + "\n" + o,
		"a receipt and a comma":          o + ",",
		"a receipt and NUL":              o + "\x00",
		"a byte order mark":              "\ufeff" + o,
		"a byte order mark behind":       o + "\ufeff",
		"no-break space":                 o + "\u00a0",
		"vertical tab":                   "\v" + o,
		"invalid UTF-8 in the text":      strings.Replace(o, "Synthetic", "\xc3\x28", 1),
		"invalid UTF-8 in an extra name": strings.Replace(o, `{`, "{\"\xff\":1,", 1),
		"an encoded surrogate":           strings.Replace(o, "Synthetic", "\xed\xa0\xbd", 1),
		"invalid UTF-8 and a surrogate":  strings.Replace(o, "Synthetic", "\\ud83d\xff", 1),
		"Latin-1":                        strings.Replace(o, "Synthetic", "\xe9", 1),
		"UTF-16":                         "\xff\xfe{\x00}\x00",
		"a comment":                      "/* */" + o,
		"a trailing comma":               strings.TrimSuffix(o, "}") + ",}",
		"single quotes":                  strings.ReplaceAll(o, `"`, `'`),
		"raw control in a string":        strings.Replace(o, "Synthetic", "\n", 1),
		"deep arrays":                    strings.Repeat("[", 1<<20),
		"deep objects":                   strings.Repeat(`{"a":`, 1<<17),
		"deep in an extra member":        `{"a":` + strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19-10) + `}`,
		"larger than 1 MiB":              o + strings.Repeat(" ", 1<<20+1-len(o)),
		"duplicate far down":             strings.Replace(o, `{`, `{"x":[[[{"y":[{"z":1,"z":2}]}]]],`, 1),
		"duplicate by lone surrogates":   strings.Replace(o, `{`, `{"\ud800":1,"\udbff":2,`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := parseCode(body); got != invalid {
				t.Errorf("got %q", got)
			}
		})
	}
	if got := parseCode(o + strings.Repeat(" ", 1<<20-len(o))); got != fine {
		t.Errorf("exactly 1 MiB: refused as %s", got)
	}
}

func TestParseWant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		want receipt.Want
		code feedback.Code
		id   string
		says string
	}{
		{"nothing", receipt.Want{}, feedback.CodeInvalidRequest, "", "invocation id"},
		{"no id", receipt.Want{Workspace: workspace}, feedback.CodeInvalidRequest, "", "invocation id"},
		{"id in capitals", receipt.Want{InvocationID: strings.ToUpper(invocation), Workspace: workspace}, feedback.CodeInvalidRequest, "", "invocation id"},
		{"id with a newline", receipt.Want{InvocationID: invocation + "\n", Workspace: workspace}, feedback.CodeInvalidRequest, "", "invocation id"},
		{"no workspace", receipt.Want{InvocationID: invocation}, feedback.CodeInvalidRequest, invocation, "workspace"},
		{"automatic workspace", receipt.Want{InvocationID: invocation, Workspace: "auto"}, feedback.CodeInvalidRequest, invocation, "workspace"},
		{"workspace with a space", receipt.Want{InvocationID: invocation, Workspace: "inventory "}, feedback.CodeInvalidRequest, invocation, "workspace"},
		{"another id", receipt.Want{InvocationID: strings.Repeat("b", 64), Workspace: workspace}, invalid, strings.Repeat("b", 64), "its invocation_id is not that of the original"},
		{"another workspace", receipt.Want{InvocationID: invocation, Workspace: "inventory2"}, invalid, invocation, "its route is not that of the original"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := receipt.Parse([]byte(good().String()), test.want)
			if got != nil || feedback.CodeOf(err) != test.code {
				t.Fatalf("got %v, %v", got, err)
			}
			failure, _ := errors.AsType[*feedback.Error](err)
			if failure.Feedback.InvocationID != test.id || failure.StatusCode != 0 || failure.Feedback.Dispatch != feedback.DispatchNotDispatched {
				t.Errorf("got %+v", failure)
			}
			if !strings.Contains(failure.Feedback.Message, test.says) {
				t.Errorf("%q does not name %q", failure.Feedback.Message, test.says)
			}
		})
	}
}

// A message names what is wrong, and quotes nothing of the body.
func TestParseMessages(t *testing.T) {
	t.Parallel()
	const canary = "canary-5b1e"
	o := good()
	for says, changed := range map[string]object{
		"tool is not a string":                o.with("tool", `["`+canary+`"]`),
		"tool is not the name of a tool":      o.with("tool", `"`+canary+`"`),
		"agent_run_id is not a UUID":          o.with("agent_run_id", `"`+canary+`"`),
		"read_only is neither":                o.with("read_only", `"`+canary+`"`),
		"read_only is not true":               o.without("read_only"),
		"business_operation_performed is mi":  o.without("business_operation_performed"),
		"business_operation_performed is no":  o.with("business_operation_performed", "true"),
		"result is missing":                   o.without("result"),
		"result is neither":                   o.with("result", `"`+canary+`"`),
		"result is not null exactly":          o.with("result", "null"),
		"result.ok is missing":                o.without("result.ok"),
		"result.auto_retry_allowed is miss":   o.without("result.auto_retry_allowed"),
		"result.text is missing":              o.without("result.text"),
		"result.text is not a string":         o.with("result.text", `{"x":"`+canary+`"}`),
		"result.text is too long":             o.with("result.text", text(strings.Repeat(canary, 800))),
		"result.state is not a known":         o.with("result.state", `"`+canary+`"`),
		"result.tool is not that of":          o.with("result.tool", `"`+canary+`"`),
		"result.business_status is not an in": o.with("result.business_status", `"`+canary+`"`),
		"result.business_status is out of":    o.with("result.business_status", "99"),
		"approval is not an object":           o.with("approval", `"`+canary+`"`),
		"approval.status is not a known":      o.with("approval.status", `"`+canary+`"`),
		"approval.approval_id is not an int":  o.with("approval.approval_id", `"`+canary+`"`),
		"approval.approval_id is not an id ":  o.without("approval.approval_id"),
		"observed_at is not a date":           o.with("observed_at", `"`+canary+`"`),
		"dispatch_state is not a known":       o.with("dispatch_state", `"`+canary+`"`),
		"journal_state is not a known":        o.without("journal_state"),
		"result_source is not a known":        o.with("result_source", `"`+canary+`"`),
		"is not exactly one JSON document":    o.with("tool", `"`+canary+`" "`+canary+`"`),
		"member name twice":                   o.with("tool", `{"`+canary+`":1,"`+canary+`":2}`),
		"is not valid UTF-8":                  o.with("tool", "\""+canary+"\xff\""),
		"larger than 1 MiB":                   o.with("tool", text(strings.Repeat(canary, 1<<17))),
		"schema that this SDK does not read":  o.with("schema_version", `"`+canary+`"`),
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			_, err := receipt.Parse([]byte(changed.String()), want)
			if got := message(err); !strings.Contains(got, says) || strings.Contains(got, canary) {
				t.Errorf("got %q", got)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) {
				t.Errorf("the error quotes the body: %v", err)
			}
		})
	}
}
