package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// call runs the program within the test.
func call(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestPlay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		golden string
		args   []string
	}{
		{"play.txt", nil},
		{"play-wide.txt", []string{"--wide"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := call(t, test.args...)
			if status != cli.OK || stderr != "" {
				t.Errorf("status %d, stderr %q", status, stderr)
			}
			checkSafe(t, stdout)
			exampletest.Golden(t, test.golden, stdout)
			if test.args == nil {
				checkWidth(t, stdout, screen.Plain)
			}
		})
	}
}

// checkWidth checks that everything fits into a terminal and nothing is padded.
func checkWidth(t *testing.T, output string, columns int) {
	t.Helper()
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if screen.Width(line) > columns && !invocationForm.MatchString(line) {
			t.Errorf("wider than %d: %q", columns, line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("a space at the end of %q", line)
		}
	}
}

// In terminals of other widths.
func TestPlayInATerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{40, 60, 79, 81, 100, 120} {
		t.Run(strconv.Itoa(columns), func(t *testing.T) {
			t.Parallel()
			var stdout bytes.Buffer
			o := options{columns: columns}
			if err := demonstrate(t.Context(), o, &output{Writer: bufio.NewWriter(&stdout), options: o}, io.Discard); err != nil {
				t.Fatal(err)
			}
			checkSafe(t, stdout.String())
			checkWidth(t, stdout.String(), columns)
			if columns == 60 {
				exampletest.Golden(t, "play-60.txt", stdout.String())
			}
			if table := strings.Contains(stdout.String(), "JOURNAL"); table != (columns >= 80) {
				t.Errorf("there is a table: %t", table)
			}
		})
	}
}

// A cell that does not fit into its column is not cut.
func TestEntriesThatDoNotFit(t *testing.T) {
	t.Parallel()
	long := "a_tool_with_a_name_of_" + strings.Repeat("x", 42)
	for _, o := range []options{{columns: 80}, {columns: 60}, {columns: 80, ids: []string{situation.Read.InvocationID()}}, {columns: math.MaxInt, wide: true}} {
		for _, test := range []struct{ tool, approval, journal string }{
			{long, `{"status":"none"}`, "absent"},
			{"update", `{"status":"approved","approval_id":9007199254740991}`, "evidence_degraded"},
			{long, `{"status":"approved","approval_id":9007199254740991}`, "response_recorded"},
		} {
			var r receipt.Receipt
			id := situation.Read.InvocationID()
			if err := json.Unmarshal([]byte(`{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,"invocation_id":"`+id+
				`","agent_run_id":"`+situation.Read.AgentRunID()+`","route":"catalog","tool":"`+test.tool+`","observed_at":"2026-09-15T00:00:00.000Z","result":null,"result_source":"none",`+
				`"dispatch_state":"not_dispatched","approval":`+test.approval+`,"journal_state":"`+test.journal+`"}`), &r); err != nil {
				t.Fatal(err)
			}
			var stdout bytes.Buffer
			out := &output{Writer: bufio.NewWriter(&stdout), options: o}
			if err := out.show(answer{question: question{id: id}, receipt: &r}); err != nil {
				t.Fatal(err)
			}
			checkWidth(t, stdout.String(), o.columns)
			squeezed := strings.Join(strings.Fields(stdout.String()), "")
			for _, want := range []string{test.tool, "not_dispatched", test.journal} {
				if !strings.Contains(squeezed, want) {
					t.Errorf("%+v: no %s in\n%s", o, want, &stdout)
				}
			}
			if r.Approval.ID != 0 && !strings.Contains(squeezed, "approved#9007199254740991") {
				t.Errorf("%+v: no approval in\n%s", o, &stdout)
			}
			if whole := strings.Contains(stdout.String(), id); whole != (o.wide || len(o.ids) > 0) {
				t.Errorf("%+v: the whole id is there: %t", o, whole)
			}
		}
	}
}

// checkSafe checks that a terminal gets nothing to obey, and nobody a token.
func checkSafe(t *testing.T, output string) {
	t.Helper()
	exampletest.CheckSafe(t, output)
	if strings.Contains(output, canary) {
		t.Error("the output has a token")
	}
}

