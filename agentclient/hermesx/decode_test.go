package hermesx_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// with gives a receipt's JSON with a member replaced, added or, with "",
// removed.
func with(name, value string) string {
	members := []string{
		"id", `"rcpt_1"`, "tenant_id", `"t"`, "session_id", `"s"`, "user_id", `"u"`, "tool_name", `"read_file"`, "input", `"{}"`,
		"output", `""`, "status", `"success"`, "duration_ms", `17`, "created_at", `"2026-05-24T04:00:00Z"`,
	}
	var b strings.Builder
	put := func(name, value string) {
		if value == "" {
			return
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[b.Len() == 0] + `"` + name + `":` + value)
	}
	there := false
	for i := 0; i < len(members); i += 2 {
		if members[i] == name {
			there = true
			put(name, value)
		} else {
			put(members[i], members[i+1])
		}
	}
	if !there {
		put(name, value)
	}
	return b.String() + "}"
}

// What is refused of a receipt, by itself and on a page.
func TestBadReceipts(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"empty":                 "",
		"null":                  "null",
		"array":                 "[" + receiptBody + "]",
		"text":                  `"` + canary + `"`,
		"plain text":            canary,
		"two":                   receiptBody + receiptBody,
		"cut":                   receiptBody[:60],
		"byte order mark":       "\ufeff" + receiptBody,
		"not UTF-8":             with("input", "\"\xff\""),
		"half a character":      with("output", "\"\xe7\x95\""),
		"twice":                 with("extra", `1,"id":"rcpt_1"`),
		"twice, unknown":        with("extra", `1,"extra":2`),
		"twice, deep":           with("extra", `{"a":{"b":1,"b":2}}`),
		"twice, escaped":        with("extra", `1,"\u0069d":"rcpt_1"`),
		"other letter case":     strings.Replace(receiptBody, `"id"`, `"ID"`, 1),
		"id empty":              with("id", `""`),
		"id a number":           with("id", `1`),
		"duration a text":       with("duration_ms", `"17"`),
		"duration negative":     with("duration_ms", `-1`),
		"duration a fraction":   with("duration_ms", `17.0`),
		"duration an exponent":  with("duration_ms", `1e3`),
		"duration too long":     with("duration_ms", fmt.Sprint(int64(math.MaxInt64/time.Millisecond)+1)),
		"duration no int64":     with("duration_ms", `9223372036854775808`),
		"idempotency null":      with("idempotency_id", `null`),
		"trace an object":       with("trace_id", `{}`),
		"time a number":         with("created_at", `1779595200`),
		"time without a zone":   with("created_at", `"2026-05-24T04:00:00"`),
		"time with a space":     with("created_at", `"2026-05-24 04:00:00Z"`),
		"time with a comma":     with("created_at", `"2026-05-24T04:00:00,5Z"`),
		"time with a bare dot":  with("created_at", `"2026-05-24T04:00:00.Z"`),
		"time with ten digits":  with("created_at", `"2026-05-24T04:00:00.1234567890Z"`),
		"time with a short one": with("created_at", `"2026-05-24T4:00:00Z"`),
		"time in small letters": with("created_at", `"2026-05-24t04:00:00z"`),
		"time with a bare hour": with("created_at", `"2026-05-24T04:00:00+08"`),
		"time without colon":    with("created_at", `"2026-05-24T04:00:00+0800"`),
		"time with a wide zone": with("created_at", `"2026-05-24T04:00:00+08:00:00"`),
		"time with odd zone":    with("created_at", `"2026-05-24T04:00:00 08:00"`),
		"time of no day":        with("created_at", `"2026-02-30T04:00:00Z"`),
		"time of no minute":     with("created_at", `"2026-02-20T04:60:00Z"`),
		"time with a tail":      with("created_at", `"2026-05-24T04:00:00Z\n"`),
		"time empty":            with("created_at", `""`),
	}
	for _, member := range []string{"id", "tenant_id", "session_id", "user_id", "tool_name", "input", "output", "status", "duration_ms", "created_at"} {
		bad[member+" missing"] = with(member, "")
		bad[member+" null"] = with(member, "null")
		bad[member+" of a wrong type"] = with(member, "[]")
	}
	for name, body := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &wire{answer: then(always(200, body), always(200, `{"execution_receipts":[`+body+`],"total":1}`))}
			client := newClient(t, w)
			receipt, err := client.Receipt(t.Context(), "rcpt_1")
			if failure := failureOf(t, err); receipt != nil || failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.StatusCode != 200 {
				t.Errorf("receipt %+v, %v", receipt, err)
			}
			if name == "empty" { // on a page that is no row
				return
			}
			page, err := client.Receipts(t.Context(), hermesx.ReceiptQuery{})
			if failure := failureOf(t, err); page != nil || failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.StatusCode != 200 {
				t.Errorf("page %+v, %v", page, err)
			}
			var kept hermesx.Receipt
			if err := json.Unmarshal([]byte(body), &kept); err == nil || kept.ID != "" {
				t.Errorf("unmarshalled %+v", kept)
			}
			if sent := len(w.sent()); sent != 2 {
				t.Errorf("%d requests: what is bad is not asked for again", sent)
			}
		})
	}
}

