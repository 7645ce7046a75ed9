// Package exampletest is what the tests of the examples have in common.
package exampletest

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// Golden compares got with testdata/name.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

// programVariable makes a test binary be the program that it tests.
const programVariable = "BAILINGHUB_EXAMPLE_PROGRAM"

// Main runs the tests, or the program itself in a process that [Start] made.
func Main(m *testing.M, program func()) {
	if os.Getenv(programVariable) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// AsProgram makes every process that is started from this test's binary the
// program.
func AsProgram(t *testing.T) { t.Setenv(programVariable, "1") }

// A Process is the program under test in a process of its own.
type Process struct {
	*exec.Cmd
	Errors bytes.Buffer // its stderr, once Wait is over
	lines  *bufio.Scanner
	output strings.Builder
}

// Start runs the program with these arguments. It is killed when the test is
// over.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	p := Prepare(t, args...)
	p.Begin(t)
	return p
}

// Prepare is Start for a test that has something to say about the process
// before it begins.
func Prepare(t *testing.T, args ...string) *Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Cmd: exec.CommandContext(t.Context(), program, args...)}
	p.Env = append(os.Environ(), programVariable+"=1")
	p.Stderr = &p.Errors
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(stdout)
	return p
}

// Begin runs what was prepared.
func (p *Process) Begin(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}

// ReadUntil gives what the program has printed up to a line that contains text.
func (p *Process) ReadUntil(t *testing.T, text string) string {
	t.Helper()
	for p.lines.Scan() {
		p.output.WriteString(p.lines.Text() + "\n")
		if strings.Contains(p.lines.Text(), text) {
			return p.output.String()
		}
	}
	t.Fatalf("the program ended and never said %q; it said\n%s", text, p.output.String())
	return ""
}

// Rest waits for the end of the program. It gives all that it has printed, and
// its exit status.
func (p *Process) Rest(t *testing.T) (output string, status int) {
	t.Helper()
	for p.lines.Scan() {
		p.output.WriteString(p.lines.Text() + "\n")
	}
	_ = p.Wait() // the status says it
	return p.output.String(), p.ProcessState.ExitCode()
}
