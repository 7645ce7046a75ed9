//go:build linux

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailinghub/bailinghub-go/registry"
)

// again gives an update that does what a host does which holds a rotation that
// it could not save: it puts the rotation in place of the credentials that it
// replaces, and of no others.
func again(replaced, rotation registry.Credentials) func(context.Context, registry.Credentials) (registry.Credentials, error) {
	return func(_ context.Context, current registry.Credentials) (registry.Credentials, error) {
		if !current.Equal(replaced) {
			return current, registry.ErrChanged
		}
		return rotation, nil
	}
}

// A save that failed changed nothing, and goes well when it is tried again; a
// newer login and a removal still win.
func TestDirSaveIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"write", "sync"} {
		for meanwhile, want := range map[string]struct {
			err   error
			login string
		}{
			"":                   {nil, "rotated"},
			"log in":             {registry.ErrChanged, "newer"},
			"log out":            {registry.ErrNotLoggedIn, "none"},
			"remove":             {registry.ErrNotFound, "none"},
			"failing once again": {nil, "rotated"},
		} {
			t.Run(step+" fails, then "+meanwhile, func(t *testing.T) {
				t.Parallel()
				d, path := newDir(t)
				full := false
				d.SetStep(func(now string) error {
					if full && now == step {
						return syscall.ENOSPC
					}
					return nil
				})
				err := d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					full = true // what was reserved is lost, as on a file system that copies on write
					return rotated(c), nil
				})
				wantSafe(t, err, syscall.ENOSPC, loginPath(path, key))
				if errors.Is(err, registry.ErrNotSynced) {
					t.Errorf("the error %v says that the rotation was saved", err)
				}
				wantStored(t, path, credentials())
				if meanwhile == "failing once again" {
					full = true
					d.SetStep(func(string) error { return syscall.ENOSPC })
					wantSafe(t, d.UpdateCredentials(t.Context(), key, again(credentials(), rotated(credentials()))), syscall.ENOSPC)
					wantStored(t, path, credentials())
				}
				d.SetStep(nil)
				if do := operations[meanwhile]; do != nil {
					must(t, do(openDir(t, path)))
				}
				if err := d.UpdateCredentials(t.Context(), key, again(credentials(), rotated(credentials()))); !errors.Is(err, want.err) {
					t.Errorf("the second UpdateCredentials: %v, want %v", err, want.err)
				}
				if got := stateOf(t, path).login; got != want.login {
					t.Errorf("the login is %s, want %s", got, want.login)
				}
				wantClean(t, path)
			})
		}
	}
}

// What was saved and may not outlast a power failure is saved: the same once
// more changes nothing, and the next rotation goes on from it.
func TestDirSavedWithoutSync(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	d.SetStep(atStep("sync folder", func(string) error { return syscall.EIO }))
	err := operations["rotate"](d)
	wantSafe(t, err, registry.ErrNotSynced, loginPath(path, key)+" is saved, but may not outlast a power failure")
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("error %v does not match EIO", err)
	}
	wantStored(t, path, rotated(credentials()))
	must(t, d.UpdateCredentials(t.Context(), key, again(rotated(credentials()), rotated(credentials()))))
	must(t, d.UpdateCredentials(t.Context(), key, again(rotated(credentials()), newer(credentials()))))
	wantStored(t, path, newer(credentials()))
	wantClean(t, path)
}

// The newer login is not lost when it cannot change places again with what came
// later and is older.
func TestDirGivesTheNewerLoginBack(t *testing.T) {
	t.Parallel()
	for _, renamed := range []bool{true, false} {
		d, path := newDir(t)
		others := openDir(t, path)
		d.SetStep(func(step string) error {
			switch step {
			case "exchange":
				return operations["log in"](others)
			case "put back":
				return syscall.EIO
			case "rename":
				if !renamed {
					return syscall.EIO
				}
			}
			return nil
		})
		err := operations["rotate"](d)
		if renamed {
			if !errors.Is(err, registry.ErrChanged) {
				t.Errorf("UpdateCredentials: %v, want ErrChanged", err)
			}
			wantStored(t, path, newer(credentials()))
			wantClean(t, path)
			continue
		}
		kept := leftovers(t, path)
		if len(kept) != 1 {
			t.Fatalf("the newer login is in one of %q, want one file", kept)
		}
		wantSafe(t, err, syscall.EIO, loginPath(path, key), filepath.Base(kept[0]))
		text, readErr := os.ReadFile(kept[0])
		must(t, readErr)
		if login, err := registry.DecodeCredentials(text); err != nil || !login.Equal(newer(credentials())) {
			t.Errorf("the file that the error names is not the newer login (%v)", err)
		}
	}
}

