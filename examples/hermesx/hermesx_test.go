package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

const keyVariable = "BAILINGHUB_EXAMPLE_HERMESX_KEY"

// call runs the program within the test.
func call(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

// checkWidth checks that everything fits into a terminal and nothing is padded.
func checkWidth(t *testing.T, output string, columns int) {
	t.Helper()
	for line := range strings.Lines(output) {
		if line = strings.TrimSuffix(line, "\n"); screen.Width(line) > columns || strings.HasSuffix(line, " ") {
			t.Errorf("wider than %d, or with spaces at the end: %q", columns, line)
		}
	}
}

func TestPlay(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context())
	if status != cli.OK || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	exampletest.CheckSafe(t, stdout)
	checkWidth(t, stdout, screen.Plain)
	exampletest.Golden(t, "play.txt", stdout)
}

// In terminals of other widths.
func TestPlayInATerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{40, 55, 56, 100, 200} {
		var stdout bytes.Buffer
		out := &output{Writer: bufio.NewWriter(&stdout), columns: columns}
		if err := errors.Join(play(t.Context(), out), out.Flush()); err != nil {
			t.Fatal(err)
		}
		exampletest.CheckSafe(t, stdout.String())
		checkWidth(t, stdout.String(), columns)
		if columns == 40 {
			exampletest.Golden(t, "play-40.txt", stdout.String())
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-h", "--help"} {
		if status, stdout, stderr := call(t.Context(), flag); status != cli.OK || stdout != help || stderr != "" {
			t.Errorf("%s: status %d, stderr %q", flag, status, stderr)
		}
	}
	checkWidth(t, help, screen.Plain)
}

// running is a server, with its key in the environment.
func running(t *testing.T) (*hermestest.Server, func(args ...string) (int, string, string)) {
	t.Helper()
	server := hermestest.NewServer(t)
	t.Setenv(keyVariable, server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}}).Secret)
	return server, func(args ...string) (int, string, string) {
		return call(t.Context(), append([]string{"--base-url", server.URL, "--key-env", keyVariable}, args...)...)
	}
}

func TestRunningServer(t *testing.T) {
	server, ask := running(t)
	long := strings.Repeat("很长的名字 ", 40)
	server.Chat(hermestest.Chat{RequestID: "chat-1", SessionID: "sess_1", Calls: []hermestest.Call{
		{Tool: "read\x1b[2J_file", TraceID: long}, {Tool: long, Output: long, IdempotencyID: long},
	}})
	for name, test := range map[string]struct {
		args      []string
		has, hasn []string
	}{
		"session":          {[]string{"--session", "sess_1"}, []string{`read\x1b[2J_file`, "2 receipts."}, []string{"WHAT BELONGS"}},
		"request":          {[]string{"--request", "chat-1"}, []string{"audit log: recorded", "POST /v1/agent/chat  200", "session none is known: absent", "receipts: not asked"}, []string{"RECEIPTS OF"}},
		"both":             {[]string{"--session", "sess_1", "--request", "chat-1"}, []string{"2 receipts.", "receipts: recorded", "traces: partly recorded"}, nil},
		"no such session":  {[]string{"--session", "none"}, []string{"No receipt. That does not mean that no tool was run."}, nil},
		"no such request":  {[]string{"--request", "none"}, []string{"audit log: absent, the request is not in the log, or not in that part"}, nil},
		"the last hour":    {[]string{"--request", "chat-1", "--last", "1h"}, []string{"audit log: recorded"}, nil},
		"the last instant": {[]string{"--request", "chat-1", "--last", "1ns"}, []string{"audit log: absent"}, nil},
	} {
		status, stdout, stderr := ask(test.args...)
		if status != cli.OK || stderr != "" {
			t.Errorf("%s: status %d, stderr %q", name, status, stderr)
		}
		exampletest.CheckSafe(t, stdout)
		checkWidth(t, stdout, screen.Plain)
		for _, want := range test.has {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, stdout)
			}
		}
		for _, wrong := range test.hasn {
			if strings.Contains(stdout, wrong) {
				t.Errorf("%s: %q is in\n%s", name, wrong, stdout)
			}
		}
	}
	if server.Runs() != 2 {
		t.Errorf("%d tools were run", server.Runs())
	}
	if slices.ContainsFunc(server.Requests(), func(request string) bool { return !strings.HasPrefix(request, "GET ") }) {
		t.Errorf("requests: %v", server.Requests())
	}
}

