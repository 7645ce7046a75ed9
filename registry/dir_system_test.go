//go:build linux

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/registry"
)

// commonFolder gives a path for a folder, in one that every user can get to.
func commonFolder(t testing.TB) (path string) {
	t.Helper()
	temporary, err := os.MkdirTemp("", "registry-test-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(temporary)) })
	path = quietPath(t, filepath.Join(temporary, "x"), "registry")
	must(t, os.Mkdir(filepath.Dir(path), 0o755))
	must(t, os.Chmod(filepath.Dir(path), 0o755))
	must(t, os.Chmod(temporary, 0o755))
	return path
}

// failed is what went wrong in a child.
func failed(err error, where string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// refusedBy checks that an error is one of the package and of the system.
func refusedBy(err, want error, where string) error {
	if _, safe := errors.AsType[*registry.Error](err); !safe || !errors.Is(err, want) {
		return fmt.Errorf("%s: %v, want %v", where, err, want)
	}
	return nil
}

// shopIn registers shop in a folder and logs it in.
func shopIn(path string) (*registry.Dir, error) {
	d, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	if err != nil {
		return nil, err
	}
	if _, err := d.Register(context.Background(), shop()); err != nil {
		return nil, err
	}
	return d, d.SaveCredentials(context.Background(), key, credentials())
}

// unready is an update that must not be called.
func unready(called *bool) func(context.Context, registry.Credentials) (registry.Credentials, error) {
	return func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		*called = true
		return rotated(c), nil
	}
}

// stillThere checks that the login is what it was.
func stillThere(d *registry.Dir) error {
	login, err := d.Credentials(context.Background(), key)
	if err == nil && !login.Equal(credentials()) {
		err = errors.New("the login is another one")
	}
	return failed(err, "reading afterwards")
}

// The modes are right whatever the umask.
func TestDirUmask(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"0", "0777", "0277"} {
		path := tempPath(t, "on", "the", "way")
		base := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(path))))
		childtest.Start(t, "umask", path, umask).Done()
		wantClean(t, path)
		for at := path; at != base; at = filepath.Dir(at) {
			if info, err := os.Stat(at); err != nil || info.Mode() != os.ModeDir|0o700 {
				t.Errorf("with umask %s, %s has mode %v (%v)", umask, at, info.Mode(), err)
			}
		}
		wantStored(t, path, rotated(credentials()))
	}
}

// Another user than root meets what root does not.
func TestDirWithoutLeaveToWrite(t *testing.T) {
	t.Parallel()
	path := commonFolder(t)
	if os.Geteuid() == 0 {
		must(t, os.Chown(filepath.Dir(path), nobody, nobody))
	}
	childtest.Start(t, "read-only", path).Done()
}

func TestDirOnAFullDisk(t *testing.T) {
	t.Parallel()
	startWithMounts(t, "full disk", commonFolder(t))
}

func TestDirOnAReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	startWithMounts(t, "read-only file system", commonFolder(t))
}

// startWithMounts runs a child that may mount. Where the system lets nobody do
// so, the limits on files and folders of the other tests have to do.
func startWithMounts(t *testing.T, name, path string) {
	t.Helper()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	c, err := childtest.StartWith(t, attr, name, path)
	if errors.Is(err, syscall.EPERM) {
		t.Log(noMounts)
		return
	}
	must(t, err)
	if said := c.Done(); said != "" {
		t.Log(said)
	}
}

const noMounts = "mounting is not allowed here"

func TestDirBeyondTheFileSizeLimit(t *testing.T) {
	t.Parallel()
	childtest.Start(t, "file size", tempPath(t)).Done()
}

func TestDirWithoutDescriptors(t *testing.T) {
	t.Parallel()
	childtest.Start(t, "descriptors", tempPath(t)).Done()
}

// ownMounts makes a small file system of its own at path. Only root of a machine
// is sure to be allowed to.
func ownMounts(path string) (allowed bool, err error) {
	err = syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=0755,size=256k")
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		fmt.Println(noMounts)
		return false, nil
	}
	return err == nil, failed(err, "mounting")
}

