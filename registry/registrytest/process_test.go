package registrytest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

// diskStore is a store whose logins are files, for processes to share. Its
// connections are the three of the suite, which every process knows.
type diskStore struct {
	*registry.Memory
	path string
	// lock excludes others from an update of a key.
	lock func(ctx context.Context, path string) (unlock func(), err error)
}

// The ways of a diskStore to exclude others.
const (
	byFile    = "by a file"               // which is right
	inProcess = "within the process only" // which is not
)

// openOnDisk opens a diskStore by a name that says how it excludes, and where it
// is. It is what other processes of the suite do.
func openOnDisk(name string) (registry.Store, error) {
	how, path, ok := strings.Cut(name, ":")
	if !ok {
		return nil, errors.New("there is no store of this name")
	}
	return newDiskStore(how, path), nil
}

// processLocks are those of a diskStore that excludes within the process only.
var processLocks sync.Map

func newDiskStore(how, path string) *diskStore {
	s := &diskStore{Memory: registry.NewMemory(), path: path, lock: lockFile}
	if how == inProcess {
		s.lock = func(ctx context.Context, path string) (func(), error) {
			lock, _ := processLocks.LoadOrStore(path, make(mutex, 1))
			return lock.(mutex).unlock, lock.(mutex).lock(ctx)
		}
	}
	return s
}

// lockFile makes a file that must not be there yet.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = file.Close()
			return func() { _ = os.Remove(path + ".lock") }, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (s *diskStore) file(key string) string { return filepath.Join(s.path, key) }

func (s *diskStore) Credentials(_ context.Context, key string) (registry.Credentials, error) {
	data, err := os.ReadFile(s.file(key))
	if errors.Is(err, os.ErrNotExist) {
		return registry.Credentials{}, registry.ErrNotLoggedIn
	}
	if err != nil {
		return registry.Credentials{}, err
	}
	return registry.DecodeCredentials(data)
}

func (s *diskStore) ConnectionCredentials(ctx context.Context, key string) (registry.Connection, registry.Credentials, error) {
	connection, err := s.Connection(ctx, key)
	if err != nil {
		return registry.Connection{}, registry.Credentials{}, err
	}
	credentials, err := s.Credentials(ctx, key)
	if err != nil {
		return registry.Connection{}, registry.Credentials{}, err
	}
	return connection, credentials, nil
}

func (s *diskStore) SaveCredentials(_ context.Context, key string, credentials registry.Credentials) error {
	data, err := registry.EncodeCredentials(credentials)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(s.path, "")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	return errors.Join(err, temporary.Close(), os.Rename(temporary.Name(), s.file(key)))
}

func (s *diskStore) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	unlock, err := s.lock(ctx, s.file(key))
	if err != nil {
		return err
	}
	defer unlock()
	before, err := s.Credentials(ctx, key)
	if err != nil {
		return err
	}
	after, err := update(ctx, before)
	if err != nil || after.Equal(before) {
		return err
	}
	return s.SaveCredentials(ctx, key, after)
}

const acrossProcesses = "excludes updates in other processes"

// runAcross runs the check of several processes on a diskStore and gives what it
// complains about.
func runAcross(t *testing.T, how string) []string {
	t.Helper()
	path := t.TempDir()
	first := newDiskStore(how, path)
	second := &diskStore{first.Memory, path, first.lock}
	return record(t, func(tb testing.TB) {
		registrytest.Run(tb, acrossProcesses, func(testing.TB) registrytest.Fixture {
			fixture := registrytest.Of(first, second)
			fixture.Address = how + ":" + path
			return fixture
		})
	})
}

// A lock that holds within one process passes for one with two handles in that
// process. Only another process shows it.
func TestSuiteCatchesAcrossProcesses(t *testing.T) {
	t.Parallel()
	if failures := runAcross(t, byFile); len(failures) > 0 {
		t.Errorf("a store without a fault fails: %s", strings.Join(failures, "\n"))
	}
	failures := runAcross(t, inProcess)
	for _, want := range []string{
		"update ran in another process while one was running through Store: the exclusion does not reach across processes [registry.Store: Exclusion]",
		"update ran through Store while one was running in another process: the exclusion does not reach across processes [registry.Store: Exclusion]",
	} {
		if !slices.Contains(failures, want) {
			t.Errorf("a store that excludes within its process only: %q, want also %q", failures, want)
		}
	}
	for _, failure := range failures {
		if !citation.MatchString(failure) {
			t.Errorf("a failure does not say where the contract has it: %s", failure)
		}
	}
	path := t.TempDir()
	first := newDiskStore(inProcess, path)
	second := &diskStore{first.Memory, path, first.lock}
	for _, name := range []string{"excludes other updates of the key", "loses no rotation of many"} {
		failures := record(t, func(tb testing.TB) {
			registrytest.Run(tb, name, func(testing.TB) registrytest.Fixture { return registrytest.Of(first, second) })
		})
		if len(failures) > 0 {
			t.Errorf("%q catches it in one process: %q", name, failures)
		}
		first.Memory, path = registry.NewMemory(), t.TempDir()
		second.Memory, first.path, second.path = first.Memory, path, path
	}
}

// What goes wrong in another process is told.
func TestOtherProcessCannotOpenTheStore(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	store := newDiskStore(byFile, path)
	failures := record(t, func(tb testing.TB) {
		registrytest.Run(tb, acrossProcesses, func(testing.TB) registrytest.Fixture {
			fixture := registrytest.Of(store, nil)
			fixture.Address = "nowhere"
			return fixture
		})
	})
	if len(failures) == 0 || !strings.Contains(fmt.Sprint(failures), "opening the store: there is no store of this name") {
		t.Errorf("%q", failures)
	}
}
