package childtest

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Raise sends a signal to the calling thread and returns after it has arrived.
func Raise(signal syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return syscall.Tgkill(os.Getpid(), syscall.Gettid(), signal)
}

// Stopped waits until the child has stopped.
func (c *Child) Stopped() {
	c.t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			c.t.Fatal(err)
		}
		break
	}
	if !status.Stopped() {
		c.ended = true
		c.t.Fatalf("the child has not stopped: %#x", status)
	}
}

// Killed waits for the end of the child and reports whether SIGKILL ended it. It
// fails the test where the child ended in any other way without success.
func (c *Child) Killed() bool {
	c.t.Helper()
	said, err := c.End()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		c.t.Fatalf("the child: %v\n%s", err, said)
	}
	return false
}