// What is good all the same.
func TestGoodReceipts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		good func(r *hermesx.Receipt) bool
	}{
		"as it is":        {receiptBody, func(r *hermesx.Receipt) bool { return r.Duration == 17*time.Millisecond }},
		"white space":     {" \n" + receiptBody + "\t\n", func(r *hermesx.Receipt) bool { return r.ID == "rcpt_1" }},
		"unknown members": {with("extra", `{"a":[1,null,{"id":2}]}`), func(r *hermesx.Receipt) bool { return r.UserID == "u" }},
		"empty texts":     {with("user_id", `""`), func(r *hermesx.Receipt) bool { return r.UserID == "" }},
		"status unknown":  {with("status", `"cancelled"`), func(r *hermesx.Receipt) bool { return r.Status == "cancelled" && !r.Status.Known() }},
		"status empty":    {with("status", `""`), func(r *hermesx.Receipt) bool { return r.Status == "" }},
		"cut JSON":        {with("input", `"{\"a\":[1,2"`), func(r *hermesx.Receipt) bool { return r.Input == `{"a":[1,2` && !r.InputTruncated() }},
		"replaced bytes":  {with("output", `"界\ufffd\ufffd"`), func(r *hermesx.Receipt) bool { return r.Output == "界\ufffd\ufffd" }},
		"lone surrogate":  {with("output", `"\ud800"`), func(r *hermesx.Receipt) bool { return r.Output == "\ufffd" }},
		"escapes":         {with("output", `"\u003cb\u003e \u202e\u0000\""`), func(r *hermesx.Receipt) bool { return r.Output == "<b> \u202e\x00\"" }},
		"no duration":     {with("duration_ms", `0`), func(r *hermesx.Receipt) bool { return r.Duration == 0 }},
		"longest duration": {with("duration_ms", fmt.Sprint(int64(math.MaxInt64/time.Millisecond))), func(r *hermesx.Receipt) bool {
			return r.Duration.Milliseconds() == int64(math.MaxInt64/time.Millisecond)
		}},
		"optional empty": {with("trace_id", `""`), func(r *hermesx.Receipt) bool { return r.TraceID == "" }},
	} {
		receipt, err := newClient(t, &wire{answer: always(200, test.body)}).Receipt(t.Context(), "rcpt_1")
		if err != nil || !test.good(receipt) {
			t.Errorf("%s: %+v, %v", name, receipt, err)
		}
	}
}

