package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// serveVariable makes this test program the server itself.
const serveVariable = "MCP_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		main()
		return
	}
	childtest.Run(map[string]func(args []string) error{"host": childHost})
	os.Exit(m.Run())
}

// world is a mock Hub, a folder that is logged in to it, and a place for a
// journal.
type world struct {
	t                 *testing.T
	hub               *hubtest.Server
	folder, file, key string
	store             *registry.Dir
	session           hubtest.Session
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, hub: hubtest.NewServer(t)}
	d := registry.Descriptor{HubURL: w.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}
	key, err := d.ConnectionKey()
	must(t, err)
	w.key, w.folder = key, lockport.Quiet(t.TempDir(), "registry", key)
	w.file = filepath.Join(t.TempDir(), "operations.jsonl")
	w.store, err = registry.OpenDir(w.folder, registry.AllowPlainCredentials())
	must(t, err)
	_, err = w.store.Register(t.Context(), d)
	must(t, err)
	w.session = w.hub.Login(hubtest.Grant{})
	must(t, w.store.SaveCredentials(t.Context(), key, registry.Credentials{
		HubURL: w.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute, SessionID: w.session.ID,
		AccessToken: registry.NewSecret(w.session.AccessToken), RefreshToken: registry.NewSecret(w.session.RefreshToken),
		AccessExpiresAt: w.session.AccessExpiresAt, RefreshExpiresAt: w.session.RefreshExpiresAt,
	}))
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// childHost FOLDER JOURNAL KEY CALL is an agent host: it notes an operation, sends
// it, and is killed before it tells anybody.
func childHost(args []string) error {
	ctx := context.Background()
	store, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	operations, err := journal.OpenFile(args[1])
	if err != nil {
		return err
	}
	transport, err := host.New(store)
	if err != nil {
		return err
	}
	entry, err := journal.Begin(ctx, operations, transport, journal.Call{CallID: args[3], ConnectionKey: args[2], Tool: hubtest.WriteTool, About: "set the price of the blue mug"})
	if errors.Is(err, journal.ErrExists) {
		return childtest.Proceed("it was asked for before")
	}
	if err != nil {
		return err
	}
	token, err := transport.Token(ctx, entry.Original)
	if err != nil {
		return err
	}
	if err := operations.Sending(ctx, args[3]); err != nil {
		return err
	}
	body, err := json.Marshal(hubtest.Submission{InvocationID: entry.Original.InvocationID, Route: entry.Original.Workspace, Tool: entry.Original.Tool})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, entry.Original.ExpectedBinding.HubURL+"/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		return err
	}
	token.SetAuthHeader(request)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return childtest.Proceed("the answer was lost")
	}
	_ = answer.Body.Close()
	return childtest.Proceed("sent")
}

// send lets a host send an operation and kills it.
func (w *world) send(call string) {
	w.t.Helper()
	child := childtest.Start(w.t, "host", w.folder, w.file, w.key, call)
	child.Says("sent")
	must(w.t, child.Process.Kill())
	child.Killed()
}

// command is the server as a process of its own.
func (w *world) command() *exec.Cmd {
	command := exec.Command(os.Args[0], "--registry", w.folder, "--journal", w.file)
	command.Env = append(os.Environ(), serveVariable+"=1", "BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE=true")
	return command
}

// connect gives a session of the official client, over stdio.
func (w *world) connect(progress func(string)) *mcp.ClientSession {
	w.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress(r.Params.Message) },
	})
	session, err := client.Connect(w.t.Context(), &mcp.CommandTransport{Command: w.command()}, nil)
	must(w.t, err)
	w.t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool and reads its structured answer.
func call(t *testing.T, session *mcp.ClientSession, params *mcp.CallToolParams, into any) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), params)
	must(t, err)
	text := ""
	for _, content := range result.Content {
		if part, ok := content.(*mcp.TextContent); ok {
			text += part.Text
		}
	}
	if result.IsError {
		return text
	}
	data, err := json.Marshal(result.StructuredContent)
	must(t, err)
	must(t, json.Unmarshal(data, into))
	return text
}

