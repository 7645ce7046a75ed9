package privatedir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// children are what other processes do.
var children = map[string]func(args []string) error{
	"lock":          childThatLocks,
	"single mounts": childWithSingleMounts,
	"full disk":     childOnAFullDisk,
}

// childThatLocks PATH holds the lock file until it is told to go on.
func childThatLocks(args []string) error {
	f, err := privatedir.Open(args[0], nil)
	if err != nil {
		return err
	}
	lock, err := f.Lock("file.lock", "the child")
	if err != nil {
		return err
	}
	defer lock.Release()
	return childtest.Proceed("holding")
}

// A lock file excludes this process and others, says who holds it, and is free
// when its holder has ended, however it did.
func TestLock(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	lock, err := f.Lock("file.lock", "process 1\nof this machine")
	must(t, err)
	_, err = f.Lock("file.lock", "another")
	wantFault(t, err, privatedir.ErrLocked, filepath.Join(path, "file.lock"), "held by process 1 of this machine")
	said, err := childtest.Start(t, "lock", path).End()
	if err == nil || !strings.Contains(said, "held by process 1 of this machine") {
		t.Errorf("another process says %q, %v", said, err)
	}
	lock.Release()
	for _, end := range []func(*childtest.Child){
		func(c *childtest.Child) { c.GoOn(); c.Done() },
		func(c *childtest.Child) { must(t, c.Process.Kill()); _, _ = c.End() },
	} {
		child := childtest.Start(t, "lock", path)
		child.Says("holding")
		_, err = f.Lock("file.lock", "another")
		wantFault(t, err, privatedir.ErrLocked, "held by the child")
		end(child)
		lock, err := f.Lock("file.lock", strings.Repeat("long ", 1000))
		must(t, err)
		_, err = f.Lock("file.lock", "another")
		wantFault(t, err, privatedir.ErrLocked, "held by long long")
		if len(err.Error()) > 1000 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
		lock.Release()
	}
	lock, err = f.Lock("file.lock", "")
	must(t, err)
	_, err = f.Lock("file.lock", "")
	wantFault(t, err, privatedir.ErrLocked, "held by another process")
	lock.Release()
	wantNames(t, path, "file.lock")
}

func TestHolderIsPrintable(t *testing.T) {
	t.Parallel()
	if got := privatedir.HeldBy("pid 1\x1b[2K\u202e\xff\n"); got != "pid 1 [2K" {
		t.Errorf("the holder is %q", got)
	}
}

// A lock file that was taken away excludes nobody, and is made anew.
func TestLockFileTakenAway(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	for i := range 2 {
		lock, err := f.Lock("file.lock", fmt.Sprint(i))
		must(t, err)
		must(t, os.Remove(filepath.Join(path, "file.lock")))
		next, err := f.Lock("file.lock", "next")
		must(t, err)
		lock.Release()
		_, err = f.Lock("file.lock", "")
		wantFault(t, err, privatedir.ErrLocked, "next")
		next.Release()
	}
}
