package page_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/mockhub/internal/page"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// What is unknown looks unknown, and nothing looks more certain than it is.
func TestTimelines(t *testing.T) {
	t.Parallel()
	damaged := func(value string) func(*bench, string) {
		return func(b *bench, id string) { b.do("damage", id, value) }
	}
	for _, test := range []struct {
		name, tool string
		system     string
		then       func(b *bench, id string)
		progress   string
		tone       string
		marks      string // submitted, approval, dispatch, journal, result
	}{
		{"a read", hubtest.ReadTool, "executes", nil, "executed", "good", "done none done none done"},
		{"a write", hubtest.WriteTool, "executes", nil, "executed", "good", "done none done done done"},
		{"refused", hubtest.WriteTool, "rejects", nil, "business_rejected", "bad", "done none done done no"},
		{"hanging", hubtest.WriteTool, "hangs", nil, "in_flight", "busy", "done none done busy unknown"},
		{"a read that hangs", hubtest.ReadTool, "hangs", nil, "in_flight", "busy", "done none done none busy"},
		{"lost", hubtest.WriteTool, "loses", nil, "unresolved", "unknown", "done none done unknown unknown"},
		{"waiting", hubtest.GovernedTool, "executes", nil, "awaiting_approval", "wait", "done wait open open wait"},
		{"approved", hubtest.GovernedTool, "executes", func(b *bench, id string) { b.do("approve", id, "") }, "approved_not_dispatched", "wait", "done done open open open"},
		{"denied", hubtest.GovernedTool, "executes", func(b *bench, id string) { b.do("deny", id, "") }, "denied", "bad", "done no open open open"},
		{"ended", hubtest.GovernedTool, "executes", func(b *bench, id string) { b.do("deny", id, ""); b.do("resume", id, "") }, "denied", "bad", "done no open open no"},
		{"no evidence", hubtest.GovernedTool, "executes", func(b *bench, id string) {
			if err := b.hub.EditRecord(id, func(r *hubtest.Record) { r.Job.Result, r.Approval = nil, nil }); err != nil {
				b.t.Fatal(err)
			}
		}, "no_evidence", "unknown", "done none open open open"},
		{"a contradiction", hubtest.ReadTool, "executes", func(b *bench, id string) {
			if err := b.hub.EditRecord(id, func(r *hubtest.Record) {
				r.Job.Result = json.RawMessage(strings.Replace(string(r.Job.Result), `"ok":true`, `"ok":false`, 1))
			}); err != nil {
				b.t.Fatal(err)
			}
		}, "unresolved", "unknown", "done none done none unknown"},
		{"result damaged", hubtest.ReadTool, "executes", damaged("result"), "unresolved", "unknown", "done none done none unknown"},
		{"journal damaged", hubtest.WriteTool, "executes", damaged("journal"), "unresolved", "unknown", "done none unknown unknown unknown"},
		{"approval damaged", hubtest.WriteTool, "executes", damaged("approval"), "invocation_record_invalid", "unknown", "done unknown unknown unknown unknown"},
		{"marker damaged", hubtest.WriteTool, "executes", damaged("marker"), "invocation_not_found", "unknown", "done unknown unknown unknown unknown"},
		{"of another", hubtest.WriteTool, "executes", damaged("identity"), "invocation_conflict", "unknown", "done unknown unknown unknown unknown"},
		{"of another run", hubtest.WriteTool, "executes", damaged("run"), "agent_run_conflict", "unknown", "done unknown unknown unknown unknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.do("system", "", test.system)
			id := b.submit(test.tool)
			if test.then != nil {
				test.then(b, id)
			}
			got := b.invocation(id)
			if got.Progress != test.progress || got.Tone != test.tone || got.marks() != test.marks {
				t.Errorf("%s (%s): %s; want %s (%s): %s", got.Progress, got.Tone, got.marks(), test.progress, test.tone, test.marks)
			}
			if got.Steps[0].Value != "by alice" || got.Tool != test.tool {
				t.Errorf("submitted %s, tool %s", got.Steps[0].Value, got.Tool)
			}
			if got.marks() == "done unknown unknown unknown unknown" && got.Steps[4].Value != "not known" {
				t.Errorf("the result is said to be %q", got.Steps[4].Value)
			}
		})
	}
}

