//go:build linux

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/namedlock/locktest"
	"github.com/bailinghub/bailinghub-go/registry"
)

// state is what a folder says of shop: whether it is registered, and its login.
type state struct {
	registered, current, orders bool
	login                       string
}

func stateOf(t testing.TB, path string) state {
	t.Helper()
	d := openDir(t, path)
	list, err := d.List(t.Context())
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	var s state
	for _, c := range list {
		s.registered = s.registered || c.Key == key
		s.orders = s.orders || c.Workspace == "orders"
	}
	current, err := d.Current(t.Context())
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		t.Fatalf("Current: %v", err)
	}
	s.current = current.Key == key
	login, err := d.Credentials(t.Context(), key)
	switch {
	case err == nil && login.Equal(credentials()):
		s.login = "old"
	case err == nil && login.Equal(rotated(credentials())):
		s.login = "rotated"
	case err == nil && login.Equal(newer(credentials())):
		s.login = "newer"
	case errors.Is(err, registry.ErrNotLoggedIn), errors.Is(err, registry.ErrNotFound):
		s.login = "none"
	default:
		t.Fatalf("Credentials: a login or not, %v", err)
	}
	return s
}

// outcomes are the states that an operation may leave behind, whatever happens
// to it: the first is that before, the last that after.
func outcomes() map[string][]state {
	before := state{registered: true, login: "old"}
	with := func(change func(*state)) state {
		s := before
		change(&s)
		return s
	}
	return map[string][]state{
		"register":    {before, with(func(s *state) { s.orders = true })},
		"set current": {before, with(func(s *state) { s.current = true })},
		"log in":      {before, with(func(s *state) { s.login = "newer" })},
		"log out":     {before, with(func(s *state) { s.login = "none" })},
		"rotate":      {before, with(func(s *state) { s.login = "rotated" })},
		"remove":      {before, with(func(s *state) { s.login = "none" }), {login: "none"}},
	}
}

func wantOneOf(t testing.TB, path string, want []state) state {
	t.Helper()
	got := stateOf(t, path)
	for _, s := range want {
		if got == s {
			return got
		}
	}
	t.Errorf("the folder is %+v, want one of %+v", got, want)
	return got
}

// A process that ends before any step leaves a folder that can be read and
// changed, as it was or as it was to be, and nothing that stays for ever.
func TestDirAfterACrash(t *testing.T) {
	t.Parallel()
	for operation, states := range outcomes() {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			drafts := false
			for step := 1; ; step++ {
				_, path := newDir(t)
				if !childtest.Start(t, "operate", path, operation, "kill", fmt.Sprint(step)).Killed() {
					if step < 3 {
						t.Errorf("there are only %d steps", step-1)
					}
					break
				}
				wantOneOf(t, path, states)
				drafts = drafts || len(leftovers(t, path)) > 0
				// Any change of the folder sweeps.
				d := openDir(t, path)
				if err := registerIn(t, d, other("returns")); err != nil {
					t.Errorf("Register afterwards: %v", err)
				}
				if states[len(states)-1].registered {
					must(t, d.SaveCredentials(t.Context(), key, newer(credentials())))
					wantStored(t, path, newer(credentials()))
				} else if err := d.Remove(t.Context(), key); err != nil && !errors.Is(err, registry.ErrNotFound) {
					t.Errorf("Remove afterwards: %v", err)
				}
				must(t, operations["register"](d))
				must(t, d.SaveCredentials(t.Context(), keyOf(t, other("orders")), ordersLogin()))
				wantClean(t, path)
			}
			if !drafts && operation != "log out" {
				t.Error("no crash has left a temporary file: nothing was tested")
			}
		})
	}
}

func ordersLogin() registry.Credentials {
	c := credentials()
	c.HubURL, c.Workspace = other("orders").HubURL, "orders"
	return c
}

