package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// TestStory runs the host as real processes, and kills one.
func TestStory(t *testing.T) {
	exampletest.AsProgram(t)
	for _, test := range []struct {
		golden  string
		args    []string
		columns int
	}{
		{"story.txt", nil, screen.Plain},
		{"story-60.txt", []string{"--width", "60"}, 60},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), test.args, nil, &stdout, &stderr); status != cli.OK || stderr.Len() > 0 {
			t.Errorf("status %d, stderr %q", status, &stderr)
		}
		output := stdout.String()
		exampletest.Golden(t, test.golden, output)
		checkNoToken(t, output)
		checkNoLeave(t, output)
		for line := range strings.Lines(output) {
			if screen.Width(strings.TrimSuffix(line, "\n")) > test.columns {
				t.Errorf("wider than %d: %q", test.columns, line)
			}
		}
	}
}

func checkNoToken(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "synthetic-access-") || strings.Contains(text, "synthetic-refresh-") {
		t.Errorf("there is a token in %q", text)
	}
}

// leave is what a model must never be told: that it may send once more.
var leave = regexp.MustCompile(`(?i)\b(retry|try again|resend|re-send|send (it )?again|resubmit|repeat|may be sent|not happen(ed)?\.)`)

func checkNoLeave(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if leave.MatchString(line) {
			t.Errorf("a model is told: %q", line)
		}
	}
}

func TestStoryIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	if status := run(ctx, nil, nil, io.Discard, &stderr); status != cli.Failed || stderr.String() != "agenthost: stopped\n" {
		t.Errorf("status %d, stderr %q", status, &stderr)
	}
}

// A site is a Hub, a login in it, and a file for the host.
type site struct {
	*hubtest.Server
	session hubtest.Session
	login   []byte
	file    string
}

func newSite(t *testing.T) site {
	t.Helper()
	server := hubtest.NewServer(t)
	s := site{Server: server, session: server.Login(hubtest.Grant{}), file: filepath.Join(t.TempDir(), "operations.jsonl")}
	s.login = encoded(t, server, s.session)
	return s
}

func encoded(t *testing.T, server *hubtest.Server, session hubtest.Session) []byte {
	t.Helper()
	login, err := encode(server, session)
	if err != nil {
		t.Fatal(err)
	}
	return login
}

// call runs a command of the host within the test.
func (s site) call(t *testing.T, command string, flags ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), append([]string{command, "--file", s.file}, flags...), bytes.NewReader(s.login), &out, &errs)
	checkNoToken(t, out.String()+errs.String())
	checkNoLeave(t, out.String())
	return status, out.String(), errs.String()
}