func childWithUmask(args []string) error {
	var umask int
	if _, err := fmt.Sscanf(args[1], "%o", &umask); err != nil {
		return err
	}
	syscall.Umask(umask)
	d, err := shopIn(args[0])
	if err != nil {
		return err
	}
	return operations["rotate"](d)
}

func childWithoutLeave(args []string) error {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
	}
	called := false
	path, parent := args[0], filepath.Dir(args[0])
	if err := os.Chmod(parent, 0o500); err != nil {
		return err
	}
	d, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	list, err := d.List(context.Background())
	if err != nil || len(list) != 0 {
		return fmt.Errorf("List of a folder that is not there: %v, %w", list, err)
	}
	if err := refusedBy(operations["register"](d), syscall.EACCES, "making the folder"); err != nil {
		return err
	}
	if err := os.Chmod(parent, 0o700); err != nil {
		return err
	}
	if d, err = shopIn(path); err != nil {
		return err
	}
	for _, folder := range []string{path, filepath.Join(path, "agent-connections")} {
		if err := os.Chmod(folder, 0o500); err != nil {
			return err
		}
		for name, operation := range operations {
			if folder != path && (name == "register" || name == "set current") {
				continue // which need no login
			}
			if err := refusedBy(operation(d), registry.ErrDamaged, name+" in a folder without leave to write"); err != nil {
				return err
			}
		}
		err := d.UpdateCredentials(context.Background(), key, unready(&called))
		if err := refusedBy(err, registry.ErrDamaged, "updating"); err != nil || called {
			return fmt.Errorf("the update was called: %v; %w", called, err)
		}
		if err := errors.Join(os.Chmod(folder, 0o700), stillThere(d)); err != nil {
			return err
		}
	}
	return os.Chmod(parent, 0o755)
}

func childOnFullDisk(args []string) error {
	if allowed, err := ownMounts(filepath.Dir(args[0])); !allowed {
		return err
	}
	d, err := shopIn(args[0])
	if err != nil {
		return err
	}
	// All room is taken, to the last block.
	ballast, err := os.Create(filepath.Join(filepath.Dir(args[0]), "ballast"))
	if err != nil {
		return err
	}
	defer ballast.Close()
	for {
		if _, err := ballast.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			return err
		}
	}
	called := false
	if err := refusedBy(d.UpdateCredentials(context.Background(), key, unready(&called)), syscall.ENOSPC, "updating on a full disk"); err != nil || called {
		return fmt.Errorf("the update was called: %v; %w", called, err)
	}
	for _, name := range []string{"register", "set current", "log in", "remove"} {
		if err := refusedBy(operations[name](d), syscall.ENOSPC, name+" on a full disk"); err != nil {
			return err
		}
	}
	if err := stillThere(d); err != nil {
		return err
	}
	// Room for one block is room for a login, and not for all that a refresh may give.
	if err := ballast.Truncate(0); err != nil {
		return err
	}
	err = d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		// It fills up meanwhile: what was made ready is enough.
		for {
			if _, err := ballast.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
				return rotated(c), nil
			} else if err != nil {
				return c, err
			}
		}
	})
	if err != nil {
		return failed(err, "updating while the disk fills up")
	}
	login, err := d.Credentials(context.Background(), key)
	if err != nil || !login.Equal(rotated(credentials())) {
		return fmt.Errorf("the rotation was lost, %w", err)
	}

	// The room that was made ready is lost too, as on a file system that copies
	// on write. The rotation is not saved, and is saved when there is room again.
	fill := func() error {
		for {
			if _, err := ballast.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	if err := errors.Join(ballast.Truncate(0), d.SaveCredentials(context.Background(), key, credentials())); err != nil {
		return failed(err, "beginning anew")
	}
	err = d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		temporary, err := filepath.Glob(filepath.Join(args[0], "agent-connections", ".*"))
		if err != nil || len(temporary) != 1 {
			return c, fmt.Errorf("temporary files: %v, %w", temporary, err)
		}
		return rotated(c), errors.Join(os.Truncate(temporary[0], 0), fill())
	})
	if err := errors.Join(refusedBy(err, syscall.ENOSPC, "saving on a full disk"), stillThere(d)); err != nil {
		return err
	}
	held := again(credentials(), rotated(credentials()))
	if err := errors.Join(refusedBy(d.UpdateCredentials(context.Background(), key, held), syscall.ENOSPC, "saving again on a full disk"), stillThere(d)); err != nil {
		return err
	}
	if err := errors.Join(ballast.Truncate(0), d.UpdateCredentials(context.Background(), key, held)); err != nil {
		return failed(err, "saving again when there is room")
	}
	if login, err := d.Credentials(context.Background(), key); err != nil || !login.Equal(rotated(credentials())) {
		return fmt.Errorf("the rotation that was saved again is not there, %w", err)
	}
	return nil
}