// leftovers are the temporary files in a folder.
func leftovers(t testing.TB, path string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{".*", "agent-connections/.*"} {
		names, err := filepath.Glob(filepath.Join(path, pattern))
		must(t, err)
		found = append(found, names...)
	}
	return found
}

// What the system does not do is an error of the system, changes nothing, and
// leaves nothing behind.
func TestDirWhenAStepFails(t *testing.T) {
	t.Parallel()
	for operation, states := range outcomes() {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			for step, more := 1, true; more; step++ {
				d, path := newDir(t)
				failed := ""
				d.SetStep(atStep(fmt.Sprint(step), func(step string) error {
					failed = step
					return syscall.ENOSPC
				}))
				before := tree(t, path)
				err := operations[operation](d)
				if more = failed != ""; !more {
					must(t, err)
					break
				}
				if failed == "allocate" || failed == "exchange" { // for which there is another way
					must(t, err)
					wantStored(t, path, rotated(credentials()))
					continue
				}
				wantSafe(t, err, syscall.ENOSPC, path, "no space left on device")
				if got := errors.Is(err, registry.ErrNotSynced); got != (failed == "sync folder") {
					t.Errorf("when the step %q fails, the error %v matches ErrNotSynced: %v", failed, err, got)
				}
				if failed == "sync folder" {
					// All that was asked for is done.
					wantOneOf(t, path, states[len(states)-1:])
				} else if operation != "remove" || failed != "rename" {
					wantTree(t, path, before)
				}
				wantClean(t, path)
				d.SetStep(nil)
				if stateOf(t, path) != states[len(states)-1] {
					must(t, operations[operation](d))
				}
				if got := stateOf(t, path); got != states[len(states)-1] {
					t.Errorf("the folder is %+v, want %+v", got, states[len(states)-1])
				}
			}
		})
	}
}

// The steps of an update stand in an order that a full disk shows before the
// refresh token is used.
func TestDirIsReadyBeforeAnUpdate(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"create", "reserve"} {
		d, path := newDir(t)
		d.SetStep(func(now string) error {
			if now == step || step == "reserve" && (now == "allocate" || now == "write") {
				return syscall.ENOSPC
			}
			return nil
		})
		err := d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			t.Errorf("the update was called, although %s failed", step)
			return rotated(c), nil
		})
		wantSafe(t, err, syscall.ENOSPC, "agent-connections", "no space left")
		wantStored(t, path, credentials())
		wantClean(t, path)
	}
	// Where the file system cannot reserve room, it is written.
	d, path := newDir(t)
	var steps []string
	d.SetStep(func(step string) error {
		steps = append(steps, step)
		if step == "allocate" {
			return errors.ErrUnsupported
		}
		return nil
	})
	must(t, d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		temporary := leftovers(t, path)
		if len(temporary) != 1 {
			t.Fatalf("temporary files during the update: %v", temporary)
		}
		var st syscall.Stat_t
		must(t, syscall.Stat(temporary[0], &st))
		if st.Size < 4*8192 || st.Blocks*512 < st.Size || st.Mode&0o7777 != 0o600 {
			t.Errorf("the temporary file has %d bytes, %d of them on the disk, mode %o", st.Size, st.Blocks*512, st.Mode)
		}
		return rotated(c), nil
	}))
	want := []string{"create", "allocate", "write", "sync", "write", "sync", "exchange", "sync folder"}
	if fmt.Sprint(steps) != fmt.Sprint(want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	wantStored(t, path, rotated(credentials()))
}

