//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// watchedBuffer is what a program writes, and who waits for a text in it.
type watchedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (b *watchedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
	return b.text.Write(data)
}

func (b *watchedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// scene is a folder and a Hub for one test.
type scene struct {
	t     *testing.T
	hub   *hub
	path  string
	input io.Reader
	// browse is what the browser does with an address; nil for no browser.
	browse func(address string)
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, hub: newHub(t), input: strings.NewReader("")}
	key, err := registry.Descriptor{HubURL: s.hub.URL, ClientAppID: clientApp, Workspace: hubtest.DefaultRoute}.ConnectionKey()
	must(t, err)
	s.path = lockport.Quiet(t.TempDir(), "registry", key)
	s.browse = func(address string) { s.hub.agree(t, address) }
	return s
}

func (s *scene) run(ctx context.Context, stderr io.Writer, args ...string) (status int, stdout string) {
	s.t.Helper()
	var out bytes.Buffer
	var visits sync.WaitGroup
	p := &program{getenv: consenting.get, stdin: s.input, stdout: &out, stderr: stderr, browser: func(_ context.Context, address string) (<-chan struct{}, error) {
		if s.browse == nil {
			return nil, errors.New("there is none\x1b")
		}
		done := make(chan struct{})
		visits.Go(func() { defer close(done); s.browse(address) })
		return done, nil
	}}
	status = p.run(ctx, append(args, "--registry", s.path))
	visits.Wait()
	return status, out.String()
}

func (s *scene) do(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	var errs bytes.Buffer
	status, stdout = s.run(s.t.Context(), &errs, args...)
	exampletest.CheckSafe(s.t, stdout+errs.String())
	return status, stdout, errs.String()
}

func (s *scene) login(more ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	return s.do(append([]string{"login", "--hub", s.hub.URL, "--client", clientApp, "--workspace", hubtest.DefaultRoute}, more...)...)
}

func (s *scene) expect(want int, stdoutHas, stderrHas string) func(status int, stdout, stderr string) {
	s.t.Helper()
	return func(status int, stdout, stderr string) {
		s.t.Helper()
		if status != want || !strings.Contains(stdout, stdoutHas) || !strings.Contains(stderr, stderrHas) {
			s.t.Errorf("status %d\n%s---\n%s", status, stdout, stderr)
		}
	}
}

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	status, stdout, stderr := s.login("--name", "shop")
	s.expect(cli.OK, "Logged in. The current connection is shop.\n", "Waiting for you to decide: 10:00 left")(status, stdout, stderr)
	if address := s.hub.address(t); !strings.Contains(stderr, "\n\n"+address+"\n\n") {
		t.Errorf("the address does not stand on a line of its own:\n%s", stderr)
	}
	for _, text := range []string{"user-1 (Example", "Person 例)", hubtest.DefaultRoute, "a person has to log in again by then"} {
		if !strings.Contains(stdout, text) {
			t.Errorf("%q is missing:\n%s", text, stdout)
		}
	}

	s.expect(cli.OK, "shop (current): logged in\n", "")(s.do("status"))
	s.expect(cli.OK, "until ", "")(s.do("status", "shop", "--offline"))
	s.expect(cli.Usage, "", "no connection of this name")(s.do("status", "yard"))

	// A second login stands beside the first; it can be called and chosen.
	s.expect(cli.OK, "The current connection is conn_", "")(s.login())
	s.expect(cli.Failed, "", "The alias is that of another connection")(s.login("--name", "shop"))
	s.expect(cli.OK, "is called yard now", "")(s.do("rename", currentKey(t, s.path), "yard"))
	s.expect(cli.OK, "The current connection is shop", "")(s.do("use", "shop"))
	status, stdout, _ = s.do("status")
	if status != cli.OK || strings.Count(stdout, ": logged in") != 2 || !strings.Contains(stdout, "shop (current)") || s.hub.living() != 2 {
		t.Errorf("status %d, %d live\n%s", status, s.hub.living(), stdout)
	}

	// Replacing says what it ends.
	s.expect(cli.Usage, "", "more than one connection")(s.login("--replace"))
	s.expect(cli.OK, "The current connection is yard", "asked about for 29 days more")(s.login("--replace", "--name", "yard"))
	if s.hub.living() != 2 {
		t.Errorf("%d live", s.hub.living())
	}

	// A Hub that cannot be told.
	s.hub.EditClient(clientApp, func(c *hubtest.Client) { c.Disabled = true })
	s.expect(cli.Failed, "login needed", "")(s.do("status", "shop"))
	s.hub.EditClient(clientApp, func(c *hubtest.Client) { c.Disabled = false })
	s.hub.Inject(hubtest.Fault{On: hubtest.RevokeRequest, Times: -1, Status: http.StatusForbidden})
	s.expect(cli.Failed, "", "The session was not ended: it lives on at the Hub. The login stays")(s.do("logout", "shop"))
	s.expect(cli.Failed, "", "was deleted here")(s.do("logout", "shop", "--forget"))
	s.hub.ClearFaults()
	s.expect(cli.OK, "shop had no login", "")(s.do("logout", "shop"))
	s.expect(cli.OK, "yard is logged out", "")(s.do("logout", "yard"))
	s.expect(cli.Failed, "no login", "")(s.do("status"))
	if s.hub.living() != 1 { // the one that was forgotten
		t.Errorf("%d live", s.hub.living())
	}
}

