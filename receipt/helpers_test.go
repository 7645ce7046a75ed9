package receipt_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	invocation = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	workspace  = "inventory"
)

var want = receipt.Want{InvocationID: invocation, Workspace: workspace}

// object is JSON as it is written: members in their order, each with its value
// as text or as an object.
type object []member

type member struct {
	name  string
	value any
}

// good gives a receipt that has every member that there is.
func good() object {
	return object{
		{"schema_version", `"bailing.agent-invocation-receipt.v1"`},
		{"read_only", `true`},
		{"business_operation_performed", `false`},
		{"invocation_id", `"` + invocation + `"`},
		{"agent_run_id", `"33333333-3333-4333-8333-333333333333"`},
		{"route", `"inventory"`},
		{"tool", `"goods_update"`},
		{"observed_at", `"2026-09-15T12:00:00.000Z"`},
		{"result", object{
			{"schema_version", `"bailing.agent-tool-invocation.v1"`},
			{"invocation_id", `"` + invocation + `"`},
			{"route", `"inventory"`},
			{"tool", `"goods_update"`},
			{"state", `"rejected_before_dispatch"`},
			{"ok", `false`},
			{"auto_retry_allowed", `true`},
			{"text", `"Synthetic result."`},
			{"business_status", `429`},
			{"approval_id", `7`},
			{"retry_after_ms", `60000`},
			{"rate_limit", object{
				{"level", `"provider"`},
				{"count", `120`},
				{"window_sec", `3600`},
				{"scope", `"tool_provider_shared"`},
				{"source", `"provider_total"`},
			}},
		}},
		{"result_source", `"job"`},
		{"dispatch_state", `"not_dispatched"`},
		{"approval", object{
			{"status", `"approved"`},
			{"approval_id", `9`},
		}},
		{"journal_state", `"absent"`},
	}
}

// executed gives a receipt as it usually ends.
func executed() object {
	return good().with("result.state", `"executed"`).with("result.ok", `true`).with("result.auto_retry_allowed", `false`).
		without("result.business_status").without("result.approval_id").without("result.retry_after_ms").without("result.rate_limit").
		with("dispatch_state", `"attempted"`).with("approval", `{"status":"none"}`).with("journal_state", `"completed"`)
}

func (o object) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + m.name + `":`)
		if inner, ok := m.value.(object); ok {
			b.WriteString(inner.String())
		} else {
			b.WriteString(m.value.(string))
		}
	}
	b.WriteByte('}')
	return b.String()
}

// edit gives a copy of o in which edited stands in place of the member at
// path, such as "result.rate_limit.count".
func (o object) edit(path string, edit func(member) []member) object {
	name, rest, deeper := strings.Cut(path, ".")
	i := slices.IndexFunc(o, func(m member) bool { return m.name == name })
	if i < 0 {
		panic("no member " + path)
	}
	var edited []member
	if deeper {
		edited = []member{{name, o[i].value.(object).edit(rest, edit)}}
	} else {
		edited = edit(o[i])
	}
	return slices.Concat(o[:i], edited, o[i+1:])
}

func (o object) with(path, value string) object {
	return o.edit(path, func(m member) []member { return []member{{m.name, value}} })
}

func (o object) without(path string) object {
	return o.edit(path, func(member) []member { return nil })
}

func (o object) renamed(path, name string) object {
	return o.edit(path, func(m member) []member { return []member{{name, m.value}} })
}

// reversed gives the members in reverse order at every level.
func (o object) reversed() object {
	o = slices.Clone(o)
	slices.Reverse(o)
	for i, m := range o {
		if inner, ok := m.value.(object); ok {
			o[i].value = inner.reversed()
		}
	}
	return o
}

// paths names every member at every level.
func (o object) paths() (paths []string) {
	for _, m := range o {
		paths = append(paths, m.name)
		if inner, ok := m.value.(object); ok {
			for _, path := range inner.paths() {
				paths = append(paths, m.name+"."+path)
			}
		}
	}
	return paths
}

// text gives the string as JSON.
func text(s string) string { return string(must(json.Marshal(s))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func parse(t *testing.T, body string) *receipt.Receipt {
	t.Helper()
	r, err := receipt.Parse([]byte(body), want)
	if err != nil {
		t.Fatalf("%v\n%s", err, short(body))
	}
	return r
}

// parseCode is the code that Parse refuses body with; "" where it does not.
func parseCode(body string) feedback.Code {
	_, err := receipt.Parse([]byte(body), want)
	return feedback.CodeOf(err)
}

// message is the text of a failure; "" where err is none.
func message(err error) string {
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return ""
	}
	return failure.Feedback.Message
}

func short(body string) string {
	if len(body) > 2000 {
		return body[:2000] + "…"
	}
	return body
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}