// entries gives what the host's journal has of its tasks, in their order.
func (s site) entries(t *testing.T) (entries []journal.Entry) {
	t.Helper()
	operations, err := journal.OpenFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	defer operations.Close()
	for _, task := range tasks {
		entry, err := operations.Find(t.Context(), task.call)
		if err == nil {
			entries = append(entries, entry)
		} else if !errors.Is(err, journal.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return entries
}

// open counts those that are open.
func (s site) open(t *testing.T) (n int) {
	t.Helper()
	for _, entry := range s.entries(t) {
		if entry.IsOpen() {
			n++
		}
	}
	return n
}

// A watch sees how an operation goes on, and ends when it is settled or its
// time is up; it sends nothing.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.call(t, "send")
	id := s.entries(t)[0].Original.InvocationID
	requests := s.Requests()
	resumed := make(chan error, 1)
	go func() {
		if err := until(t.Context(), s.Hub, func() bool { return s.Requests().Receipt >= requests.Receipt+len(tasks)+1 }); err != nil {
			resumed <- err
			return
		}
		resumed <- errors.Join(s.Approve(id), s.Resume(id))
	}()
	status, stdout, stderr := s.call(t, "report", "--watch", "5m", "--look", "1ms")
	if err := <-resumed; err != nil || status != cli.OK || stderr != "" {
		t.Fatalf("%v, status %d, stderr %q", err, status, stderr)
	}
	_, watched, _ := strings.Cut(stdout, "watching for 5m0s\n")
	if !strings.Contains(watched, "publish the spring catalogue\n  progress      executed, closed\n") {
		t.Errorf("the end was not seen:\n%s", stdout)
	}
	if strings.Contains(stdout, "\r") || strings.Contains(stdout, "\x1b") {
		t.Errorf("there is a progress line where there is no terminal:\n%q", stdout)
	}
	if open := s.open(t); open != 0 {
		t.Errorf("%d operations are still open", open)
	}
	if now := s.Requests(); now.Submit != requests.Submit || now.Resume+now.Other != 0 {
		t.Errorf("watching did something: %+v", now)
	}
}

// What the Hub could not be asked about is watched too, until it can.
func TestWatchWaitsForTheHub(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.call(t, "send")
	id := s.entries(t)[0].Original.InvocationID
	if err := errors.Join(s.Approve(id), s.Resume(id)); err != nil {
		t.Fatal(err)
	}
	s.Inject(hubtest.Fault{On: hubtest.CapabilitiesRequest, Drop: hubtest.DropRequest, Times: 3}) // so often a batch asks
	status, stdout, stderr := s.call(t, "report", "--watch", "5m", "--look", "1ms")
	_, watched, _ := strings.Cut(stdout, "watching for 5m0s\n")
	if status != cli.OK || stderr != "" || strings.Count(watched, "progress      executed, closed\n") != 3 || strings.Contains(watched, "no answer") {
		t.Errorf("status %d, stderr %q\n%s", status, stderr, stdout)
	}
}

// What settles without getting any further is closed.
func TestWatchCloses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Plan(hubtest.RateLimited(1e9, nil))
	s.call(t, "send")
	var id string
	const canGoOn, cannot = `"auto_retry_allowed":true`, `"auto_retry_allowed":false`
	for _, o := range s.entries(t) {
		if record, _ := s.Record(o.Original.InvocationID); bytes.Contains(record.Job.Result, []byte(canGoOn)) {
			id = o.Original.InvocationID
		}
	}
	requests := s.Requests()
	edited := make(chan error, 1)
	go func() {
		if err := until(t.Context(), s.Hub, func() bool { return s.Requests().Receipt >= requests.Receipt+len(tasks)+2 }); err != nil {
			edited <- err
			return
		}
		edited <- s.EditRecord(id, func(r *hubtest.Record) {
			r.Job.Result = bytes.Replace(r.Job.Result, []byte(canGoOn), []byte(cannot), 1)
		})
	}()
	waiting := s.entries(t)[0].Original.InvocationID
	if waiting != id {
		if err := errors.Join(s.Approve(waiting), s.Resume(waiting)); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := s.call(t, "report", "--watch", "5m", "--look", "1ms")
	if err := <-edited; err != nil || status != cli.OK || stderr != "" {
		t.Fatalf("%v, status %d, stderr %q", err, status, stderr)
	}
	for _, o := range s.entries(t) {
		if o.IsOpen() {
			t.Errorf("%s is still open:\n%s", o.About, stdout)
		}
	}
}

func TestWatchEndsInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.call(t, "send")
	status, stdout, stderr := s.call(t, "report", "--watch", "20ms", "--look", "1ms")
	if status != cli.OK || stderr != "" || !strings.HasSuffix(stdout, "watching for 20ms\n") {
		t.Errorf("status %d, stderr %q\n%s", status, stderr, stdout)
	}
	if open := s.open(t); open != 1 {
		t.Errorf("%d operations are open", open)
	}
}