func currentKey(t *testing.T, path string) string {
	t.Helper()
	dir, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	must(t, err)
	current, err := dir.Current(t.Context())
	must(t, err)
	return current.Key
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.browse = func(address string) { s.hub.refuse(t, address) }
	s.expect(cli.Failed, "", "connections: The login was refused at the page")(s.login())
	if _, err := os.Stat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Error("there is a folder")
	}
}

// Ctrl-C ends the wait at once and leaves nothing.
func TestCtrlCWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	process := exampletest.Prepare(t, "login", "--hub", s.hub.URL, "--client", clientApp, "--workspace", hubtest.DefaultRoute, "--no-browser", "--registry", s.path)
	process.Env = append(process.Env, folder.Consent+"=true")
	errs := &watchedBuffer{more: make(chan struct{}, 1)}
	process.Stderr = errs
	process.Begin(t)
	for !strings.Contains(errs.String(), "Waiting") {
		<-errs.more
	}
	must(t, process.Process.Signal(os.Interrupt))
	output, status := process.Rest(t)
	if status != cli.Failed || output != "" || !strings.Contains(errs.String(), "cancelled") {
		t.Errorf("status %d\n%s%s", status, output, errs)
	}
	if _, err := os.Stat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Error("there is a folder")
	}
}

// An opener that waits for ever and writes all over is no trouble, and does not
// outlive the login. The address stands there before it runs.
func TestHostileOpener(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	bin := t.TempDir()
	mark := filepath.Join(bin, "opened")
	must(t, syscall.Mkfifo(mark, 0o600)) // whose reader waits for a writer
	script := "#!/bin/sh\necho garbage\necho garbage >&2\necho \"$$ $*\" >" + mark + "\nexec sleep 1000\n"
	must(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755))
	process := exampletest.Prepare(t, "login", "--hub", s.hub.URL, "--client", clientApp, "--workspace", hubtest.DefaultRoute, "--registry", s.path)
	process.Env = append(process.Env, folder.Consent+"=true", "DISPLAY=:99", "PATH="+bin+":"+os.Getenv("PATH"))
	errs := &watchedBuffer{more: make(chan struct{}, 1)}
	process.Stderr = errs
	process.Begin(t)
	for !strings.Contains(errs.String(), "Waiting") {
		<-errs.more
	}
	opened, err := os.ReadFile(mark)
	must(t, err)
	var pid int
	var address string
	if _, err := fmt.Sscan(string(opened), &pid, &address); err != nil || !strings.Contains(errs.String(), address+"\n") {
		t.Fatalf("%q, %v", opened, err)
	}
	s.hub.agree(t, address)
	output, status := process.Rest(t)
	if status != cli.OK || strings.Contains(output+errs.String(), "garbage") || strings.Contains(output+errs.String(), "synthetic-") {
		t.Errorf("status %d\n%s%s", status, output, errs)
	}
	if err := exec.Command("kill", "-0", fmt.Sprint(pid)).Run(); err == nil {
		t.Errorf("the opener %d is still there", pid)
	}
}

func TestWithoutBrowser(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.browse = nil
	errs := &watchedBuffer{more: make(chan struct{}, 1)}
	ended := make(chan int)
	go func() {
		status, _ := s.run(t.Context(), errs, "login", "--hub", s.hub.URL, "--client", clientApp, "--workspace", hubtest.DefaultRoute)
		ended <- status
	}()
	for !strings.Contains(errs.String(), "Waiting") {
		<-errs.more
	}
	if !strings.Contains(errs.String(), "No browser was opened: there is none\\x1b") && !strings.Contains(errs.String(), "No browser was opened: there is none\\u001b") {
		t.Error(errs)
	}
	s.hub.agree(t, s.hub.address(t))
	if status := <-ended; status != cli.OK {
		t.Errorf("status %d\n%s", status, errs)
	}
}

