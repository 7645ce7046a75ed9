//go:build linux

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/namedlock"
	"github.com/bailinghub/bailinghub-go/registry"
)

// key is that of shop.
const key = "conn_ad8c5f3426e68dfa6b0838bd575794c2"

// openDir opens a folder with the consent to plain files. The ports of its
// locks must not be left to chance: another program may have one of them.
func openDir(t testing.TB, path string) *registry.Dir {
	t.Helper()
	if !lockport.IsQuiet(path) {
		t.Fatalf("the folder %s has a lock whose port the system may give to any program: choose its path with quietPath", path)
	}
	d, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	if err != nil {
		t.Fatalf("OpenDir: %v", err)
	}
	return d
}

// tempPath gives a path for a folder that is not there yet, within temporary
// folders that may not be there either.
func tempPath(t testing.TB, within ...string) string {
	t.Helper()
	return quietPath(t, t.TempDir(), append(within, "registry")...)
}

// quietPath gives a path whose locks nobody disturbs, for all that the tests
// register.
func quietPath(t testing.TB, base string, folder ...string) string {
	t.Helper()
	return lockport.Quiet(base, filepath.Join(folder...), key, keyOf(t, other("inventory")), keyOf(t, other("orders")), keyOf(t, other("returns")))
}

func bookPath(path string) string { return filepath.Join(path, lockport.Book) }

func loginPath(path, key string) string { return filepath.Join(path, lockport.Logins, key+".json") }

// other is a connection beside shop.
func other(workspace string) registry.Descriptor {
	return registry.Descriptor{HubURL: "https://hub.example.com/bailing", ClientAppID: "commerce-agent", Workspace: workspace}
}

func keyOf(t testing.TB, d registry.Descriptor) string {
	t.Helper()
	key, err := d.ConnectionKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newDir makes a folder in which shop is registered and logged in.
func newDir(t testing.TB) (d *registry.Dir, path string) {
	t.Helper()
	path = tempPath(t)
	d = openDir(t, path)
	must(t, registerIn(t, d, shop()))
	must(t, d.SaveCredentials(t.Context(), key, credentials()))
	return d, path
}

func registerIn(t testing.TB, d *registry.Dir, descriptor registry.Descriptor, options ...registry.RegisterOption) error {
	t.Helper()
	_, err := d.Register(t.Context(), descriptor, options...)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// settle makes every file of the folder look as if it had been there for an
// hour, so that it is not read again for its youth.
func settle(d *registry.Dir) {
	d.SetClock(func() time.Time { return time.Now().Add(time.Hour) })
}

// rotated are credentials of the same session with other tokens.
func rotated(c registry.Credentials) registry.Credentials {
	c.AccessToken = registry.NewSecret(accessCanary + "-rotated")
	c.RefreshToken = registry.NewSecret(refreshCanary + "-rotated")
	c.AccessExpiresAt = c.AccessExpiresAt.Add(time.Hour)
	c.RefreshExpiresAt = c.RefreshExpiresAt.Add(time.Hour)
	return c
}

// newer are those of a new login.
func newer(c registry.Credentials) registry.Credentials {
	c = rotated(c)
	c.SessionID = "22222222-2222-4222-8222-222222222222"
	c.AccessToken = registry.NewSecret(accessCanary + "-newer")
	return c
}

// wantStored checks what a folder, opened again, holds as the login of shop.
func wantStored(t testing.TB, path string, want registry.Credentials) {
	t.Helper()
	got, err := openDir(t, path).Credentials(t.Context(), key)
	if err != nil {
		t.Errorf("Credentials: %v", err)
	} else if !got.Equal(want) {
		t.Error("the stored credentials are not those that they should be")
	}
}

// tree is everything in a folder: kind, mode and content by path.
func tree(t testing.TB, path string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil // what stands there is known already
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(at)
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			text += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			text += " " + to
		}
		name, err := filepath.Rel(path, at)
		found[name] = text
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

func wantTree(t testing.TB, path string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, tree(t, path)); diff != "" {
		t.Errorf("the folder is not as it was (-want +got):\n%s", diff)
	}
}

// wantClean checks that a folder has nothing in it but what belongs there, with
// the right modes.
func wantClean(t testing.TB, path string) {
	t.Helper()
	for name, text := range tree(t, path) {
		want := "-rw-------"
		switch {
		case name == "." || name == "agent-connections":
			want = "drwx------"
		case name == "agent-connections.json":
		case strings.HasPrefix(name, "agent-connections/conn_") && strings.HasSuffix(name, ".json"):
		default:
			t.Errorf("there is a file %s", name)
		}
		if mode, _, _ := strings.Cut(text, " "); mode != want {
			t.Errorf("%s has mode %s, want %s", name, mode, want)
		}
	}
}

// wantSafe checks an error of the package that says all these parts and no
// token.
func wantSafe(t testing.TB, err error, matches error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	if _, safe := errors.AsType[*registry.Error](err); !safe || !strings.HasPrefix(err.Error(), "registry: ") {
		t.Errorf("error %v (%T) is not a *registry.Error", err, err)
	}
	if matches != nil && !errors.Is(err, matches) {
		t.Errorf("error %v does not match %q", err, matches)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "synthetic") {
		t.Errorf("a token shows in %q", err)
	}
}

// wantLockedOut checks that a use of a lock that somebody else has waits until
// its context ends, and then says for what. A machine that is busy may not even
// come to wait; then it is tried with more time.
func wantLockedOut(t testing.TB, lock string, use func(context.Context) error) {
	t.Helper()
	for patience := 60 * time.Millisecond; ; patience *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := use(ctx)
		cancel()
		if patience < 10*time.Second && errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), lock) {
			continue
		}
		wantSafe(t, err, context.DeadlineExceeded, "the lock "+lock, fmt.Sprintf("port %d of 127.0.0.1", namedlock.Port(lock)))
		wantSafe(t, err, registry.ErrLocked)
		return
	}
}

func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Lstat(path, &st))
	return st.Ino
}
