package schematest_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

const root = "../.."

// marshalled are the exported types that marshal, each with values of it: the
// least and the most that it can hold.
func marshalled(t *testing.T) map[string][]any {
	result := receipt.Result{
		SchemaVersion: receipt.ResultSchema, InvocationID: strings.Repeat("a", 64), Route: "inventory", Tool: "goods_update",
		State: receipt.StateRejectedBeforeDispatch, AutoRetryAllowed: true, Text: "Synthetic result.", BusinessStatus: 999, ApprovalID: 7, RetryAfterMS: 90_001,
		RateLimit: &receipt.RateLimit{Level: receipt.RateLimitTool, Count: 1, WindowSec: 60, Scope: receipt.RateLimitShared, Source: "tool_total"},
	}
	most := receipt.Receipt{
		SchemaVersion: receipt.Schema, ReadOnly: true, InvocationID: result.InvocationID, AgentRunID: "33333333-3333-4333-8333-333333333333",
		Route: result.Route, Tool: result.Tool, ObservedAt: time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC), Result: &result, ResultSource: receipt.ResultSourceJob,
		DispatchState: receipt.DispatchNotDispatched, Approval: receipt.Approval{Status: receipt.ApprovalApproved, ID: 9}, JournalState: receipt.JournalAbsent,
	}
	least := most
	least.Result, least.ResultSource, least.Approval = nil, receipt.ResultSourceNone, receipt.Approval{Status: receipt.ApprovalNone}
	unresolved := most
	unresolved.Result = &receipt.Result{State: receipt.StateReconciliationRequired}
	account, ok := unresolved.Feedback()
	if !ok {
		t.Fatal("an unresolved result has no feedback")
	}
	failed := explained(t, `{"schema_version":"bailing.agent-invocation-receipt.v2"}`)
	answered := *failed
	answered.StatusCode, answered.Disposition = 200, feedback.DispositionAcceptedUnknown
	rejected := most
	rejected.Approval.Status = receipt.ApprovalPending
	binding := registry.Binding{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory", SessionID: "11111111-1111-4111-8111-111111111111"}
	original := host.Original{InvocationID: result.InvocationID, ConnectionKey: "conn_" + strings.Repeat("1", 32), Workspace: "inventory", ExpectedBinding: binding}
	full := original
	full.Tool, full.AgentRunID, full.SessionEnds = most.Tool, most.AgentRunID, most.ObservedAt
	entry := filled[journal.Entry]()
	entry.Original, entry.Report = full, host.Explain(full, &most, nil)
	executions, audits := recordedHermesX(t)
	return map[string][]any{
		"receipt.Receipt":       {least, most, &most},
		"receipt.Result":        {receipt.Result{}, result},
		"receipt.RateLimit":     {*result.RateLimit},
		"receipt.Approval":      {least.Approval, most.Approval},
		"receipt.Capabilities":  {receipt.Capabilities{}, receipt.Capabilities{SchemaVersion: receipt.CapabilitiesSchema, ReceiptSchema: receipt.Schema, ReadOnly: true}},
		"feedback.Feedback":     {feedback.Feedback{}, account, failed.Feedback},
		"feedback.Error":        {feedback.Error{}, &feedback.Error{}, failed, answered, &answered},
		"registry.Binding":      {registry.Binding{}, binding},
		"host.Original":         {original, full},
		"host.Report":           {host.Explain(original, nil, failed), host.Explain(full, &rejected, nil)},
		"journal.Entry":         {journal.Entry{Original: original}, entry},
		"hubtest.Submission":    {hubtest.Submission{}, filled[hubtest.Submission]()},
		"hermesx.Receipt":       executions,
		"hermesx.AuditEntry":    append(audits, filled[hermesx.AuditEntry]()),
		"hermestest.Receipt":    {hermestest.Receipt{}, filled[hermestest.Receipt]()},
		"hermestest.AuditEntry": {hermestest.AuditEntry{}, filled[hermestest.AuditEntry]()},
	}
}

// neverMarshalled are exported types whose JSON is an error.
var neverMarshalled = []string{"registry.Credentials"}

// filled gives a value with no exported field empty.
func filled[T any]() (value T) {
	fields := reflect.ValueOf(&value).Elem()
	for i := range fields.NumField() {
		if !fields.Type().Field(i).IsExported() {
			continue
		}
		switch field := fields.Field(i); {
		case field.Type() == reflect.TypeFor[time.Time]():
			field.Set(reflect.ValueOf(time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC)))
		case field.Type() == reflect.TypeFor[json.RawMessage]():
			field.SetBytes([]byte(`{"quantity":1}`))
		case field.CanInt():
			field.SetInt(int64(time.Second))
		case field.Kind() == reflect.String:
			field.SetString("synthetic")
		}
	}
	return value
}