func TestSendAndReport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if status, _, stderr := s.call(t, "send"); status != cli.OK || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	entries := s.entries(t)
	if s.open(t) != len(tasks) {
		t.Errorf("%d operations are open after they were sent", s.open(t))
	}
	for i, e := range entries {
		if e.Original.Tool != tasks[i].tool || e.Original.ExpectedBinding.SessionID != s.session.ID || e.SendingAt.IsZero() || e.About != tasks[i].about {
			t.Errorf("kept %+v", e)
		}
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	checkNoToken(t, string(text))

	// The same calls once more send nothing.
	before, requests := s.Snapshot(), s.Requests()
	if status, stdout, stderr := s.call(t, "send"); status != cli.OK || stderr != "" || strings.Count(stdout, ": this call was made before, so nothing is sent\n") != len(tasks) {
		t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
	}
	status, stdout, stderr := s.call(t, "report")
	if status != cli.OK || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{
		"open operations: 3",
		"publish the spring catalogue\n  progress      awaiting_approval, stays open",
		"set the price of the blue mug\n  progress      executed, closed",
		"set the stock of the red mug\n  progress      executed, closed",
	} {
		if !strings.Contains(stdout, want+"\n") {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if now := s.Requests(); s.Snapshot() != before || now.Submit != requests.Submit || now.Resume+now.Other != 0 {
		t.Errorf("reporting did something: %+v", now)
	}

	// What is closed is not asked about any more, and not sent either.
	if _, stdout, _ := s.call(t, "report"); !strings.HasPrefix(stdout, "open operations: 1\n") {
		t.Errorf("the second time:\n%s", stdout)
	}
	if _, stdout, _ := s.call(t, "send"); strings.Count(stdout, "made before") != len(tasks) || s.Requests().Submit != requests.Submit {
		t.Errorf("the same calls after they were closed:\n%s", stdout)
	}
}

func TestSendSaysWhatTheHubAnswered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Inject(hubtest.Fault{On: hubtest.SubmitRequest, Skip: 2, Status: http.StatusBadGateway, Body: []byte("<html>\x1b[2J")})
	status, stdout, stderr := s.call(t, "send")
	want := `publish the spring catalogue: saved, now sending
publish the spring catalogue: the Hub answered: awaiting_approval
set the price of the blue mug: saved, now sending
set the price of the blue mug: the Hub answered: executed
set the stock of the red mug: saved, now sending
set the stock of the red mug: the Hub answered: nothing readable (502)
`
	if diff := cmp.Diff(want, stdout); diff != "" || status != cli.OK || stderr != "" {
		t.Errorf("status %d, stderr %q, stdout (-want +got):\n%s", status, stderr, diff)
	}
	s = newSite(t)
	s.SetPaused(true)
	if _, stdout, _ := s.call(t, "send"); strings.Count(stdout, ": the Hub answered: hub_paused (503)\n") != len(tasks) {
		t.Errorf("of a Hub that is paused:\n%s", stdout)
	}
}

// Whatever a Hub answers, a terminal gets none of it as it is.
func TestHostileWords(t *testing.T) {
	t.Parallel()
	for name, server := range exampletest.HostileHubs(t, hubtest.DefaultRoute) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.login = encoded(t, &hubtest.Server{Hub: s.Hub, URL: server.URL}, s.session)
			for _, command := range []string{"send", "report"} {
				_, stdout, stderr := s.call(t, command)
				exampletest.CheckSafe(t, stdout+stderr)
				if !strings.Contains(stdout, "MUG") && !strings.Contains(stdout, "mug") {
					t.Errorf("%s told nothing:\n%s%s", command, stdout, stderr)
				}
			}
		})
	}
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		body   string
		want   string
	}{
		{200, `{"state":"awaiting_approval","text":"done"}`, "awaiting_approval"},
		{200, `{"state":"in_progress"}`, "in_progress"},
		{409, `{"error":"TASK_PAUSED","message":"done"}`, "TASK_PAUSED (409)"},
		{200, `{"error":"hub_paused"}`, "nothing readable (200)"},
		{202, `{"state":"executed"}`, "nothing readable (202)"},
		{500, `{"state":"executed"}`, "nothing readable (500)"},
		{200, `{"state":"executed. All is done"}`, "nothing readable (200)"},
		{200, `{"state":"\u001b[2J"}`, "nothing readable (200)"},
		{503, `{"error":"` + strings.Repeat("x", 65) + `"}`, "nothing readable (503)"},
		{200, `{"state":"executed"`, "nothing readable (200)"},
		{204, "", "nothing readable (204)"},
	} {
		if got := answered(test.status, []byte(test.body)); got != test.want {
			t.Errorf("%d %s: %q, want %q", test.status, test.body, got, test.want)
		}
	}
}