// The browser runs on another machine: its address comes from standard input.
func TestPastedAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	reader, writer := io.Pipe()
	s.input = reader
	s.browse = func(string) { t.Error("a browser was opened") }
	errs := &watchedBuffer{more: make(chan struct{}, 1)}
	ended := make(chan int)
	go func() {
		status, _ := s.run(t.Context(), errs, "login", "--hub", s.hub.URL, "--client", clientApp, "--workspace", hubtest.DefaultRoute, "--paste")
		ended <- status
	}()
	for !strings.Contains(errs.String(), "paste it here") {
		<-errs.more
	}
	back, err := s.hub.page.Agree(t.Context(), s.hub.address(t))
	must(t, err)
	fmt.Fprintf(writer, "\nhello\n")
	for !strings.Contains(errs.String(), "not an address that this login waits at") {
		<-errs.more
	}
	fmt.Fprintf(writer, "%s\n", back)
	if status := <-ended; status != cli.OK {
		t.Errorf("status %d\n%s", status, errs)
	}
	writer.Close()
	if strings.Contains(errs.String(), "synthetic-code") {
		t.Error("the code is in the output")
	}
}

func TestPortOfTheCallback(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	port := fmt.Sprint(free.Addr().(*net.TCPAddr).Port)
	s.expect(cli.Failed, "", "Port "+port+" is taken")(s.login("--port", port))
	free.Close()
	s.expect(cli.OK, "Logged in", "ssh -L "+port+":127.0.0.1:"+port)(s.login("--port", port))
}

func TestLoginAsJSON(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	lines := func(want int, args ...string) (all []map[string]any) {
		t.Helper()
		status, stdout, _ := s.do(append(args, "--json")...)
		if status != want {
			t.Errorf("%q: status %d\n%s", args, status, stdout)
		}
		for line := range strings.Lines(stdout) {
			var members map[string]any
			must(t, json.Unmarshal([]byte(line), &members))
			all = append(all, members)
		}
		return all
	}
	at := func(members map[string]any, path ...string) any {
		var value any = members
		for _, name := range path {
			inner, _ := value.(map[string]any)
			value = inner[name]
		}
		return value
	}
	login := []string{"login", "--hub", s.hub.URL, "--client", clientApp, "--workspace", hubtest.DefaultRoute, "--name", "shop"}
	made := lines(cli.OK, login...)
	if len(made) != 1 || at(made[0], "connection", "alias") != "shop" || at(made[0], "connection", "current") != true ||
		at(made[0], "session", "session_id") != s.hub.Sessions()[0].ID || at(made[0], "session", "subject_name") != s.hub.Sessions()[0].SubjectName {
		t.Errorf("%v", made)
	}
	if again := lines(cli.OK, append(login, "--replace")...); at(again[0], "replaced_session_id") != at(made[0], "session", "session_id") {
		t.Errorf("%v", again)
	}
	if failed := lines(cli.Failed, login...); at(failed[0], "error", "operation") != "login" || at(failed[0], "error", "schema") != "bailing.agent-feedback.v1" {
		t.Errorf("%v", failed)
	}
	if all := lines(cli.OK, "status"); len(all) != 1 || at(all[0], "login") != "logged in" || at(all[0], "session", "on_behalf_of") != "user-1" {
		t.Errorf("%v", all)
	}
	for _, args := range [][]string{{"list"}, {"status", "--offline"}} {
		if all := lines(cli.OK, args...); len(all) != 1 || at(all[0], "login") != "logged in" || at(all[0], "until") == nil {
			t.Errorf("%v", all)
		}
	}
	if used := lines(cli.OK, "use", "shop"); at(used[0], "connection", "current") != true {
		t.Errorf("%v", used)
	}
	if renamed := lines(cli.OK, "rename", "shop", "yard"); at(renamed[0], "connection", "alias") != "yard" || at(renamed[0], "connection", "current") != true {
		t.Errorf("%v", renamed)
	}
	if out := lines(cli.OK, "logout", "yard"); at(out[0], "login") != "no login" {
		t.Errorf("%v", out)
	}
	if all := lines(cli.Failed, "status"); at(all[0], "login") != "no login" || at(all[0], "error", "operation") != "status" {
		t.Errorf("%v", all)
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{time.Hour: "less than a day", 25 * time.Hour: "a day", 72 * time.Hour: "3 days"} {
		if got := days(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}