// A host is killed after the operation went out. The server that starts over its
// journal tells the model what became of it, and nothing is sent again.
func TestAfterAKill(t *testing.T) {
	w := newWorld(t)
	w.hub.Plan(hubtest.AnswerLost(), hubtest.Executed("the price is 12.00"))
	w.send("call-1")
	w.send("call-2")
	before, done := w.hub.Requests(), w.hub.BusinessOperations()

	session := w.connect(func(string) {})
	var open openOperations
	if text := call(t, session, &mcp.CallToolParams{Name: "list_open_operations", Arguments: map[string]any{}}, &open); len(open.Operations) != 2 || !strings.Contains(text, "blue mug") {
		t.Fatalf("open: %+v: %s", open, text)
	}
	for _, want := range []struct {
		call string
		is   receipt.Progress
	}{{"call-1", receipt.ProgressUnresolved}, {"call-2", receipt.ProgressExecuted}} {
		var report host.Report
		text := call(t, session, &mcp.CallToolParams{Name: "inspect_operation", Arguments: map[string]any{"call_id": want.call}}, &report)
		if report.Progress != want.is || !strings.HasPrefix(text, want.is.Sentence()) || report.Sentence != want.is.Sentence() {
			t.Errorf("%s: %+v\n%s", want.call, report, text)
		}
		var same host.Report
		call(t, session, &mcp.CallToolParams{Name: "inspect_operation", Arguments: map[string]any{"invocation_id": report.InvocationID}}, &same)
		if same.Progress != want.is {
			t.Errorf("%s by its invocation id: %s", want.call, same.Progress)
		}
	}
	must(t, session.Close())

	// The same call again is known, and not sent.
	child := childtest.Start(t, "host", w.folder, w.file, w.key, "call-1")
	child.Says("it was asked for before")
	must(t, child.Process.Kill())
	child.Killed()
	if after := w.hub.Requests(); after.Submit != before.Submit || after.Resume != before.Resume || w.hub.BusinessOperations() != done {
		t.Errorf("something was sent: %+v, %+v before", after, before)
	}
}

// What a model may not do, and the words that it gets.
func TestArguments(t *testing.T) {
	w := newWorld(t)
	w.send("call-1")
	session := w.connect(func(string) {})
	tools, err := session.ListTools(t.Context(), nil)
	must(t, err)
	for _, tool := range tools.Tools {
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint || tool.OutputSchema == nil || tool.InputSchema == nil {
			t.Errorf("%s has no schema, or is not said to read only", tool.Name)
		}
	}
	for name, arguments := range map[string]map[string]any{
		"nothing":                 {},
		"two ids":                 {"call_id": "call-1", "invocation_id": strings.Repeat("a", 64)},
		"an unknown call":         {"call_id": "call-9"},
		"an id that is not one":   {"invocation_id": "x"},
		"a long wait":             {"call_id": "call-1", "wait_seconds": 10_000},
		"a connection":            {"call_id": "call-1", "connection_key": w.key},
		"an original of no store": {"original": map[string]any{"invocation_id": strings.Repeat("a", 64)}},
	} {
		var report host.Report
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "inspect_operation", Arguments: arguments})
		if err == nil && !result.IsError {
			data, _ := json.Marshal(result.StructuredContent)
			_ = json.Unmarshal(data, &report)
			t.Errorf("%s: %+v", name, report)
		}
	}
	if n := w.hub.Requests().Receipt; n != 0 {
		t.Errorf("%d receipts were read", n)
	}
}