func TestPlayJSON(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t, "--json")
	if status != cli.OK {
		t.Errorf("status %d", status)
	}
	if !strings.Contains(stderr, "16 before the questions, 16 after") {
		t.Errorf("no proof on stderr: %q", stderr)
	}
	checkSafe(t, stdout)
	times := regexp.MustCompile(`"(observed_at|session_ends)":"[^"]*"`)
	exampletest.Golden(t, "play.jsonl", times.ReplaceAllString(stdout, `"$1":"2026-09-15T00:00:00.000Z"`))

	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 22 {
		t.Errorf("%d lines", len(lines))
	}
	for _, text := range lines {
		var l struct {
			Situation string
			Report    host.Report
			Receipt   json.RawMessage
			Error     *struct {
				Schema       string
				Code         feedback.Code
				InvocationID string `json:"invocation_id"`
			}
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(l.Report.InvocationID) != 64 || l.Report.Sentence == "" || l.Report.Advice == "" || l.Report.Answered != (l.Error == nil) {
			t.Errorf("not a report: %s", text)
		}
		if l.Error != nil {
			if l.Receipt != nil || l.Error.Schema != feedback.Schema || l.Error.InvocationID != l.Report.InvocationID || l.Error.Code != l.Report.Code {
				t.Errorf("not an error: %s", text)
			}
			continue
		}
		var unmarshalled receipt.Receipt
		if err := json.Unmarshal(l.Receipt, &unmarshalled); err != nil {
			t.Fatalf("%s: %v", l.Situation, err)
		}
		parsed, err := receipt.Parse(l.Receipt, receipt.Want{InvocationID: unmarshalled.InvocationID, Workspace: hubtest.DefaultRoute})
		if err != nil {
			t.Fatalf("%s: %v", l.Situation, err)
		}
		if diff := cmp.Diff(&unmarshalled, parsed); diff != "" {
			t.Errorf("%s: UnmarshalJSON and Parse differ:\n%s", l.Situation, diff)
		}
		if r := l.Report; r.InvocationID != parsed.InvocationID || r.Progress != parsed.Progress() || r.Settled != parsed.Settled() || r.Sentence != parsed.Progress().Sentence() {
			t.Errorf("%s: %+v", l.Situation, r)
		}
		if l.Situation == "hostile-text" && parsed.Result.Text != "done\u009b2J\u202egnp.exe\nThe operation was denied." {
			t.Errorf("the text came back as %q", parsed.Result.Text)
		}
	}
}

func TestPlayIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if status := run(ctx, nil, &stdout, &stderr); status != cli.Failed || stderr.String() != "inspect: stopped\n" || stdout.Len() != 0 {
		t.Errorf("status %d, stdout %q, stderr %q", status, &stdout, &stderr)
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestOutputCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--json"}} {
		var stderr bytes.Buffer
		if status := run(t.Context(), args, fullDisk{}, &stderr); status != cli.Failed || !strings.Contains(stderr.String(), errFull.Error()) {
			t.Errorf("%q: status %d, stderr %q", args, status, &stderr)
		}
	}
}

// running is a Hub that the program is to ask, and the flags for that.
type running struct {
	*hubtest.Server
	session hubtest.Session
}

const canary = "canary-access-token-0001"

func newRunning(t *testing.T) running {
	server := hubtest.NewServer(t)
	t.Setenv("INSPECT_TEST_TOKEN", canary)
	t.Setenv("INSPECT_TEST_EMPTY", "")
	return running{server, server.Login(hubtest.Grant{AccessToken: canary})}
}

func (h running) args(more ...string) []string {
	return append([]string{"--hub", h.URL, "--token-env", "INSPECT_TEST_TOKEN", "--workspace", hubtest.DefaultRoute}, more...)
}

func (h running) play(t *testing.T, s situation.Situation) string {
	t.Helper()
	if err := s.Play(h.Hub, h.session.ID); err != nil {
		t.Fatal(err)
	}
	return s.InvocationID()
}

func TestRunningHub(t *testing.T) {
	hub := newRunning(t)
	approved, hostile := hub.play(t, situation.Approved), hub.play(t, situation.HostileText)
	missing := situation.Read.As("missing", "").InvocationID()
	before := hub.Snapshot()

	status, stdout, stderr := call(t, hub.args(approved, hostile)...)
	if status != cli.OK || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	checkSafe(t, stdout)
	exampletest.Golden(t, "running.txt", stdout)
	status, stdout, _ = call(t, hub.args(missing)...)
	if status != cli.Failed || !strings.Contains(stdout, "\n"+missing+"\nno answer  invocation_not_found (404): ") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	checkWidth(t, stdout, screen.Plain)

	// A flag may stand after an id. One that is not answered is a failure.
	status, stdout, _ = call(t, hub.args(missing, "--wide", approved)...)
	if status != cli.Failed || !strings.Contains(stdout, "invocation_not_found (404)") || !strings.Contains(stdout, approved) || !strings.Contains(stdout, "1 answered, 1 not.") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	status, stdout, _ = call(t, hub.args("--json", approved, missing)...)
	if status != cli.Failed || strings.Count(stdout, "\n") != 2 {
		t.Errorf("status %d\n%s", status, stdout)
	}

	if hub.Snapshot() != before {
		t.Error("asking changed something")
	}
	requests := hub.Requests()
	if requests.Receipt != 7 || requests.Total() != requests.Receipt+requests.Capabilities {
		t.Errorf("requests: %+v", requests)
	}
}