// A time marshals to the text that it was read from, unless it was changed.
func TestTimesAreWrittenAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"2026-05-24T04:00:00Z", "2026-05-24T04:00:00.5Z", "2026-05-24T04:00:00.120Z", "2026-05-24T04:00:00.000000Z", "2026-05-24T04:00:00.123456Z", "2026-05-24T04:00:00.123456789Z",
		"2026-05-24T04:00:00+08:00", "2026-05-24T04:00:00.10-05:30", "2026-05-24T04:00:00+00:00", "2026-05-24T04:00:00-00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
	} {
		body := with("created_at", `"`+text+`"`)
		var receipt hermesx.Receipt
		if err := json.Unmarshal([]byte(body), &receipt); err != nil {
			t.Fatal(err)
		}
		want, err := time.Parse(time.RFC3339, text)
		if err != nil || !receipt.CreatedAt.Equal(want) {
			t.Errorf("%s is %v", text, receipt.CreatedAt)
		}
		same(t, decoded(t, body), receipt)
		same(t, decoded(t, body), &receipt)

		if want.Year() != 2026 {
			continue // an hour more or less would be another millennium
		}
		changed := receipt
		changed.CreatedAt = receipt.CreatedAt.Add(time.Hour)
		same(t, decoded(t, with("created_at", `"`+changed.CreatedAt.Format(time.RFC3339Nano)+`"`)), changed)
		moved := receipt
		moved.CreatedAt = receipt.CreatedAt.In(time.FixedZone("", 3600))
		same(t, decoded(t, with("created_at", `"`+moved.CreatedAt.Format(time.RFC3339Nano)+`"`)), moved)
	}
}

// An audit entry with all that a server can log, and with as little as it does.
func TestAuditEntries(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]hermesx.AuditEntry{
		`{"id":9007199254740993,"tenant_id":"t","user_id":"u","session_id":"s","action":"POST /v1/agent/chat","detail":"a=b","request_id":"r","status_code":500,"latency_ms":26,"source_ip":"127.0.0.1:1","error_code":"boom","user_agent":"probe/1.0","created_at":"2026-05-24T04:00:00.50Z"}`: {
			ID: 9007199254740993, TenantID: "t", UserID: "u", SessionID: "s", Action: "POST /v1/agent/chat", Detail: "a=b", RequestID: "r", StatusCode: 500, Latency: 26 * time.Millisecond,
			SourceIP: "127.0.0.1:1", ErrorCode: "boom", UserAgent: "probe/1.0", CreatedAt: time.Date(2026, 5, 24, 4, 0, 0, 500_000_000, time.UTC),
		},
		`{"id":1,"tenant_id":"t","action":"a","created_at":"2026-05-24T04:00:00Z"}`: {ID: 1, TenantID: "t", Action: "a", CreatedAt: time.Date(2026, 5, 24, 4, 0, 0, 0, time.UTC)},
	} {
		var got hermesx.AuditEntry
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got, unexported); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if written, err := json.Marshal(got); err != nil || string(written) != body {
			t.Errorf("%v\n%s\n%s", err, body, written)
		}
	}
}

func TestATimeThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 25*60*60))} {
		for _, value := range []any{hermesx.Receipt{CreatedAt: at}, hermesx.AuditEntry{CreatedAt: at}} {
			if _, err := json.Marshal(value); !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("%v: %v", at, err)
			}
		}
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	whole := `{"a":"` + strings.Repeat("x", hermesx.TextLimit-8) + `"}`
	for text, want := range map[string]bool{
		"":                                             false,
		"Error: something broke":                       false,
		`{"a":`:                                        false,
		whole:                                          false, // as long as the limit, and JSON
		whole[:hermesx.TextLimit-1]:                    false, // shorter, whatever it is
		whole[:hermesx.TextLimit-1] + " ":              true,
		strings.Repeat("x", hermesx.TextLimit):         true,
		strings.Repeat("1", hermesx.TextLimit):         false, // a number
		strings.Repeat("界", 1365):                      false, // 4,095 bytes
		strings.Repeat("界", 1365) + "\ufffd":           true,  // the first byte of one more, as a server writes it
		strings.Repeat("x", 4095) + "\ufffd":           true,
		strings.Repeat("x", 4093) + "\ufffd\ufffd":     true,
		`"` + strings.Repeat("x", hermesx.TextLimit):   true,
		`"` + strings.Repeat("x", hermesx.TextLimit-1): true,
	} {
		in, out := hermesx.Receipt{Input: text}, hermesx.Receipt{Output: text}
		if in.InputTruncated() != want || out.OutputTruncated() != want || in.OutputTruncated() || out.InputTruncated() {
			t.Errorf("%d bytes %.20q: input %v, output %v", len(text), text, in.InputTruncated(), out.OutputTruncated())
		}
	}
}