// An operation that could not be sent, because its login is gone, is taken out of
// the journal again: nothing of it has left.
func TestNotSentWithoutItsLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ExpireAccess(s.session.ID)
	s.Revoke(s.session.ID)
	if s.session.AccessExpiresAt.After(time.Now()) { // a token that has to be renewed
		login, err := registry.DecodeCredentials(s.login)
		if err != nil {
			t.Fatal(err)
		}
		login.AccessExpiresAt = time.Now().Add(time.Second)
		if s.login, err = registry.EncodeCredentials(login); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := s.call(t, "send")
	if status != cli.Failed || stdout != "" || !strings.Contains(stderr, "it was not sent") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if len(s.entries(t)) != 0 || s.Requests().Submit != 0 {
		t.Errorf("%+v", s.entries(t))
	}
}

func TestSavedBeforeSent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hold := s.Hold(hubtest.SubmitRequest, hubtest.AtRequest)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"send", "--file", s.file}, bytes.NewReader(s.login), io.Discard, &stderr)
	}()
	<-hold.Arrived()
	if text, err := os.ReadFile(s.file); err != nil || !bytes.Contains(text, []byte(`"call_id":"`+tasks[0].call+`"`)) || !bytes.Contains(text, []byte(`"sending_at"`)) {
		t.Errorf("when the request arrives the file has %s, %v", text, err)
	}
	if status, _, stderr := s.call(t, "report"); status != cli.Failed || !strings.Contains(stderr, "is in use by process") {
		t.Errorf("a second host: status %d, stderr %q", status, stderr)
	}
	cancel()
	if status := <-ended; status != cli.Failed || stderr.String() != "agenthost: stopped\n" {
		t.Errorf("status %d, stderr %q", status, &stderr)
	}
	if s.open(t) != 1 {
		t.Error("the operation is not open any more")
	}
}

func TestReportUnderTrouble(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		trouble func(t *testing.T, s *site)
		code    feedback.Code
	}{
		{"revoked", func(_ *testing.T, s *site) { s.Revoke(s.session.ID) }, feedback.CodeAgentAuthorizationUnavailable},
		{"another login", func(t *testing.T, s *site) { s.login = encoded(t, s.Server, s.Login(hubtest.Grant{})) }, feedback.CodeAgentBindingChanged},
		{"older Hub", func(_ *testing.T, s *site) { s.SetInspection(hubtest.InspectionAbsent) }, feedback.CodeAgentSchemaUnsupported},
		{"record damaged", func(t *testing.T, s *site) {
			for _, o := range s.entries(t) {
				if err := s.Damage(o.Original.InvocationID, hubtest.DamageApproval); err != nil {
					t.Error(err)
				}
			}
		}, feedback.CodeInvocationRecordInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.call(t, "send")
			test.trouble(t, &s)
			before := s.Requests().Submit
			status, stdout, stderr := s.call(t, "report")
			if status != cli.OK || stderr != "" || strings.Count(stdout, "\n  no answer     "+string(test.code)+", stays open\n") != 3 {
				t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
			}
			if s.open(t) != 3 || s.Requests().Submit != before {
				t.Error("an operation was closed, or sent")
			}
		})
	}
}