// A full original that is not in the journal is read under what it says, and
// under nothing else.
func TestOriginal(t *testing.T) {
	w := newWorld(t)
	transport, err := host.New(w.store)
	must(t, err)
	original, err := transport.Capture(t.Context(), w.key, host.NewInvocationID())
	must(t, err)
	_, err = w.hub.Submit(w.session.ID, hubtest.Submission{InvocationID: original.InvocationID, Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	must(t, err)
	session := w.connect(func(string) {})
	var report host.Report
	call(t, session, &mcp.CallToolParams{Name: "inspect_operation", Arguments: map[string]any{"original": original}}, &report)
	if report.Progress != receipt.ProgressExecuted {
		t.Errorf("the original: %+v", report)
	}
	original.ExpectedBinding.SessionID = "22222222-2222-4222-8222-222222222222"
	report = host.Report{}
	call(t, session, &mcp.CallToolParams{Name: "inspect_operation", Arguments: map[string]any{"original": original}}, &report)
	if report.Answered || report.Next != host.NextRestoreConnection {
		t.Errorf("the original of another session: %+v", report)
	}
}

// Watching tells the client of news while it waits, and ends with what is known.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	transport, err := host.New(w.store)
	must(t, err)
	operations, err := journal.OpenFile(w.file)
	must(t, err)
	entry, err := journal.Begin(t.Context(), operations, transport, journal.Call{CallID: "call-1", ConnectionKey: w.key, Tool: hubtest.WriteTool})
	must(t, err)
	must(t, operations.Close())
	w.hub.Plan(hubtest.Hanging())
	id, err := w.hub.Submit(w.session.ID, hubtest.Submission{InvocationID: entry.Original.InvocationID, Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	must(t, err)
	told := make(chan string, 100)
	session := w.connect(func(message string) {
		select {
		case told <- message:
		default:
		}
	})
	params := &mcp.CallToolParams{Name: "inspect_operation", Arguments: map[string]any{"call_id": "call-1", "wait_seconds": 60}}
	params.SetProgressToken("watch")
	go func() {
		<-told // it watches
		_ = w.hub.Finish(id, hubtest.Executed("done"))
	}()
	var report host.Report
	call(t, session, params, &report)
	if !report.Settled || report.Progress != receipt.ProgressExecuted {
		t.Errorf("after watching: %+v", report)
	}
}

// A client that cancels gets no report, and the operation stays open.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.hub.Plan(hubtest.AnswerLost())
	w.send("call-1")
	told := make(chan string, 100)
	session := w.connect(func(message string) { told <- message })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-told // it watches
		cancel()
	}()
	params := &mcp.CallToolParams{Name: "inspect_operation", Arguments: map[string]any{"call_id": "call-1", "wait_seconds": 100}}
	params.SetProgressToken("watch")
	if result, err := session.CallTool(ctx, params); err == nil && !result.IsError {
		t.Errorf("a call that was cancelled: %v", result.StructuredContent)
	}
	var open openOperations
	call(t, session, &mcp.CallToolParams{Name: "list_open_operations", Arguments: map[string]any{}}, &open)
	if len(open.Operations) != 1 {
		t.Errorf("open afterwards: %+v", open)
	}
}

func TestLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "192.0.2.1:80", "localhost:0", "[::]:0", "8080", ""} {
		if listener, err := listenLoopback(address); err == nil {
			_ = listener.Close()
			t.Errorf("%q is served", address)
		}
	}
}

// Streamable HTTP on loopback, with the official client.
func TestHTTP(t *testing.T) {
	w := newWorld(t)
	w.send("call-1")
	command := w.command()
	command.Args = append(command.Args, "--http", "127.0.0.1:0")
	output, err := command.StderrPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	var address string
	_, err = fmt.Fscanf(output, "serving %s\n", &address)
	must(t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: address}, nil)
	must(t, err)
	defer session.Close()
	var report host.Report
	call(t, session, &mcp.CallToolParams{Name: "inspect_operation", Arguments: map[string]any{"call_id": "call-1"}}, &report)
	if report.Progress != receipt.ProgressExecuted {
		t.Errorf("over HTTP: %+v", report)
	}
}

// A client that nobody here wrote: the inspector of the protocol, in its command
// line mode. It is installed from npm, into a folder of the test's own.
func TestInspector(t *testing.T) {
	w := newWorld(t)
	w.send("call-1")
	folder := t.TempDir()
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, "@modelcontextprotocol/inspector@0.15.0")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v: %s", err, out)
	}
	inspect := func(arguments ...string) string {
		t.Helper()
		server := w.command()
		command := exec.CommandContext(t.Context(), filepath.Join(folder, "node_modules", ".bin", "mcp-inspector"), append([]string{
			"--cli", "-e", serveVariable + "=1", "-e", "BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE=true", "--", server.Path, "--registry", w.folder, "--journal", w.file,
		}, arguments...)...)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("the inspector: %v: %s", err, out)
		}
		return string(out)
	}
	if out := inspect("--method", "tools/list"); !strings.Contains(out, `"inspect_operation"`) || !strings.Contains(out, `"readOnlyHint": true`) {
		t.Errorf("tools/list: %s", out)
	}
	if out := inspect("--method", "tools/call", "--tool-name", "inspect_operation", "--tool-arg", "call_id=call-1"); !strings.Contains(out, receipt.ProgressExecuted.Sentence()) {
		t.Errorf("tools/call: %s", out)
	}
}
