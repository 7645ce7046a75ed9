//go:build linux

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/namedlock"
	"github.com/bailinghub/bailinghub-go/internal/namedlock/locktest"
	"github.com/bailinghub/bailinghub-go/registry"
)

// A foreign program that has the port is waited for, for as long as for
// anybody, and then named as what it may be. Nothing is refreshed and nothing
// is written.
func TestDirWhenAForeignProgramHasThePort(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		lock func(path string) string
		use  string
	}{
		{lockport.Registry, "register"}, {lockport.Registry, "set current"}, {lockport.Registry, "log in"}, {lockport.Registry, "log out"}, {lockport.Registry, "remove"},
		{func(path string) string { return lockport.Login(path, key) }, "rotate"},
	} {
		t.Run(test.use, func(t *testing.T) {
			t.Parallel()
			_, path := newDir(t)
			before := tree(t, path)
			synctest.Test(t, func(t *testing.T) {
				lock := test.lock(path)
				machine := locktest.Ports{Taken: map[int]bool{namedlock.Port(lock): true}}
				d := openDir(t, path)
				d.SetListen(machine.Listen)
				start := time.Now()
				err := operations[test.use](d)
				if took := time.Since(start); took != 20*time.Second {
					t.Errorf("it gave up after %v, want 20s", took)
				}
				wantSafe(t, err, nil, "the lock "+lock, fmt.Sprintf("port %d of 127.0.0.1", namedlock.Port(lock)), "another program")
				free := "rotate" // which has another lock
				if test.use == free {
					free = "register"
				}
				must(t, operations[free](d))
			})
			if test.use == "rotate" {
				wantStored(t, path, credentials())
			} else if after := tree(t, path); after["agent-connections.json"] != before["agent-connections.json"] {
				t.Error("the connections have changed")
			}
			wantClean(t, path)
		})
	}
	// The same with a real port.
	d, path := newDir(t)
	foreign, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", namedlock.Port(lockport.Registry(path))))
	must(t, err)
	defer foreign.Close()
	wantLockedOut(t, lockport.Registry(path), func(ctx context.Context) error { return d.SetCurrent(ctx, key) })
}

// A host that gives up before the folder does can say what it waited for, in
// the words of the folder's own error.
func TestDirNamesTheLockOfAnUpdate(t *testing.T) {
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
	lock := lockport.Login(path, key)
	if want := fmt.Sprintf("the lock %s, port %d of 127.0.0.1", lock, namedlock.Port(lock)); d.UpdateLock(key) != want {
		t.Errorf("UpdateLock gives %q, want %q", d.UpdateLock(key), want)
	}
}

// Where there is nothing to update, nobody waits for the lock.
func TestDirDoesNotWaitForNothing(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	must(t, registerIn(t, d, other("orders")))
	machine := locktest.Ports{Fault: errors.New("this must not be tried")}
	d.SetListen(machine.Listen)
	update := func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		t.Error("the update was called")
		return c, nil
	}
	for key, want := range map[string]error{
		keyOf(t, other("orders")):  registry.ErrNotLoggedIn,
		keyOf(t, other("returns")): registry.ErrNotFound,
	} {
		if err := d.UpdateCredentials(t.Context(), key, update); !errors.Is(err, want) {
			t.Errorf("UpdateCredentials: %v, want %v", err, want)
		}
	}
	must(t, os.Chmod(loginPath(path, key), 0o644))
	wantSafe(t, d.UpdateCredentials(t.Context(), key, update), registry.ErrDamaged, loginPath(path, key))
	if machine.Tries() != 0 {
		t.Error("the lock was tried")
	}
}

// collidingPath gives a path whose lock of the registry and whose lock of
// shop's login have one port.
func collidingPath(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	for i := 0; ; i++ {
		path := filepath.Join(base, strconv.Itoa(i))
		if namedlock.Port(lockport.Registry(path)) < 32768 && namedlock.Port(lockport.Registry(path)) == namedlock.Port(lockport.Login(path, key)) {
			return path
		}
	}
}

