//go:build linux

package registry_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/registry"
)

// A test that needs another process runs this very program again, with the name
// of what to do in this variable and the arguments in its own.
const childVariable = "REGISTRY_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stdout, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	before := descriptors()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if after := descriptors(); status == 0 && after > before {
			fmt.Fprintf(os.Stderr, "%d descriptors are open after the tests, %d were before\n", after, before)
			status = 1
		}
		os.Exit(status)
	}))
}

// descriptors counts the open descriptors. Those that the runtime opens with
// the first connection are open by then.
func descriptors() int {
	if warm, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = warm.Close()
	}
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// child is a process that runs one of children.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner
	ended  bool
}

func start(t testing.TB, name string, args ...string) *child {
	t.Helper()
	c, err := startWith(t, nil, name, args...)
	must(t, err)
	return c
}

func startWith(t testing.TB, attr *syscall.SysProcAttr, name string, args ...string) (*child, error) {
	t.Helper()
	if children[name] == nil {
		t.Fatalf("there is no child %q", name)
	}
	executable, err := os.Executable()
	must(t, err)
	c := &child{t: t, cmd: exec.Command(executable, args...)}
	// The race detector would let every child wait a second before it ends.
	c.cmd.Env = append(os.Environ(), childVariable+"="+name, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = attr
	c.input, err = c.cmd.StdinPipe()
	must(t, err)
	output, err := c.cmd.StdoutPipe()
	must(t, err)
	c.output = bufio.NewScanner(output)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if !c.ended {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	return c, nil
}

// line waits for the next line that the child writes, "" for its end.
func (c *child) line() string {
	c.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	c.output.Scan()
	return c.output.Text()
}

// says waits for a line that must be this one.
func (c *child) says(want string) {
	c.t.Helper()
	if got := c.line(); got != want {
		c.t.Fatalf("the child says %q, want %q", got, want)
	}
}

// goOn tells a child that waits in proceed to go on.
func (c *child) goOn() {
	c.t.Helper()
	_, err := io.WriteString(c.input, "\n")
	must(c.t, err)
}

// end waits for the end of the child.
func (c *child) end() error {
	c.t.Helper()
	for c.line() != "" {
	}
	c.ended = true
	return c.cmd.Wait()
}

// done waits for the end of a child that must have done its work.
func (c *child) done() {
	c.t.Helper()
	var said []string
	for {
		line := c.line()
		if line == "" {
			break
		}
		said = append(said, line)
	}
	c.ended = true
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("the child: %v\n%s", err, strings.Join(said, "\n"))
	}
}

// killed waits for the end of a child that was to be killed and reports whether
// it was; otherwise it must have done its work.
func (c *child) killed() bool {
	c.t.Helper()
	err := c.end()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	must(c.t, err)
	return false
}

// stopped waits until the child has stopped itself.
func (c *child) stopped() {
	c.t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		must(c.t, err)
		break
	}
	if !status.Stopped() {
		c.ended = true
		c.t.Fatalf("the child is not stopped: %v", status)
	}
}

// children are what other processes do. They speak through their output; an
// error is a failure.
var children = map[string]func(args []string) error{
	"operate":               childThatOperates,
	"hold":                  childThatHolds,
	"count":                 childThatCounts,
	"umask":                 childWithUmask,
	"read-only":             childWithoutLeave,
	"full disk":             childOnFullDisk,
	"read-only file system": childOnReadOnly,
	"file size":             childWithFileLimit,
	"descriptors":           childWithoutDescriptors,
}

// childThatOperates PATH OPERATION [kill|stop STEP] makes one change, in which
// the process ends or stops before the step of that number.
func childThatOperates(args []string) error {
	d, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	if len(args) > 2 {
		signal := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[args[2]]
		d.SetStep(atStep(args[3], func(string) error { return raise(signal) }))
	}
	err = operations[args[1]](d)
	fmt.Println("changed:", errors.Is(err, registry.ErrChanged))
	if errors.Is(err, registry.ErrChanged) {
		return nil
	}
	return err
}

// childThatHolds PATH makes an update that does not end by itself.
func childThatHolds(args []string) error {
	d, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	return d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		return rotated(c), proceed("holding")
	})
}

// raise sends a signal to this process and does not return before it has come.
func raise(signal syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return syscall.Tgkill(os.Getpid(), syscall.Gettid(), signal)
}

// proceed says where the child is and waits until it is told to go on.
func proceed(where string) error {
	fmt.Println(where)
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

// atStep gives a function for SetStep that calls do at the step of a number,
// from 1, or of a name.
func atStep(which string, do func(step string) error) func(step string) error {
	n := 0
	return func(step string) error {
		n++
		if fmt.Sprint(n) == which || step == which {
			which = ""
			return do(step)
		}
		return nil
	}
}

// operations are the changes of a folder in which shop is registered and logged
// in.
var operations = map[string]func(*registry.Dir) error{
	"register": func(d *registry.Dir) error {
		_, err := d.Register(context.Background(), other("orders"), registry.WithAlias("orders"))
		return err
	},
	"set current": func(d *registry.Dir) error { return d.SetCurrent(context.Background(), key) },
	"log in": func(d *registry.Dir) error {
		return d.SaveCredentials(context.Background(), key, newer(credentials()))
	},
	"log out": func(d *registry.Dir) error { return d.DeleteCredentials(context.Background(), key) },
	"rotate": func(d *registry.Dir) error {
		return d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			return rotated(c), nil
		})
	},
	"remove": func(d *registry.Dir) error { return d.Remove(context.Background(), key) },
}