func TestBadPages(t *testing.T) {
	t.Parallel()
	entry := `{"id":1,"tenant_id":"t","action":"a","created_at":"2026-05-24T04:00:00Z"}`
	for name, body := range map[string]string{
		"receipts missing":       `{"total":0}`,
		"total missing":          `{"execution_receipts":null}`,
		"total null":             `{"execution_receipts":null,"total":null}`,
		"total negative":         `{"execution_receipts":null,"total":-1}`,
		"receipts an object":     `{"execution_receipts":{},"total":0}`,
		"receipts a text":        `{"execution_receipts":"","total":0}`,
		"a receipt null":         `{"execution_receipts":[null],"total":0}`,
		"a receipt an array":     `{"execution_receipts":[[]],"total":0}`,
		"receipts twice":         `{"execution_receipts":null,"total":0,"execution_receipts":null}`,
		"cut":                    `{"execution_receipts":[` + receiptBody,
		"cut in the array":       `{"execution_receipts":[` + receiptBody + `,`,
		"a comma too many":       `{"execution_receipts":[` + receiptBody + `,],"total":1}`,
		"entries for receipts":   emptyAudit,
		"other letter case":      `{"Execution_Receipts":null,"total":0}`,
		"one bad of two":         `{"execution_receipts":[` + receiptBody + `,` + with("id", "1") + `],"total":2}`,
		"HTML with status 200":   "<!doctype html>",
		"a list without a shell": `[]`,
	} {
		if page, err := newClient(t, &wire{answer: always(200, body)}).Receipts(t.Context(), hermesx.ReceiptQuery{}); page != nil || failureOf(t, err).Feedback.Code != feedback.CodeAgentInvalidResponse {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
	for name, body := range map[string]string{
		"logs missing":       `{"limit":50,"offset":0,"total":0}`,
		"limit missing":      `{"audit_logs":null,"offset":0,"total":0}`,
		"offset missing":     `{"audit_logs":null,"limit":50,"total":0}`,
		"total missing":      `{"audit_logs":null,"limit":50,"offset":0}`,
		"id a text":          `{"audit_logs":[` + strings.Replace(entry, `"id":1`, `"id":"1"`, 1) + `],"limit":50,"offset":0,"total":1}`,
		"id missing":         `{"audit_logs":[` + strings.Replace(entry, `"id":1,`, ``, 1) + `],"limit":50,"offset":0,"total":1}`,
		"action missing":     `{"audit_logs":[` + strings.Replace(entry, `"action":"a",`, ``, 1) + `],"limit":50,"offset":0,"total":1}`,
		"tenant missing":     `{"audit_logs":[` + strings.Replace(entry, `"tenant_id":"t",`, ``, 1) + `],"limit":50,"offset":0,"total":1}`,
		"time missing":       `{"audit_logs":[` + strings.Replace(entry, `,"created_at":"2026-05-24T04:00:00Z"`, ``, 1) + `],"limit":50,"offset":0,"total":1}`,
		"session null":       `{"audit_logs":[` + strings.Replace(entry, `"id":1`, `"id":1,"session_id":null`, 1) + `],"limit":50,"offset":0,"total":1}`,
		"status a text":      `{"audit_logs":[` + strings.Replace(entry, `"id":1`, `"id":1,"status_code":"200"`, 1) + `],"limit":50,"offset":0,"total":1}`,
		"receipts for logs":  emptyPage,
		"latency a fraction": `{"audit_logs":[` + strings.Replace(entry, `"id":1`, `"id":1,"latency_ms":1.5`, 1) + `],"limit":50,"offset":0,"total":1}`,
	} {
		if page, err := newClient(t, &wire{answer: always(200, body)}).AuditLogs(t.Context(), hermesx.AuditQuery{}); page != nil || failureOf(t, err).Feedback.Code != feedback.CodeAgentInvalidResponse {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
	var kept hermesx.AuditEntry
	if err := json.Unmarshal([]byte(entry), &kept); err != nil || kept.Action != "a" {
		t.Errorf("%+v, %v", kept, err)
	}
	if err := json.Unmarshal([]byte(`{"id":2}`), &kept); err == nil || kept.ID != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
}

// A receipt is the one that was asked for: by the same text, or by the same
// UUID in the server's spelling.
func TestAnotherReceiptIsRefused(t *testing.T) {
	t.Parallel()
	const uuid = "f2eb2710-8e82-464d-a68f-e4f82731a797"
	for _, test := range []struct {
		asked, answered string
		good            bool
	}{
		{"rcpt_1", "rcpt_1", true}, {"rcpt_1", "rcpt_2", false}, {"rcpt_1", "RCPT_1", false}, {"rcpt-1", "rcpt1", false}, {"{rcpt}", "rcpt", false},
		{uuid, uuid, true}, {strings.ToUpper(uuid), uuid, true}, {strings.ReplaceAll(uuid, "-", ""), uuid, true}, {"{" + uuid + "}", uuid, true},
		{uuid, uuid[:35] + "8", false}, {uuid[:35], uuid, false}, {uuid + "0", uuid, false}, {"--", "{}", false},
	} {
		receipt, err := newClient(t, &wire{answer: always(200, with("id", `"`+test.answered+`"`))}).Receipt(t.Context(), test.asked)
		if (err == nil) != test.good {
			t.Errorf("asked for %s, got %s: %+v, %v", test.asked, test.answered, receipt, err)
		}
	}
}

// A server, or something before it, that drops a filter does not get rows of
// others past the client.
func TestRowsThatWereNotAskedForAreRefused(t *testing.T) {
	t.Parallel()
	page := `{"execution_receipts":[` + receiptBody + `],"total":1}`
	for name, test := range map[string]struct {
		query hermesx.ReceiptQuery
		good  bool
	}{
		"none":            {hermesx.ReceiptQuery{}, true},
		"all right":       {hermesx.ReceiptQuery{SessionID: "s", ToolName: "read_file", Status: hermesx.StatusSuccess}, true},
		"another session": {hermesx.ReceiptQuery{SessionID: "S"}, false},
		"another tool":    {hermesx.ReceiptQuery{ToolName: "write_file"}, false},
		"another status":  {hermesx.ReceiptQuery{Status: hermesx.StatusError}, false},
	} {
		got, err := newClient(t, &wire{answer: always(200, page)}).Receipts(t.Context(), test.query)
		if (err == nil) != test.good || err != nil && (got != nil || failureOf(t, err).Feedback.Code != feedback.CodeAgentInvalidResponse) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	entries := `{"audit_logs":[{"id":1,"tenant_id":"t","action":"GET /v1/me","created_at":"2026-05-24T04:00:00Z"}],"limit":50,"offset":0,"total":1}`
	for action, good := range map[string]bool{"": true, "GET /v1/me": true, "GET": false} {
		got, err := newClient(t, &wire{answer: always(200, entries)}).AuditLogs(t.Context(), hermesx.AuditQuery{Action: action})
		if (err == nil) != good {
			t.Errorf("%q: %+v, %v", action, got, err)
		}
	}
}

// What is read leaves nothing of what was there before.
func TestReadingReplaces(t *testing.T) {
	t.Parallel()
	receipt := hermesx.Receipt{IdempotencyID: "key", TraceID: "trace", ReadRequestID: "request"}
	if err := json.Unmarshal([]byte(with("", "")), &receipt); err != nil || receipt.IdempotencyID+receipt.TraceID+receipt.ReadRequestID != "" {
		t.Errorf("%+v, %v", receipt, err)
	}
	entry := hermesx.AuditEntry{SessionID: "session", RequestID: "request", ReadRequestID: "request"}
	if err := json.Unmarshal([]byte(`{"id":1,"tenant_id":"t","action":"a","created_at":"2026-05-24T04:00:00Z"}`), &entry); err != nil || entry.SessionID+entry.RequestID+entry.ReadRequestID != "" {
		t.Errorf("%+v, %v", entry, err)
	}
}
