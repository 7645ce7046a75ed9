// Package childtest lets a test run part of itself in another process. It starts
// the program of the test once more, with the name of the function to run.
//
//	func TestMain(m *testing.M) {
//		childtest.Run(map[string]func(args []string) error{"sing": sing})
//		os.Exit(m.Run())
//	}
//
//	func TestSinging(t *testing.T) {
//		childtest.Start(t, "sing", "loud").Done()
//	}
package childtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// variable is the environment variable with the name of the function that a
// child runs.
const variable = "BAILINGHUB_GO_TEST_CHILD"

// patience is how long a test waits for a child before it fails. It only keeps a
// failing test from lasting for ever.
const patience = 2 * time.Minute

// Run runs the function that this process was started for, and ends the process.
// In a process that is no child it returns. It prints the error of the function
// and ends with status 1 after one.
func Run(children map[string]func(args []string) error) {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	child := children[name]
	if child == nil {
		fmt.Printf("there is nothing called %q\n", name)
		os.Exit(1)
	}
	do(child)
}

// RunOnly does what Run does for one function. It returns where this process was
// started for another one, or is no child.
func RunOnly(name string, child func(args []string) error) {
	if os.Getenv(variable) == name {
		do(child)
	}
}

func do(child func(args []string) error) {
	if err := child(os.Args[1:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Proceed prints where the child is and waits until the test calls [Child.GoOn].
func Proceed(where string) error {
	fmt.Println(where)
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

// Child is a process that runs one function. It is killed at the end of the test.
type Child struct {
	*exec.Cmd
	t      testing.TB
	input  io.WriteCloser
	output *bufio.Scanner
	ended  bool
}

// Start starts a child that runs the function with this name in [Run].
func Start(t testing.TB, name string, args ...string) *Child {
	t.Helper()
	c, err := StartWith(t, nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// StartWith does what Start does, for a process with attributes. It returns the
// system's error where that does not allow them.
func StartWith(t testing.TB, attributes *syscall.SysProcAttr, name string, args ...string) (*Child, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{t: t, Cmd: exec.Command(program, args...)}
	// Without this option of the race detector, every child would wait a second
	// before it ends.
	c.Env = append(os.Environ(), variable+"="+name, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	c.Stderr = os.Stderr
	c.SysProcAttr = attributes
	if c.input, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.output = bufio.NewScanner(output)
	if err := c.Cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if !c.ended {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c, nil
}

// Line gives the next line that the child writes; ok is false at the end.
func (c *Child) Line() (line string, ok bool) {
	c.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	ok = c.output.Scan()
	return c.output.Text(), ok
}

// Says waits for the next line and fails the test unless it is want.
func (c *Child) Says(want string) {
	c.t.Helper()
	if got, _ := c.Line(); got != want {
		c.t.Fatalf("the child says %q, want %q", got, want)
	}
}

// GoOn lets a child continue that waits in [Proceed].
func (c *Child) GoOn() {
	c.t.Helper()
	if _, err := io.WriteString(c.input, "\n"); err != nil {
		c.t.Fatal(err)
	}
}

// End waits for the end of the child and gives the lines that were not read yet.
func (c *Child) End() (said string, err error) {
	c.t.Helper()
	var lines []string
	for {
		line, ok := c.Line()
		if !ok {
			break
		}
		lines = append(lines, line)
	}
	c.ended = true
	return strings.Join(lines, "\n"), c.Wait()
}

// Done waits for the end of the child and fails the test unless it succeeded.
func (c *Child) Done() (said string) {
	c.t.Helper()
	said, err := c.End()
	if err != nil {
		c.t.Fatalf("the child: %v\n%s", err, said)
	}
	return said
}

// Descriptors counts the file descriptors that are open now and gives a function
// to call after all tests. That function ends the process, with a failure where
// more descriptors are open than before. Where the system does not show them, it
// only ends the process.
func Descriptors() func(status int) {
	before := descriptors()
	return func(status int) {
		if after := descriptors(); status == 0 && after > before {
			fmt.Fprintf(os.Stderr, "%d descriptors are open after the tests, %d were before\n", after, before)
			status = 1
		}
		os.Exit(status)
	}
}

// descriptors counts the open file descriptors. It first opens a connection of its
// own, because the runtime opens descriptors with the first one and keeps them.
func descriptors() int {
	if first, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = first.Close()
	}
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(names)
}