// Whatever a server has stored, a terminal gets none of it as it is.
func TestHostileWords(t *testing.T) {
	server, ask := running(t)
	words := exampletest.HostileWords
	server.Store(hermestest.Receipt{
		ID: words, SessionID: "s", UserID: words, ToolName: words, Input: words, Output: words, Status: words, IdempotencyID: words, TraceID: words,
	})
	server.Log(hermestest.AuditEntry{
		SessionID: "s", UserID: words, Action: words, Detail: words, RequestID: "r", ErrorCode: words, SourceIP: words, UserAgent: words,
	}, hermestest.AuditEntry{SessionID: words, RequestID: "other"})
	for _, args := range [][]string{{"--session", "s", "--request", "r"}, {"--request", "other"}, {"--request", "missing"}} {
		status, stdout, stderr := ask(args...)
		exampletest.CheckSafe(t, stdout+stderr)
		if status != cli.OK || strings.Contains(stdout, "hostile") != (args[1] != "missing") {
			t.Errorf("%q: status %d\n%s%s", args, status, stdout, stderr)
		}
	}
	for name, server := range exampletest.HostileHubs(t, "inventory") {
		status, stdout, stderr := call(t.Context(), "--base-url", server.URL, "--key-env", keyVariable, "--timeout", "300ms", "--longest-wait", "0s", "--session", "s")
		exampletest.CheckSafe(t, stdout+stderr)
		if status != cli.Failed || strings.Contains(stdout+stderr, "hostile") {
			t.Errorf("%s: status %d\n%s%s", name, status, stdout, stderr)
		}
	}
}

// Where nothing was read, standard output says so, and not that there is nothing.
func TestNothingWasRead(t *testing.T) {
	server, ask := running(t)
	server.Store(hermestest.Receipt{SessionID: "s"})
	const nothing = "Nothing could be read."
	check := func(says string, args ...string) {
		t.Helper()
		status, stdout, stderr := ask(append(args, "--longest-wait", "0s")...)
		if status != cli.Failed || !strings.Contains(stderr, says) || !strings.Contains(stdout, nothing) || strings.Contains(stdout, "No receipt") || strings.Contains(stdout, "absent") {
			t.Errorf("status %d, stderr %q, stdout %q", status, stderr, stdout)
		}
		exampletest.CheckSafe(t, stdout+stderr)
	}
	server.SetDatabaseDown(true)
	check("does not accept the key", "--session", "s")
	check("(request id ", "--request", "r")
	server.SetDatabaseDown(false)
	server.SetRateLimit("", 0)
	check("It asks to wait 1m0s.", "--request", "r")
	check("rate limit", "--session", "s")
	user := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleUser}})
	t.Setenv(keyVariable, user.Secret)
	check("auditor or admin", "--session", "s")
	check("Check the base URL", "--base-url", server.URL+"/elsewhere", "--session", "s")
	check("Check the address first", "--base-url", server.URL+"/admin", "--session", "s")
	server.Close()
	check("refused", "--session", "s")
}