func TestTextsOfTheHubArePrintable(t *testing.T) {
	hub := newRunning(t)
	hub.Plan(hubtest.RateLimited(1e9, &hubtest.RateLimit{Level: "tool", Count: 1, WindowSec: 1, Source: "\u202e\x1b[31m\r\n\u200b"}))
	limited, err := hub.Submit(hub.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	if err != nil {
		t.Fatal(err)
	}
	hostile := hub.play(t, situation.HostileText)
	for _, args := range [][]string{{}, {"--wide"}, {"--json"}} {
		_, stdout, stderr := call(t, hub.args(append(args, limited, hostile)...)...)
		checkSafe(t, stdout+stderr)
		want := 2
		if slices.Equal(args, []string{"--json"}) { // the report says the text too
			want = 3
		}
		if strings.Count(stdout, `\u202e`) != want {
			t.Errorf("%q: the text is not there:\n%s", args, stdout)
		}
	}
}

// Whatever a Hub answers, a terminal gets none of it as it is.
func TestHostileWords(t *testing.T) {
	t.Setenv("INSPECT_TEST_TOKEN", canary)
	id := situation.Read.InvocationID()
	for name, server := range exampletest.HostileHubs(t, hubtest.DefaultRoute) {
		for _, format := range []string{"--wide", "--json"} {
			status, stdout, stderr := call(t, "--hub", server.URL, "--token-env", "INSPECT_TEST_TOKEN", "--workspace", hubtest.DefaultRoute, "--timeout", "300ms", format, id)
			exampletest.CheckSafe(t, stdout+stderr)
			good := name == "receipt"
			if shown := strings.Count(stdout, "hostile"); (status == cli.OK) != good || shown > 0 != good {
				t.Errorf("%s: status %d, its words are shown %d times:\n%s%s", name, status, shown, stdout, stderr)
			}
		}
	}
}

func TestLongTextsFit(t *testing.T) {
	hub := newRunning(t)
	hub.Plan(hubtest.Executed(strings.Repeat("商品", 4000)))
	id, err := hub.Submit(hub.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	if err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := call(t, hub.args(id)...)
	checkWidth(t, stdout, screen.Plain)
	_, stdout, _ = call(t, hub.args("--wide", id)...)
	if !strings.Contains(stdout, strings.Repeat("商品", 4000)) {
		t.Error("--wide does not show the whole text")
	}
}

func TestRunningHubStops(t *testing.T) {
	hub := newRunning(t)
	first, second := hub.play(t, situation.Read), hub.play(t, situation.Write)
	hold := hub.Hold(hubtest.ReceiptRequest, hubtest.AtRequest)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hold.Arrived()
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	status := run(ctx, hub.args(first, second), &stdout, &stderr)
	if status != cli.Failed || !strings.Contains(stdout.String(), "agent_request_cancelled") ||
		stderr.String() != "inspect: stopped; 1 of 2 operations were not asked about\n" {
		t.Errorf("status %d, stdout %q, stderr %q", status, &stdout, &stderr)
	}
	if got := hub.Requests().Receipt; got != 1 {
		t.Errorf("%d receipts were asked for", got)
	}
}

func TestTimeout(t *testing.T) {
	hub := newRunning(t)
	id := hub.play(t, situation.Read)
	hub.Hold(hubtest.CapabilitiesRequest, hubtest.AtRequest)
	status, stdout, _ := call(t, hub.args("--timeout", "30ms", id)...)
	if status != cli.Failed || !strings.Contains(stdout, "agent_request_timeout") {
		t.Errorf("status %d\n%s", status, stdout)
	}
}

func TestMistakes(t *testing.T) {
	hub := newRunning(t)
	id := situation.Read.InvocationID()
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--token", canary}, "there is no flag --token"},
		{"argument without a Hub", []string{id}, "no --hub"},
		{"token-env without a Hub", []string{"--token-env", "INSPECT_TEST_TOKEN"}, "--token-env goes with --hub"},
		{"workspace without a Hub", []string{"--workspace", "w1"}, "--workspace goes with --hub"},
		{"insecure without a Hub", []string{"--allow-insecure-http"}, "--allow-insecure-http goes with --hub"},
		{"no token-env", []string{"--hub", hub.URL, "--workspace", "w1", id}, "--token-env is missing"},
		{"no workspace", []string{"--hub", hub.URL, "--token-env", "INSPECT_TEST_TOKEN", id}, "--workspace is missing"},
		{"no id", hub.args(), "no invocation id"},
		{"bad id", hub.args(id, canary), "argument 2 is not an invocation id"},
		{"id with a newline", hub.args(id + "\n"), "argument 1 is not an invocation id"},
		{"capital id", hub.args(strings.ToUpper(id)), "argument 1 is not an invocation id"},
		{"token in place of its name", hub.args("--token-env", canary, id), "takes the name of an environment variable"},
		{"empty variable", hub.args("--token-env", "INSPECT_TEST_EMPTY", id), "is not set, or empty"},
		{"unset variable", hub.args("--token-env", "INSPECT_TEST_UNSET", id), "is not set, or empty"},
		{"bad Hub", hub.args("--hub", "https://user:"+canary+"@hub.example.com", id), "--hub "},
		{"empty Hub", hub.args("--hub", "", id), "--hub "},
		{"plain http elsewhere", hub.args("--hub", "http://hub.example.com", id), "--hub is plain http to another machine, and the token can be read on the way there: make it https, or say --allow-insecure-http"},
		{"plain http elsewhere, and wrong", hub.args("--hub", "http://hub.example.com?q", id), "--hub must not have a query"},
		{"bad workspace", hub.args("--workspace", "auto", id), "--workspace must be"},
		{"timeout of nothing", hub.args("--timeout", "0s", id), "--timeout"},
		{"negative timeout", hub.args("--timeout", "-1s", id), "--timeout"},
		{"timeout that is none", hub.args("--timeout", canary, id), "--timeout has a value that it cannot take; it takes a time to wait for, such as 5s or 1m30s"},
		{"wide that is none", hub.args("--wide="+canary, id), "--wide has a value that it cannot take; it takes true or false"},
	} {
		status, stdout, stderr := call(t, test.args...)
		if status != cli.Usage || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, stdout %q, stderr %q", test.name, status, stdout, stderr)
		}
		if strings.Contains(stderr, canary) {
			t.Errorf("%s: the token is repeated: %q", test.name, stderr)
		}
	}
	if total := hub.Requests().Total(); total != 0 {
		t.Errorf("%d requests were sent", total)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t, "-h")
	if status != cli.OK || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	for _, flag := range []string{"--hub", "--token-env", "--workspace", "--allow-insecure-http", "--connection", "--registry", "--namespace", "--timeout", "--wide", "--json"} {
		if !strings.Contains(stdout, flag) {
			t.Errorf("the help does not have %s", flag)
		}
	}
	checkWidth(t, stdout, screen.Plain)
}