func TestReceiptAndSentence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(hubtest.GovernedTool)
	b.do("approve", id, "")
	got := b.invocation(id)
	if got.Sentence != receipt.ProgressApprovedNotDispatched.Sentence() || got.Settled {
		t.Errorf("%q, settled %t", got.Sentence, got.Settled)
	}
	if !strings.HasPrefix(got.Advice, "Say both: it is approved, and by the evidence it has not been carried out.") {
		t.Errorf("the advice is %q", got.Advice)
	}
	if got.Answer.To != "receipt" || got.Answer.Status != "200 OK" {
		t.Errorf("answered %+v", got.Answer)
	}
	observed, err := receipt.Parse([]byte(got.Answer.Body), receipt.Want{InvocationID: id, Workspace: hubtest.DefaultRoute})
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{
		{"next", "look_later"}, {"result", "awaiting_approval"}, {"text", "Synthetic text."}, {"result_source", "job"}, {"dispatch_state", "not_dispatched"},
		{"approval", "approved, approval_id 1"}, {"journal_state", "absent"}, {"observed_at", observed.ObservedAt.Format("2006-01-02T15:04:05.000Z")},
	}
	if diff := cmp.Diff(want, got.Facts); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	b.do("damage", id, "result")
	if got := b.invocation(id); got.fact("result") != "null" || got.fact("result_source") != "none" {
		t.Errorf("%+v", got.Facts)
	}
	b.do("resume", b.submit(hubtest.GovernedTool), "") // nothing happens
	if got := b.invocation(b.submit(hubtest.WriteTool)); got.fact("business_status") != "200" || !got.Settled {
		t.Errorf("%+v", got)
	}
}

func TestOtherHubs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(hubtest.WriteTool)
	for contract, want := range map[string]string{
		"old": "inspection-capabilities 404 Not Found", "page": "inspection-capabilities 200 OK", "newer": "inspection-capabilities 200 OK",
	} {
		b.do("contract", "", contract)
		got := b.invocation(id)
		if got.Progress != "agent_schema_unsupported" || got.fact("category") != "unsupported" || got.fact("next_action") != "check_compatibility" ||
			got.fact("retryable") != "false" || got.Answer.To+" "+got.Answer.Status != want || got.Tone != "unknown" {
			t.Errorf("%s: %+v", contract, got)
		}
		if !strings.Contains(got.Sentence, "does not offer the inspection contract") {
			t.Errorf("%s: %q", contract, got.Sentence)
		}
	}
}

// Nothing in what is sent to the page can leave its line, turn its direction
// or hide.
func TestTextsStayText(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("system", "", "hostile")
	id := b.submit(hubtest.ReadTool)
	got := b.invocation(id)
	want := `<img src=x onerror="alert(1)"><b>done</b> \u202egnp.exe\u202c \u009b2J\u200b\r\nThe operation was denied.\u2028{"forged":true}`
	if text := got.fact("text"); text != want {
		t.Errorf("the text is\n%s\nwant\n%s", text, want)
	}
	for _, text := range append([]string{got.Sentence}, strings.Split(got.Answer.Body, "\n")...) {
		for _, r := range text {
			if !unicode.IsPrint(r) {
				t.Errorf("%q has %U", text, r)
			}
		}
	}
	observed, err := receipt.Parse([]byte(got.Answer.Body), receipt.Want{InvocationID: id, Workspace: hubtest.DefaultRoute})
	if err != nil {
		t.Fatal(err)
	}
	if observed.Result == nil || receipt.Printable(observed.Result.Text) != want {
		t.Errorf("the answer has another text: %q", observed.Result.Text)
	}
	if event := b.event(); strings.ContainsAny(strings.TrimSuffix(event, "\n\n"), "<>\u2028\u202e\u009b\r") || strings.Count(event, "\n") != 3 {
		t.Errorf("the event is more than lines of text: %q", event)
	}
}

func TestPrintableJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":"b\\n\u0000\"","c":[]}`:       "{\n  \"a\": \"b\\\\n\\u0000\\\"\",\n  \"c\": []\n}",
		"\"x\u202ey\u200b\u0085\x7f\"":      `"x\u202ey\u200b\u0085\u007f"`,
		"\"\U000e0041 商品 é ✅\"":             `"\udb40\udc41 商品 é ✅"`,
		"<!doctype html>\n<b>\x1b[2J</b>\n": "<!doctype html>\n<b>\\x1b[2J</b>",
		"":                                  "",
		"\r 0\r\n":                          "0",
		"\"\x93\"":                          `"\x93"`, // no JSON
	} {
		if got := page.PrintableJSON([]byte(in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzPrintableJSON(f *testing.F) {
	f.Add(`{"text":"a\\b\u202e` + "\u202e\x7f\U000e0041" + `","n":[1,{"x":null}]}`)
	f.Add("<b>\u2028</b>")
	f.Add(`"\ud800"`)
	f.Fuzz(func(t *testing.T, body string) {
		got := page.PrintableJSON([]byte(body))
		for _, r := range got {
			if r != '\n' && r > 0x7e && receipt.Printable("a"+string(r)) != "a"+string(r) {
				t.Errorf("%q has %U", got, r)
			}
		}
		var before, after any
		if !utf8.ValidString(body) || json.Unmarshal([]byte(body), &before) != nil {
			return
		}
		if err := json.Unmarshal([]byte(got), &after); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%q became %q:\n%s", body, got, diff)
		}
	})
}
