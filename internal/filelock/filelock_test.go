//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows

package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/filelock"
)

func TestMain(m *testing.M) {
	childtest.Run(map[string]func([]string) error{"hold": hold})
	os.Exit(m.Run())
}

func hold(args []string) error {
	file, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := filelock.Lock(file); err != nil {
		return err
	}
	return childtest.Proceed("locked")
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestLockWithinAProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	one, other := open(t, path), open(t, path)
	if err := filelock.Lock(one); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Lock(other); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("the second: %v", err)
	}
	if err := filelock.Unlock(one); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Lock(other); err != nil {
		t.Errorf("after the first gave it back: %v", err)
	}
}

// The lock ends with its process, and what stands in the file can be read.
func TestLockBetweenProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	file := open(t, path)
	if _, err := file.WriteString("who"); err != nil {
		t.Fatal(err)
	}
	child := childtest.Start(t, "hold", path)
	child.Says("locked")
	if err := filelock.Lock(file); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("while another process has it: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "who" {
		t.Errorf("%q, %v", text, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = child.End()
	if err := filelock.Lock(file); err != nil {
		t.Errorf("after that process was killed: %v", err)
	}
}
