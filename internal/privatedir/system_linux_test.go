//go:build !privatedir_root

package privatedir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// startWithMounts runs a child that may mount, where the system lets anybody do
// so.
func startWithMounts(t *testing.T, name string) {
	t.Helper()
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	child, err := childtest.StartWith(t, attributes, name, t.TempDir())
	if errors.Is(err, syscall.EPERM) {
		t.Log(noMounts)
		return
	}
	must(t, err)
	if said := child.Done(); said != "" {
		t.Log(said)
	}
}

const noMounts = "mounting is not allowed here"

// mountHere makes a small file system of its own at path.
func mountHere(path string) (f *privatedir.Folder, err error) {
	err = syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=0755,size=256k")
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		fmt.Println(noMounts)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return privatedir.Make(filepath.Join(path, "private"), nil)
}

func saveIn(f *privatedir.Folder, name, text string) error {
	d, err := f.Draft(name)
	if err != nil {
		return err
	}
	defer d.Discard()
	return errors.Join(d.Fill([]byte(text)), d.Replace())
}

// A file that is mounted by itself cannot be replaced, and shows it before.
func TestSingleMounts(t *testing.T) {
	t.Parallel()
	startWithMounts(t, "single mounts")
}

func childWithSingleMounts(args []string) error {
	f, err := mountHere(args[0])
	if f == nil || err != nil {
		return err
	}
	defer f.Close()
	if err := errors.Join(saveIn(f, "file", "old"), saveIn(f, "other", "old")); err != nil {
		return err
	}
	at := filepath.Join(f.Path(), "file")
	for _, from := range []string{at, filepath.Join(f.Path(), "other")} { // of the same device, both of them
		if err := f.CanReplace("file"); err != nil || f.IsOtherMount("file") {
			return fmt.Errorf("before it is mounted: %w, or it is of another mount", err)
		}
		if err := syscall.Mount(from, at, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
		if !f.IsOtherMount("file") {
			return errors.New("the way for old kernels does not see the mount")
		}
		for _, err := range []error{f.CanReplace("file"), saveIn(f, "file", "new"), f.Erase("file")} {
			if !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "mount the whole folder "+f.Path()) {
				return fmt.Errorf("the error is %w", err)
			}
		}
		if err := syscall.Unmount(at, 0); err != nil {
			return err
		}
	}
	return saveIn(f, "file", "new")
}

// What is marked as immutable or append-only cannot be replaced either. Only
// root may mark files, and not on every file system.
func TestMarks(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"file", "."} {
		f, path := newFolder(t, nil)
		save(t, f, "file", "old")
		marked, err := os.Open(filepath.Join(path, what))
		must(t, err)
		if err := unix.IoctlSetPointerInt(int(marked.Fd()), unix.FS_IOC_SETFLAGS, unix.STATX_ATTR_APPEND); err != nil {
			t.Logf("files cannot be marked here: %v", err)
		} else {
			wantFault(t, f.CanReplace("file"), syscall.EPERM, "chattr")
			wantFault(t, f.Erase("file"), syscall.EPERM, "chattr")
			must(t, unix.IoctlSetPointerInt(int(marked.Fd()), unix.FS_IOC_SETFLAGS, 0))
		}
		must(t, marked.Close())
		must(t, f.CanReplace("file"))
		must(t, f.Erase("file"))
	}
}