// A reading that stops half way says with what to go on, and goes on there.
func TestCursor(t *testing.T) {
	server, ask := running(t)
	for n := range 600 {
		server.Store(hermestest.Receipt{ID: fmt.Sprint("r", n), SessionID: "s", ToolName: fmt.Sprint("tool_", n)})
	}
	server.SetRateLimit("", 1)
	status, first, stderr := ask("--session", "s", "--longest-wait", "0s")
	_, cursor, said := strings.Cut(strings.TrimSpace(stderr), "--cursor ")
	if status != cli.Failed || !said || !strings.Contains(first, "Not all could be read: 250 shown here") {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	cursor, _, _ = strings.Cut(cursor, " ")
	server.SetRateLimit("", 60)
	status, second, stderr := ask("--session", "s", "--cursor", cursor)
	if status != cli.OK || !strings.Contains(second, "350 receipts.") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	for n := range 600 {
		if word := fmt.Sprintf(" tool_%d ", n); strings.Count(first+second, word) != 1 {
			t.Errorf("%s was shown %d times", word, strings.Count(first+second, word))
		}
	}
	if status, _, stderr := ask("--session", "another", "--cursor", cursor); status != cli.Failed || !strings.Contains(stderr, "--cursor is not one of a reading of receipts with these filters") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// A list that the server does not give whole is shown, and called incomplete.
func TestIncomplete(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/v1/audit-logs") {
			_, _ = io.WriteString(rw, `{"audit_logs":null,"limit":100,"offset":0,"total":0}`)
			return
		}
		_, _ = io.WriteString(rw, `{"execution_receipts":[{"id":"r","tenant_id":"t","session_id":"s","user_id":"u","tool_name":"read_file","input":"{}","output":"","status":"success","duration_ms":17,"created_at":"2026-05-24T04:00:00Z"}],"total":2}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv(keyVariable, "synthetic-access-key")
	status, stdout, stderr := call(t.Context(), "--base-url", server.URL, "--key-env", keyVariable, "--longest-wait", "0s", "--session", "s", "--request", "r")
	if status != cli.Failed || !strings.Contains(stderr, "list is incomplete") || !strings.Contains(stdout, "Not all could be read: 1 shown here") || !strings.Contains(stdout, "receipts: partly recorded") || !strings.Contains(stdout, "audit log: unknown") {
		t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
	}
}

// So is a log that is asked for a request alone.
func TestIncompleteLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"audit_logs":null,"limit":100,"offset":0,"total":5}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv(keyVariable, "synthetic-access-key")
	status, stdout, stderr := call(t.Context(), "--base-url", server.URL, "--key-env", keyVariable, "--longest-wait", "0s", "--request", "r")
	if status != cli.Failed || !strings.Contains(stderr, "list is incomplete") {
		t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
	}
}

func TestStopped(t *testing.T) {
	server, _ := running(t)
	ctx, cancel := context.WithCancel(t.Context())
	server.Before(func(*http.Request) { cancel() })
	status, _, stderr := call(ctx, "--base-url", server.URL, "--key-env", keyVariable, "--session", "s")
	if status != cli.Failed || stderr != "hermesx: stopped\n" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestMistakes(t *testing.T) {
	t.Setenv(keyVariable, "synthetic-access-key")
	real := []string{"--base-url", "http://127.0.0.1:1", "--key-env", keyVariable}
	for says, args := range map[string][]string{
		"it takes no argument":                         {"sess_1"},
		"there is no flag --key":                       {"--key", "synthetic-access-key"},
		"--session needs a value":                      {"--session"},
		"--session goes with --base-url":               {"--session", "s"},
		"--key-env is missing":                         {"--base-url", "http://127.0.0.1:1"},
		"--key-env takes the name":                     {"--base-url", "http://127.0.0.1:1", "--key-env", "synthetic-access-key"},
		"neither --session nor --request":              real,
		"--last goes with --request":                   slices.Concat(real, []string{"--session", "s", "--last", "1h"}),
		"--longest-wait is not a time":                 slices.Concat(real, []string{"--session", "s", "--longest-wait", "-1s"}),
		"--cursor goes with --session":                 slices.Concat(real, []string{"--request", "r", "--cursor", "c"}),
		"--last is not a time":                         slices.Concat(real, []string{"--request", "r", "--last", "-1h"}),
		"--timeout is not a time":                      slices.Concat(real, []string{"--session", "s", "--timeout", "0s"}),
		"is not set, or empty":                         {"--base-url", "http://127.0.0.1:1", "--key-env", keyVariable + "_NOT", "--session", "s"},
		"--base-url must be https":                     {"--base-url", "http://hermesx.example.com", "--key-env", keyVariable, "--session", "s"},
		"--base-url must not carry user information":   {"--base-url", "https://synthetic-access@hermesx.example.com", "--key-env", keyVariable, "--session", "s"},
		"--timeout has a value that it cannot take":    {"--timeout", "soon"},
		"--allow-insecure-http goes with --base-url":   {"--allow-insecure-http"},
		"-allow-insecure-http has a value that it can": {"--allow-insecure-http=perhaps"},
	} {
		status, stdout, stderr := call(t.Context(), args...)
		if status != cli.Usage || stdout != "" || !strings.Contains(stderr, says) || !strings.HasPrefix(stderr, "hermesx: ") || strings.Contains(stderr, "synthetic-") {
			t.Errorf("%v: status %d, stderr %q", args, status, stderr)
		}
	}
	// What only the client can know is said by it, in the words of the flags.
	if status, _, stderr := call(t.Context(), slices.Concat(real, []string{"--request", "not kept"})...); status != cli.Failed || !strings.Contains(stderr, "--request is not 1 to 64") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}