// leave is what no advice may say: that an operation may be sent once more.
var leave = regexp.MustCompile(`(?i)\b(retry|resend|re-send|resubmit|repeat|submit|invoke|re-run|rerun|replace)`)

func TestAdviceIsNoLeaveToSendAgain(t *testing.T) {
	t.Parallel()
	_, stdout, _ := call(t, "--wide")
	advices := 0
	for line := range strings.Lines(stdout) {
		if advice, ok := strings.CutPrefix(line, "next "); ok {
			advices++
			if rest := strings.ReplaceAll(advice, "Never send the operation again.", ""); leave.MatchString(rest) || strings.Contains(rest, "send") {
				t.Errorf("advice: %q", advice)
			}
		}
	}
	if advices != 22 {
		t.Errorf("%d were advised", advices)
	}
}

// How long a Hub asked to wait is said.
func TestAdviceAfterRetryAfter(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	out := &output{Writer: bufio.NewWriter(&text), options: options{columns: screen.Plain}}
	err := askAll(t.Context(), []question{{id: strings.Repeat("a", 64), ask: func(context.Context) host.Observation {
		return host.Observation{Err: failures.New(failures.Failure{Status: 503, Step: failures.Receipt, HubCode: feedback.CodeHubPaused, RetryAfter: 90e9})}
	}}}, out)
	if err != nil || !strings.Contains(text.String(), "Wait 90 seconds at least.") {
		t.Errorf("%v:\n%s", err, &text)
	}
}

func TestPlayNoticesAnotherEnd(t *testing.T) {
	t.Parallel()
	out := &output{Writer: bufio.NewWriter(io.Discard), options: options{}}
	err := askAll(t.Context(), []question{{
		id: situation.Read.InvocationID(), name: "read", want: "executed",
		ask: func(context.Context) host.Observation {
			return host.Observation{Err: failures.New(failures.Failure{Event: failures.ConnectionLost})}
		},
	}}, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := surprise(out.surprises); err == nil || !strings.Contains(err.Error(), "read became agent_transport_unavailable, and executed was played") {
		t.Errorf("surprise: %v", err)
	}
	before := []hubtest.Snapshot{{BusinessOperations: 1}}
	after := []hubtest.Snapshot{{BusinessOperations: 2}}
	var proof bytes.Buffer
	if err := new(play).prove(before, after, &proof, screen.Plain); err == nil || !strings.Contains(proof.String(), "ASKING CHANGED SOMETHING") {
		t.Errorf("a business operation more is not noticed:\n%s", &proof)
	}
}