func childOnReadOnly(args []string) error {
	if allowed, err := ownMounts(filepath.Dir(args[0])); !allowed {
		return err
	}
	d, err := shopIn(args[0])
	if err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", filepath.Dir(args[0]), "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return failed(err, "mounting read-only")
	}
	called := false
	if err := refusedBy(d.UpdateCredentials(context.Background(), key, unready(&called)), syscall.EROFS, "updating"); err != nil || called {
		return fmt.Errorf("the update was called: %v; %w", called, err)
	}
	for name, operation := range operations {
		if err := refusedBy(operation(d), syscall.EROFS, name); err != nil {
			return err
		}
	}
	return stillThere(d)
}

// What cannot be written, for whatever reason, when the update is over.
func childWithFileLimit(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	d, err := shopIn(args[0])
	if err != nil {
		return err
	}
	limit := func(size uint64) error {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &now); err != nil {
			return err
		}
		now.Cur = min(size, now.Max)
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now)
	}
	if err := limit(4096); err != nil {
		return err
	}
	called := false
	if err := refusedBy(d.UpdateCredentials(context.Background(), key, unready(&called)), syscall.EFBIG, "making ready"); err != nil || called {
		return fmt.Errorf("the update was called: %v; %w", called, err)
	}
	if err := limit(1 << 40); err != nil {
		return err
	}
	err = d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		return rotated(c), limit(16)
	})
	return errors.Join(refusedBy(err, syscall.EFBIG, "saving"), stillThere(d), limit(1<<40), operations["rotate"](d))
}

func childWithoutDescriptors(args []string) error {
	d, err := shopIn(args[0])
	if err != nil {
		return err
	}
	settle(d)
	if err := stillThere(d); err != nil {
		return err
	}
	// The limit is the number that the next descriptor would get.
	next, err := syscall.Open("/", syscall.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if err := syscall.Close(next); err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return err
	}
	limit := func(more int) error {
		now := before
		now.Cur = uint64(next + more)
		return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now)
	}
	if err := limit(0); err != nil {
		return err
	}
	// What is unchanged needs none.
	if err := stillThere(d); err != nil {
		return err
	}
	fresh, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	_, err = fresh.List(context.Background())
	if err := refusedBy(err, syscall.EMFILE, "reading"); err != nil {
		return err
	}
	for name, operation := range operations {
		if err := refusedBy(operation(d), syscall.EMFILE, name); err != nil {
			return err
		}
	}
	// However many there are: the update is called when they are enough for
	// the save too, and not before.
	for more := 1; ; more++ {
		if err := limit(more); err != nil {
			return err
		}
		called := false
		err := d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			called = true
			return rotated(c), nil
		})
		if called && err != nil {
			return failed(err, fmt.Sprintf("saving with %d descriptors", more))
		}
		if called {
			break
		}
		if err := errors.Join(refusedBy(err, syscall.EMFILE, "updating"), stillThere(d)); err != nil {
			return err
		}
	}
	// None is left when the update returns: the one that comparing needs was
	// kept back.
	if err := errors.Join(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before), d.SaveCredentials(context.Background(), key, credentials())); err != nil {
		return err
	}
	var taken []int
	err = d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		if err := limit(32); err != nil {
			return c, err
		}
		for {
			fd, err := syscall.Open("/", syscall.O_RDONLY, 0)
			if errors.Is(err, syscall.EMFILE) {
				return rotated(c), nil
			}
			if err != nil {
				return c, err
			}
			taken = append(taken, fd)
		}
	})
	for _, fd := range taken {
		err = errors.Join(err, syscall.Close(fd))
	}
	if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		return failed(err, "saving without a descriptor left")
	}
	return operations["log in"](d)
}
