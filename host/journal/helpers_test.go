package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// children are what other processes of these tests do.
var children = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	childtest.Run(children)
	goleak.VerifyTestMain(m, goleak.Cleanup(childtest.Descriptors()))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "operations.jsonl")
}

func open(t testing.TB, path string, opts ...journal.FileOption) *journal.File {
	t.Helper()
	f, err := journal.OpenFile(path, opts...)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// operation gives the n-th operation of a test.
func operation(n int) journal.Entry {
	return journal.Entry{
		CallID: fmt.Sprintf("call_%d", n),
		Original: host.Original{
			InvocationID: fmt.Sprintf("%064x", n+1), ConnectionKey: "conn_0123456789abcdef0123456789abcdef", Workspace: "inventory",
			ExpectedBinding: registry.Binding{HubURL: "https://hub.example.com", ClientAppID: "demo-client", Workspace: "inventory", SessionID: "11111111-1111-4111-8111-111111111111"},
			Tool:            "goods_update",
			SessionEnds:     time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC),
		},
		About: "set the price of the blue mug",
	}
}

func executed(e journal.Entry) host.Report {
	return host.Explain(e.Original, &receipt.Receipt{
		InvocationID: e.Original.InvocationID, Route: e.Original.Workspace, Tool: e.Original.Tool, ObservedAt: time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC),
		Result: &receipt.Result{State: receipt.StateExecuted, OK: true, Text: "Done."}, ResultSource: receipt.ResultSourceJob,
		DispatchState: receipt.DispatchAttempted, Approval: receipt.Approval{Status: receipt.ApprovalNone}, JournalState: receipt.JournalAbsent,
	}, nil)
}

func waiting(e journal.Entry) host.Report {
	return host.Explain(e.Original, &receipt.Receipt{
		InvocationID: e.Original.InvocationID, Route: e.Original.Workspace, Tool: e.Original.Tool, ObservedAt: time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC),
		ResultSource: receipt.ResultSourceNone, DispatchState: receipt.DispatchNotDispatched,
		Approval: receipt.Approval{Status: receipt.ApprovalPending, ID: 7}, JournalState: receipt.JournalAbsent,
	}, nil)
}

// callsOf gives the call ids of what is open.
func callsOf(t testing.TB, j journal.Journal) (calls []string) {
	t.Helper()
	for e, err := range j.Open(t.Context()) {
		must(t, err)
		calls = append(calls, e.CallID)
	}
	return calls
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

func wantError(t testing.TB, doing string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", doing, err, want)
	}
}
