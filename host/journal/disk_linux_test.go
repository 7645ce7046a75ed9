package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
)

func init() { children["full disk"] = onAFullDisk }

// A full disk refuses the Add, and with room again everything goes on.
func TestOnAFullDisk(t *testing.T) {
	t.Parallel()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	child, err := childtest.StartWith(t, attr, "full disk", t.TempDir())
	if errors.Is(err, syscall.EPERM) {
		t.Log("mounting is not allowed here") // the limit on the size of files has to do
		return
	}
	must(t, err)
	child.Done()
}

func onAFullDisk(args []string) error {
	ctx, folder := context.Background(), args[0]
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=0700,size=256k")
	if errors.Is(err, syscall.EPERM) {
		fmt.Println("mounting is not allowed here")
		return nil
	}
	if err != nil {
		return err
	}
	path, ballast := filepath.Join(folder, "operations.jsonl"), filepath.Join(folder, "ballast")
	f, err := journal.OpenFile(path, journal.WithSizes(10_000, 1<<30))
	if err != nil {
		return err
	}
	if err := os.WriteFile(ballast, make([]byte, 160<<10), 0o600); err != nil {
		return err
	}
	kept, err := fill(ctx, f, syscall.ENOSPC)
	if err != nil {
		return err
	}
	// Without room for a draft the journal is not compacted, and goes on.
	for n := range kept {
		e := operation(n)
		if _, err := f.Record(ctx, e.Original.InvocationID, executed(e)); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("a record on a full disk: %w", err)
		}
		if got, err := f.Find(ctx, e.CallID); err != nil || got.State != journal.StatePrepared {
			return fmt.Errorf("after a record that was refused it is %s: %w", got.State, err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	return goesOn(ctx, path, f, kept)
}