// A file that is mounted by itself, as containers do it, can be written and not
// replaced. That shows before a refresh token is used up.
func TestDirWithSingleMounts(t *testing.T) {
	t.Parallel()
	startWithMounts(t, "single mounts", commonFolder(t))
}

func childWithSingleMounts(args []string) error {
	path := args[0]
	if allowed, err := ownMounts(filepath.Dir(path)); !allowed {
		return err
	}
	d, err := shopIn(path)
	if err != nil {
		return err
	}
	check := func(file string, err error, called bool) error {
		if err := refusedBy(err, syscall.EBUSY, "a file that is mounted"); err != nil {
			return err
		}
		if !strings.Contains(err.Error(), file+" cannot be replaced, because it is mounted by itself: mount the whole folder") || called {
			return fmt.Errorf("the error is %q; the update was called: %v", err, called)
		}
		return nil
	}
	file := loginPath(path, key)
	elsewhere := filepath.Join(filepath.Dir(path), "login.json")
	text, err := os.ReadFile(file)
	if err := errors.Join(err, os.WriteFile(elsewhere, text, 0o600)); err != nil {
		return err
	}
	for _, from := range []string{file, elsewhere} { // of the same device, both of them
		if err := syscall.Mount(from, file, "", syscall.MS_BIND, ""); err != nil {
			return failed(err, "mounting a file")
		}
		called := false
		err := d.UpdateCredentials(context.Background(), key, unready(&called))
		if err := errors.Join(check(file, err, called), stillThere(d)); err != nil {
			return err
		}
		for _, name := range []string{"log in", "log out", "remove"} {
			if err := check(file, operations[name](d), false); err != nil {
				return failed(err, name)
			}
		}
		if err := errors.Join(stillThere(d), syscall.Unmount(file, 0)); err != nil {
			return err
		}
	}
	if err := syscall.Mount(bookPath(path), bookPath(path), "", syscall.MS_BIND, ""); err != nil {
		return failed(err, "mounting the connections")
	}
	if err := check(bookPath(path), operations["set current"](d), false); err != nil {
		return err
	}
	// The connections are only read for an update, and a folder may be mounted.
	logins := filepath.Dir(file)
	if err := syscall.Mount(logins, logins, "", syscall.MS_BIND, ""); err != nil {
		return failed(err, "mounting the folder of the logins")
	}
	if err := operations["rotate"](d); err != nil {
		return failed(err, "updating in a folder that is mounted")
	}
	login, err := d.Credentials(context.Background(), key)
	if err == nil && !login.Equal(rotated(credentials())) {
		err = errors.New("the rotation is not stored")
	}
	return err
}

// The same for what is marked as immutable, or append-only, or is in a folder
// that is. Only root may do that, and not on every file system.
func TestDirWithMarkedFiles(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		at   func(path string) string
		mark int
	}{
		"an immutable file":     {func(path string) string { return loginPath(path, key) }, unix.STATX_ATTR_IMMUTABLE},
		"an append-only file":   {func(path string) string { return loginPath(path, key) }, unix.STATX_ATTR_APPEND},
		"an append-only folder": {func(path string) string { return filepath.Dir(loginPath(path, key)) }, unix.STATX_ATTR_APPEND},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d, path := newDir(t)
			marked, err := os.Open(test.at(path))
			must(t, err)
			defer marked.Close()
			if err := unix.IoctlSetPointerInt(int(marked.Fd()), unix.FS_IOC_SETFLAGS, test.mark); err != nil {
				t.Logf("files cannot be marked here: %v", err)
				return
			}
			defer func() { must(t, unix.IoctlSetPointerInt(int(marked.Fd()), unix.FS_IOC_SETFLAGS, 0)) }()
			called := false
			err = d.UpdateCredentials(t.Context(), key, unready(&called))
			wantSafe(t, err, syscall.EPERM, loginPath(path, key), "chattr")
			if called {
				t.Error("the update was called")
			}
			wantSafe(t, operations["log out"](d), syscall.EPERM, loginPath(path, key), "chattr")
			wantStored(t, path, credentials())
		})
	}
}