// The longest tokens there are fit into what was reserved.
func TestDirReservesEnough(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	long := rotated(credentials())
	must(t, d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		var st syscall.Stat_t
		temporary := leftovers(t, path)
		must(t, syscall.Stat(temporary[0], &st))
		token := make([]byte, 8192)
		for i := range token {
			token[i] = '"'
		}
		long.AccessToken, long.RefreshToken = registry.NewSecret(string(token)), registry.NewSecret(string(token[:8191])+`\`)
		data, err := registry.EncodeCredentials(long)
		must(t, err)
		if room := max(st.Size, st.Blocks*512); room < int64(len(data)) {
			t.Errorf("there is room for %d bytes, and %d may come", room, len(data))
		}
		return long, nil
	}))
	wantStored(t, path, long)
	wantClean(t, path)
}

// Temporary files of a process that lives are left alone, whatever it does; so
// is what only looks like one.
func TestDirSweepsOnlyWhatIsAbandoned(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	holder := childtest.Start(t, "hold", path)
	holder.Says("holding")
	held := leftovers(t, path)
	if len(held) != 1 {
		t.Fatalf("temporary files of the one that holds: %v", held)
	}
	foreign := map[string]string{}
	for _, name := range []string{".other.tmp", ".agent-connections.json.0123.tmp", "agent-connections.json.0123456789abcdef.tmp", "agent-connections/.keep"} {
		must(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
		foreign[name] = "-rw------- "
	}
	must(t, os.Mkdir(filepath.Join(path, ".agent-connections.json.0123456789abcdef.tmp"), 0o700))
	foreign[".agent-connections.json.0123456789abcdef.tmp"] = "drwx------"
	abandoned := []string{
		filepath.Join(path, ".agent-connections.json.00000000000000ff.tmp"),
		filepath.Join(path, "agent-connections", "."+key+".json.00000000000000ff.tmp"),
	}
	must(t, registerIn(t, d, other("orders")))
	for _, change := range []func() error{
		func() error { return d.SaveCredentials(t.Context(), keyOf(t, other("orders")), ordersLogin()) },
		func() error {
			return d.UpdateCredentials(t.Context(), keyOf(t, other("orders")), func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				return c, nil
			})
		},
		func() error { return d.DeleteCredentials(t.Context(), keyOf(t, other("orders"))) },
		func() error { return d.Remove(t.Context(), keyOf(t, other("orders"))) },
		func() error { return errors.Join(registerIn(t, d, other("returns")), os.Remove(abandoned[1])) },
	} {
		for _, name := range abandoned {
			must(t, os.WriteFile(name, []byte("canary"), 0o600))
		}
		must(t, change())
		for _, name := range abandoned {
			if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there", filepath.Base(name))
			}
		}
	}
	left := tree(t, path)
	for name, want := range maps.All(foreign) {
		if left[name] != want {
			t.Errorf("%s is %q, want %q", name, left[name], want)
		}
	}
	holder.GoOn()
	holder.Done()
	wantStored(t, path, rotated(credentials()))
	if _, err := os.Lstat(held[0]); !errors.Is(err, os.ErrNotExist) {
		t.Error("the temporary file of the one that held is still there")
	}
}

// While a writer is stopped, others give up, and a login goes ahead; when it
// wakes up, it overwrites nothing that is newer, wherever it was stopped.
func TestDirWithAStoppedWriter(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []struct {
		name string
		do   func(d *registry.Dir) error
		want string
	}{
		{"nothing", func(*registry.Dir) error { return nil }, "rotated"},
		{"a login", operations["log in"], "newer"},
		{"a logout", operations["log out"], "none"},
		{"a removal", operations["remove"], "none"},
		{"a login that says the same", func(d *registry.Dir) error { return d.SaveCredentials(context.Background(), key, credentials()) }, ""},
	} {
		t.Run(meanwhile.name, func(t *testing.T) {
			t.Parallel()
			// The last one is to sync the folder, when all is saved.
			const steps = 6
			for step := 1; step <= steps; step++ {
				d, path := newDir(t)
				writer := childtest.Start(t, "operate", path, "rotate", "stop", fmt.Sprint(step))
				writer.Stopped()
				before := tree(t, path)
				wantLockedOut(t, lockport.Login(path, key), func(ctx context.Context) error {
					return d.UpdateCredentials(ctx, key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
						t.Error("two updates at once")
						return c, nil
					})
				})
				wantTree(t, path, before)
				must(t, meanwhile.do(d))
				must(t, writer.Process.Signal(syscall.SIGCONT))
				said := writer.Done()
				got := stateOf(t, path).login
				want := meanwhile.want
				switch {
				case want == "" && step == steps: // it came after the save, and not before
					want = "old"
				case want == "":
					want = map[string]string{"changed: true": "old", "changed: false": "rotated"}[said]
				}
				wantSaid := "changed: true"
				if step == steps || got == "rotated" {
					wantSaid = "changed: false"
				}
				if got != want || said != wantSaid {
					t.Errorf("stopped before step %d: the login is %s, want %s; and the writer says %q", step, got, want, said)
				}
				must(t, registerIn(t, d, other("returns")))
				wantClean(t, path)
			}
		})
	}
}

// The same within one process, with whatever can come between the two files
// changing places and the newer one going back.
func TestDirPutsBackWhatIsNewer(t *testing.T) {
	t.Parallel()
	again := newer(credentials())
	again.RefreshToken = registry.NewSecret("again")
	more := maps.Clone(operations)
	more["log in again"] = func(d *registry.Dir) error { return d.SaveCredentials(context.Background(), key, again) }
	more["log in as rotated"] = func(d *registry.Dir) error {
		return d.SaveCredentials(context.Background(), key, rotated(credentials()))
	}
	more["sweep"] = func(d *registry.Dir) error {
		return d.DeleteCredentials(context.Background(), keyOf(t, other("orders")))
	}
	more[""] = func(*registry.Dir) error { return nil }
	for name, test := range map[string]struct {
		before, meanwhile string
		want              string
	}{
		"nothing":                          {"", "", "rotated"},
		"a login":                          {"log in", "", "newer"},
		"a logout":                         {"log out", "", "none"},
		"a removal":                        {"remove", "", "none"},
		"a login, and another one":         {"log in", "log in again", "again"},
		"a login, and a logout":            {"log in", "log out", "none"},
		"a login, and a removal":           {"log in", "remove", "none"},
		"a login, and a sweep":             {"log in", "sweep", "newer"},
		"a login that equals the rotation": {"log in as rotated", "", "rotated"},
	} {
		for _, exchange := range []error{nil, errors.ErrUnsupported} {
			t.Run(fmt.Sprint(name, ", exchange ", exchange), func(t *testing.T) {
				t.Parallel()
				d, path := newDir(t)
				must(t, operations["register"](d))
				others := openDir(t, path)
				seen := map[string]bool{}
				d.SetStep(func(step string) error {
					first := !seen[step]
					seen[step] = true
					switch {
					case first && step == "exchange":
						return errors.Join(more[test.before](others), exchange)
					case first && step == "put back":
						return more[test.meanwhile](others)
					}
					return nil
				})
				err := operations["rotate"](d)
				if test.before == "" {
					must(t, err)
				} else if !errors.Is(err, registry.ErrChanged) {
					t.Errorf("UpdateCredentials: %v, want ErrChanged", err)
				}
				if put := seen["put back"]; put != (test.before != "" && exchange == nil && test.want != "none") && test.meanwhile == "" {
					t.Errorf("something was put back: %v", put)
				}
				switch {
				case test.want == "again" && exchange == nil:
					wantStored(t, path, again)
				case test.meanwhile != "" && exchange != nil:
					wantStored(t, path, newer(credentials()))
				default:
					if got := stateOf(t, path).login; got != test.want {
						t.Errorf("the login is %s, want %s", got, test.want)
					}
				}
				wantClean(t, path)
			})
		}
	}
}

// Where two files cannot change places, a login of this process at least cannot
// come between the two steps.
func TestDirSavesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	saved := make(chan error, 1)
	seen := map[string]bool{}
	d.SetStep(func(step string) error {
		first := !seen[step]
		seen[step] = true
		switch {
		case first && step == "exchange":
			return errors.ErrUnsupported
		case first && step == "rename":
			d.SetStep(nil)
			go func() { saved <- operations["log in"](d) }()
			// Time enough for a login that does not wait.
			select {
			case err := <-saved:
				saved <- err
			case <-time.After(200 * time.Millisecond):
			}
		}
		return nil
	})
	must(t, operations["rotate"](d))
	must(t, <-saved)
	wantStored(t, path, newer(credentials()))
}

// A lock that another process holds is waited for, and free when that ends,
// however it does.
func TestDirWhileAnotherProcessHolds(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	holder := childtest.Start(t, "hold", path)
	holder.Says("holding")
	wantLockedOut(t, lockport.Login(path, key), func(ctx context.Context) error {
		return d.UpdateCredentials(ctx, key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			t.Error("two updates at once")
			return c, nil
		})
	})

	// Reads, and everything else, wait for nobody.
	wantStored(t, path, credentials())
	must(t, registerIn(t, d, other("orders")))

	entered := make(chan error, 1)
	go func() { entered <- operations["rotate"](d) }()
	must(t, holder.Process.Kill())
	_, _ = holder.End()
	if err := <-entered; err != nil {
		t.Errorf("UpdateCredentials after the holder has died: %v", err)
	}
	wantStored(t, path, rotated(credentials()))
	must(t, operations["register"](d))
	wantClean(t, path)
}

// Somebody who does not keep to the lock loses nothing to a change either.
func TestDirChangesWhatIsThereNow(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	others := openDir(t, path)
	others.SetListen(new(locktest.Ports).Listen) // locks that exclude nobody
	n := 0
	d.SetStep(func(step string) error {
		if step != "sync" || n > 0 {
			return nil
		}
		n++
		return registerIn(t, others, other("returns"))
	})
	must(t, registerIn(t, d, other("orders")))
	list, err := d.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Errorf("List gives %d connections and %v, want all three", len(list), err)
	}
	wantClean(t, path)

	d.SetStep(func(step string) error {
		if step != "sync" {
			return nil
		}
		n++
		return registerIn(t, others, other(fmt.Sprint("workspace-", n)))
	})
	wantSafe(t, operations["set current"](d), nil, bookPath(path), "without the lock")
	wantClean(t, path)
}

// What was so before the lock was had need not be so any more.
func TestDirLooksAgainUnderItsLock(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	login, err := os.ReadFile(loginPath(path, key))
	must(t, err)
	machine := new(locktest.Ports)
	d.SetListen(func(port int) (io.Closer, error) {
		must(t, operations["remove"](openDir(t, path)))
		must(t, os.WriteFile(loginPath(path, key), login, 0o600)) // somebody's, of old
		return machine.Listen(port)
	})
	err = d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		t.Error("the refresh token of a connection that was removed is used")
		return c, nil
	})
	if !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("UpdateCredentials: %v, want ErrNotFound", err)
	}
}

// Somebody else may make the folder of the logins in the same moment.
func TestDirWhoseFolderIsMadeByAnother(t *testing.T) {
	t.Parallel()
	path := tempPath(t)
	d := openDir(t, path)
	must(t, registerIn(t, d, shop()))
	made := false
	d.SetStep(func(step string) error {
		if step != "make folder" || made {
			return nil
		}
		made = true
		return os.Mkdir(filepath.Join(path, lockport.Logins), 0o700)
	})
	must(t, d.SaveCredentials(t.Context(), key, credentials()))
	if wantStored(t, path, credentials()); !made {
		t.Error("no folder was made")
	}
}

// There are file systems whose folders cannot be synced, and need not be.
func TestDirWhoseFoldersAreNotSynced(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	for _, fault := range []error{syscall.EINVAL, errors.ErrUnsupported} {
		n := 0
		d.SetStep(func(step string) error {
			if step != "sync folder" {
				return nil
			}
			n++
			return fault
		})
		must(t, d.SaveCredentials(t.Context(), key, newer(credentials())))
		if wantStored(t, path, newer(credentials())); n == 0 {
			t.Error("no folder was synced")
		}
	}
}

// What is remembered of logins is bounded, whatever came and went.
func TestDirRemembersNoMoreLoginsThanThereCanBe(t *testing.T) {
	t.Parallel()
	d := openDir(t, tempPath(t))
	for n := range 2*registry.MaxConnections + 1 {
		d.CountLogin(fmt.Sprintf("conn_%032x", n))
	}
	if n := d.RememberedLogins(); n > registry.MaxConnections {
		t.Errorf("%d logins", n)
	}
}

// A folder that is exchanged in the middle of an update is not the one that the
// update was of.
func TestDirExchangedDuringAnUpdate(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"", "agent-connections"} {
		d, path := newDir(t)
		second, secondPath := newDir(t)
		must(t, second.SaveCredentials(t.Context(), key, newer(credentials())))
		err := d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			swap(t, filepath.Join(path, at), filepath.Join(secondPath, at))
			return rotated(c), nil
		})
		if !errors.Is(err, registry.ErrChanged) {
			t.Errorf("UpdateCredentials: %v, want ErrChanged", err)
		}
		wantStored(t, path, newer(credentials()))
		wantStored(t, secondPath, credentials())
		wantClean(t, path)
		wantClean(t, secondPath)
	}
}

// The same for a change of the registry: it is made in the folder that is there.
func TestDirExchangedDuringAChange(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	second, secondPath := newDir(t)
	must(t, registerIn(t, second, other("returns")))
	before := tree(t, path)
	d.SetStep(atStep("sync", func(string) error {
		swap(t, path, secondPath)
		return nil
	}))
	must(t, registerIn(t, d, other("orders")))
	if list, err := d.List(t.Context()); err != nil || len(list) != 3 {
		t.Errorf("List gives %d connections and %v, want the three of the other folder", len(list), err)
	}
	wantTree(t, secondPath, before)
	wantClean(t, path)
}

// Connections that became unreadable cost no session its rotation.
func TestDirSavesWithoutItsConnections(t *testing.T) {
	t.Parallel()
	for how, spoil := range map[string]func(path string) error{
		"damaged connections":       func(path string) error { return os.Truncate(bookPath(path), 10) },
		"a folder for everybody":    func(path string) error { return os.Chmod(path, 0o755) },
		"connections for everybody": func(path string) error { return os.Chmod(bookPath(path), 0o644) },
	} {
		d, path := newDir(t)
		err := d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			return rotated(c), spoil(path)
		})
		if err != nil {
			t.Errorf("UpdateCredentials with %s: %v", how, err)
		}
		want, err := registry.EncodeCredentials(rotated(credentials()))
		must(t, err)
		if stored, err := os.ReadFile(loginPath(path, key)); err != nil || string(stored) != string(want) {
			t.Errorf("with %s the rotation is not stored (%v)", how, err)
		}
	}
}

// A login that became unreadable during an update is left as it is.
func TestDirDamagedDuringAnUpdate(t *testing.T) {
	t.Parallel()
	for how, spoil := range spoil(t) {
		d, path := newDir(t)
		var before map[string]string
		err := d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			if err := spoil(loginPath(path, key)); err != nil {
				t.Errorf("%s: %v", how, err)
			}
			before = tree(t, path)
			return rotated(c), nil
		})
		wantSafe(t, err, registry.ErrDamaged, loginPath(path, key))
		for _, name := range leftovers(t, path) {
			t.Errorf("%s: %s is left", how, name)
		}
		for name := range before {
			if filepath.Base(name)[0] == '.' && name != "." {
				delete(before, name)
			}
		}
		wantTree(t, path, before)
		_ = os.Chmod(loginPath(path, key), 0o700)
	}
}