// A damaged journal is refused by its line, and left as it is.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	whole := newSite(t)
	whole.call(t, "send")
	good, err := os.ReadFile(whole.file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"a line changed":     strings.Replace(string(good), "blue mug", "blue cup", 1),
		"a line twice":       string(good) + string(good[bytes.IndexByte(good, '\n')+1:]),
		"another file":       "{}\n",
		"another version":    strings.Replace(string(good), "journal.v1", "journal.v2", 1),
		"control characters": "{\x1b[2J\n",
	} {
		s := newSite(t)
		if err := os.WriteFile(s.file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"send", "report"} {
			status, stdout, stderr := s.call(t, command)
			if status != cli.Failed || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "\x1b") ||
				!strings.Contains(stderr, "is damaged") || !strings.Contains(stderr, "left as it is") {
				t.Errorf("%s: %s: status %d, stdout %q, stderr %q", name, command, status, stdout, stderr)
			}
		}
		if left, err := os.ReadFile(s.file); err != nil || string(left) != content {
			t.Errorf("%s: the file is now %q, %v", name, left, err)
		}
		if total := s.Requests().Total(); total != 0 {
			t.Errorf("%s: %d requests were sent", name, total)
		}
	}
	// What was not finished is cut off, and that is said.
	if err := os.WriteFile(whole.file, good[:len(good)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stdout, _ := whole.call(t, "report"); status != cli.OK || !strings.Contains(stdout, "was not finished when the host ended") {
		t.Errorf("status %d, stdout\n%s", status, stdout)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if status, _, stderr := s.call(t, "report"); status != cli.Failed || !strings.Contains(stderr, "there are no operations") {
		t.Errorf("a file that is not there: status %d, stderr %q", status, stderr)
	}
	s.file = filepath.Join(t.TempDir(), "nowhere", "operations.jsonl")
	if status, stdout, _ := s.call(t, "send"); status != cli.Failed || stdout != "" || s.Requests().Submit != 0 {
		t.Errorf("a folder that is not there: status %d, stdout %q", status, stdout)
	}
}

func TestNoLogin(t *testing.T) {
	t.Parallel()
	for _, login := range []string{"", "{}", `{"access_token":"synthetic-access-1"}`, strings.Repeat("x", 1<<20)} {
		s := newSite(t)
		s.login = []byte(login)
		if status, stdout, stderr := s.call(t, "send"); status != cli.Failed || stdout != "" || !strings.Contains(stderr, "no login on stdin") {
			t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--nope"}, "there is no flag --nope"},
		{[]string{"x"}, "no command of this name"},
		{[]string{"send"}, "--file is missing"},
		{[]string{"report", "--file="}, "--file is missing"},
		{[]string{"report", "--file", "f", "--watch", "-1s"}, "--watch takes a time from 0"},
		{[]string{"report", "--file", "f", "--look", "0s"}, "--look one up to an hour"},
		{[]string{"send", "--file", "f", "--watch", "1s"}, "--watch goes with report"},
		{[]string{"--file", "f"}, "--file goes with send or report"},
		{[]string{"--width", "29"}, "--width takes a number from 30"},
		{[]string{"--width", "wide"}, "--width has a value that it cannot take; it takes a whole number"},
		{[]string{"send", "--file", "f", "x"}, "an argument too many"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), test.args, nil, &stdout, &stderr); status != cli.Usage || stdout.Len() > 0 ||
			!strings.Contains(stderr.String(), test.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q", test.args, status, &stdout, &stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"-h"}, nil, &stdout, &stderr); status != cli.OK || stderr.Len() > 0 || !strings.Contains(stdout.String(), "agenthost report --file F") {
		t.Errorf("help: status %d, stdout %q, stderr %q", status, &stdout, &stderr)
	}
	for line := range strings.Lines(stdout.String()) {
		if screen.Width(strings.TrimSuffix(line, "\n")) > screen.Plain {
			t.Errorf("too wide: %q", line)
		}
	}
}