// explained gives the error that a body in place of a receipt makes.
func explained(t *testing.T, body string) *feedback.Error {
	t.Helper()
	_, err := receipt.Parse([]byte(body), receipt.Want{InvocationID: strings.Repeat("a", 64), Workspace: "inventory"})
	failure, ok := err.(*feedback.Error)
	if !ok {
		t.Fatal(err)
	}
	return failure
}

// recordedHermesX gives every row in the recorded answers of a HermesX server.
func recordedHermesX(t *testing.T) (executions, audits []any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "testdata", "hermesx-recorded.json"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded any
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case string: // a body is kept as text
			var body any
			if strings.HasPrefix(value, "{") && json.Unmarshal([]byte(value), &body) == nil {
				walk(body)
			}
		case []any:
			for _, element := range value {
				walk(element)
			}
		case map[string]any:
			row, _ := json.Marshal(value)
			var execution hermesx.Receipt
			var audit hermesx.AuditEntry
			if json.Unmarshal(row, &execution) == nil {
				executions = append(executions, execution)
			}
			if json.Unmarshal(row, &audit) == nil {
				audits = append(audits, audit)
			}
			for _, member := range value {
				walk(member)
			}
		}
	}
	walk(recorded)
	if len(executions) < 20 || len(audits) < 20 {
		t.Fatalf("%d execution receipts and %d audit entries were found", len(executions), len(audits))
	}
	return executions, audits
}

// What a type marshals to is valid by the schema that is inferred from it, and
// the schema has no member that is never written.
func TestInferredSchemasFitTheValues(t *testing.T) {
	t.Parallel()
	// A raw message is any JSON; the library takes it for a list of numbers.
	options := &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}}}
	for name, values := range marshalled(t) {
		var declared, written map[string]bool
		for _, value := range values {
			inferred, err := jsonschema.ForType(reflect.TypeOf(value), options)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			declared = map[string]bool{}
			for member := range inferred.Properties {
				declared[member] = true
			}
			resolved, err := inferred.Resolve(nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if name == "feedback.Error" && reflect.TypeOf(value).Kind() != reflect.Pointer {
				value = pointerTo(value) // its methods are those of the pointer
			}
			members := instance(t, value)
			if err := resolved.Validate(members); err != nil {
				t.Errorf("%s: %v\n%v", name, err, members)
			}
			if written == nil {
				written = map[string]bool{}
			}
			for member := range members.(map[string]any) {
				written[member] = true
			}
		}
		if diff := cmp.Diff(written, declared); diff != "" {
			t.Errorf("%s: members (-written +in the schema):\n%s", name, diff)
		}
	}
}

func pointerTo(value any) any {
	pointer := reflect.New(reflect.TypeOf(value))
	pointer.Elem().Set(reflect.ValueOf(value))
	return pointer.Interface()
}

// The table of this test has every exported type of the importable packages
// that has JSON tags or a method that marshals.
func TestEveryTypeThatMarshalsIsTested(t *testing.T) {
	t.Parallel()
	want := slices.Clone(neverMarshalled)
	for name := range marshalled(t) {
		want = append(want, name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, typesThatMarshal(t)); diff != "" {
		t.Errorf("(-tested +found):\n%s", diff)
	}
}

func typesThatMarshal(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			if path != root && (strings.HasPrefix(name, ".") || name == "internal" || name == "examples" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, name := range marshalsIn(file) {
			if ast.IsExported(name) {
				found = append(found, file.Name.Name+"."+name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// marshalsIn names the types of a file that have JSON tags or MarshalJSON.
func marshalsIn(file *ast.File) (names []string) {
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if declaration.Recv != nil && declaration.Name.Name == "MarshalJSON" {
				receiver := declaration.Recv.List[0].Type
				if pointer, ok := receiver.(*ast.StarExpr); ok {
					receiver = pointer.X
				}
				names = append(names, receiver.(*ast.Ident).Name)
			}
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				structure, ok := typ.Type.(*ast.StructType)
				if ok && slices.ContainsFunc(structure.Fields.List, func(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, "json:") }) {
					names = append(names, typ.Name.Name)
				}
			}
		}
	}
	return names
}
