package receipt_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

func goodCapabilities() object {
	return object{
		{"schema_version", `"bailing.agent-invocation-inspection-capabilities.v1"`},
		{"receipt_schema", `"bailing.agent-invocation-receipt.v1"`},
		{"read_only", `true`},
	}
}

func TestParseCapabilities(t *testing.T) {
	t.Parallel()
	o := goodCapabilities()
	padded := func(size int) string {
		body := strings.TrimSuffix(o.String(), "}") + `,"padding":"`
		return body + strings.Repeat("x", size-len(body)-2) + `"}`
	}
	for name, body := range map[string]string{
		"as it is":          o.String(),
		"reversed":          o.reversed().String(),
		"with white space":  "\n" + strings.ReplaceAll(o.String(), ",", " ,\t") + "\r\n ",
		"with more members": strings.Replace(o.String(), "{", `{"more":{"a":[1,null]},"Read_only":false,`, 1),
		"with escapes":      strings.Replace(o.String(), "read_only", `read\u005fonly`, 1),
		"of 64 KiB":         padded(64 << 10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := receipt.ParseCapabilities([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			want := receipt.Capabilities{SchemaVersion: receipt.CapabilitiesSchema, ReceiptSchema: receipt.Schema, ReadOnly: true}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if diff := cmp.Diff(o.String(), string(must(json.Marshal(got)))); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}

	refused := map[string]string{
		"nothing":                    "",
		"HTML":                       "<!doctype html><title>Hub</title>",
		"an empty object":            "{}",
		"an array":                   "[" + o.String() + "]",
		"a string":                   text(o.String()),
		"null":                       "null",
		"two objects":                o.String() + o.String(),
		"a byte order mark":          "\ufeff" + o.String(),
		"a trailing NUL":             o.String() + "\x00",
		"invalid UTF-8":              strings.Replace(o.String(), "{", "{\"x\":\"\xff\",", 1),
		"a duplicate in an array":    strings.Replace(o.String(), "{", `{"x":[{"a":1,"a":1}],`, 1),
		"one byte more than 64 KiB":  padded(64<<10 + 1),
		"white space past 64 KiB":    o.String() + strings.Repeat(" ", 64<<10),
		"deep":                       strings.Repeat("[", 64<<10),
		"newer":                      o.with("schema_version", `"bailing.agent-invocation-inspection-capabilities.v2"`).String(),
		"newer receipts":             o.with("receipt_schema", `"bailing.agent-invocation-receipt.v2"`).String(),
		"not read-only":              o.with("read_only", `false`).String(),
		"schema with a space":        o.with("schema_version", `"bailing.agent-invocation-inspection-capabilities.v1 "`).String(),
		"receipt schema in an array": o.with("receipt_schema", `["bailing.agent-invocation-receipt.v1"]`).String(),
		"schemas swapped":            o.renamed("receipt_schema", "x").renamed("schema_version", "receipt_schema").renamed("x", "schema_version").String(),
	}
	for _, path := range o.paths() {
		refused[path+" missing"] = o.without(path).String()
		refused[path+" in capitals"] = o.renamed(path, strings.ToUpper(path)).String()
		for _, value := range []string{`null`, `1`, `"true"`, `{}`, `[]`, `""`} {
			refused[path+" "+value] = o.with(path, value).String()
		}
		refused[path+" twice"] = o.edit(path, func(m member) []member { return []member{m, m} }).String()
		refused[path+" twice by an escape"] = o.edit(path, func(m member) []member {
			return []member{m, {fmt.Sprintf(`\u%04x`, path[0]) + path[1:], m.value}}
		}).String()
	}
	for name, body := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := receipt.ParseCapabilities([]byte(body))
			if got != (receipt.Capabilities{}) {
				t.Errorf("got %+v", got)
			}
			failure, _ := errors.AsType[*feedback.Error](err)
			if failure == nil {
				t.Fatal("no error")
			}
			f := failure.Feedback
			if f.Code != unsupported || f.Category != feedback.CategoryUnsupported || f.NextAction != feedback.NextCheckCompatibility ||
				f.Retryable || f.Origin != feedback.OriginSDK || f.Operation != feedback.OperationInspect || failure.StatusCode != 0 {
				t.Errorf("got %+v", failure)
			}
		})
	}
}