// What is legal inside an update is so when both locks have one port.
func TestDirWhoseLocksHaveOnePort(t *testing.T) {
	t.Parallel()
	for name, operation := range operations {
		if name == "rotate" {
			continue // the one thing that is not legal
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := shopIn(collidingPath(t))
			must(t, err)
			err = promptly(t, func() error {
				return d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					return rotated(c), operation(d)
				})
			})
			if err != nil && strings.Contains(err.Error(), "lock") {
				t.Errorf("UpdateCredentials: %v", err)
			}
		})
	}

	// Another process waits, and goes on when the port is free.
	path := collidingPath(t)
	d, err := shopIn(path)
	must(t, err)
	holder := childtest.Start(t, "hold", path)
	holder.Says("holding")
	wantLockedOut(t, lockport.Registry(path), func(ctx context.Context) error {
		_, err := d.Register(ctx, other("orders"))
		return err
	})
	registered := make(chan error, 1)
	go func() { registered <- operations["register"](d) }()
	holder.GoOn()
	holder.Done()
	if err := promptly(t, func() error { return <-registered }); err != nil {
		t.Errorf("Register after the update of another process: %v", err)
	}
	wantStored(t, path, rotated(credentials()))
}

// Many processes that count one number up lose nothing, and whoever reads
// meanwhile reads what is whole.
func TestDirBetweenProcesses(t *testing.T) {
	t.Parallel()
	const processes = 3
	d, path := newDir(t)
	zero := credentials()
	zero.AccessToken = registry.NewSecret("0")
	must(t, d.SaveCredentials(t.Context(), key, zero))
	var counting []*childtest.Child
	for i := range processes {
		counting = append(counting, childtest.Start(t, "count", path, fmt.Sprint("process-", i)))
	}
	for _, c := range counting {
		c.Says("ready")
	}
	for _, c := range counting {
		c.GoOn()
	}
	for _, c := range counting {
		c.Done()
	}
	login, err := d.Credentials(t.Context(), key)
	must(t, err)
	if got, want := login.AccessToken.Reveal(), fmt.Sprint(processes*countThreads*countTimes); got != want {
		t.Errorf("%d processes have counted to %s, want %s", processes, got, want)
	}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1+processes {
		t.Errorf("List gives %d connections and %v, want %d", len(list), err, 1+processes)
	}
	wantClean(t, path)
}

const countThreads, countTimes = 4, 10

// childThatCounts PATH WORKSPACE counts the access token of shop up, and
// registers something and removes it again meanwhile.
func childThatCounts(args []string) error {
	d, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	if err := childtest.Proceed("ready"); err != nil {
		return err
	}
	ctx := context.Background()
	var group sync.WaitGroup
	faults := make(chan error, countThreads+2)
	for range countThreads {
		group.Go(func() {
			for range countTimes {
				err := d.UpdateCredentials(ctx, key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					n, err := strconv.Atoi(c.AccessToken.Reveal())
					c.AccessToken = registry.NewSecret(strconv.Itoa(n + 1))
					return c, err
				})
				if err != nil {
					faults <- fmt.Errorf("counting: %w", err)
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := d.Connection(ctx, key); err != nil {
				faults <- fmt.Errorf("reading the connection: %w", err)
				return
			}
			if _, err := d.Credentials(ctx, key); err != nil {
				faults <- fmt.Errorf("reading the login: %w", err)
				return
			}
		}
	})
	group.Go(func() {
		for range 5 {
			own := other(args[1])
			c, err := d.Register(ctx, own)
			if err == nil {
				err = d.Remove(ctx, c.Key)
			}
			if err == nil {
				_, err = d.Register(ctx, own)
			}
			if err != nil {
				faults <- fmt.Errorf("registering: %w", err)
				return
			}
		}
	})
	group.Wait()
	close(stop)
	reading.Wait()
	close(faults)
	return <-faults
}

// What keeps its logins elsewhere is refused with a sentence.
func TestDirWithASealedVault(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	d.Seal()
	before := tree(t, path)
	_, err := d.Credentials(t.Context(), key)
	for _, err := range []error{err, operations["log in"](d), operations["log out"](d), operations["rotate"](d), operations["remove"](d)} {
		wantSafe(t, err, nil, "Keychain", "macOS")
	}
	wantTree(t, path, before)
	if list, err := d.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
	if _, err := os.Lstat(loginPath(path, key)); err != nil {
		t.Error(err)
	}
}
