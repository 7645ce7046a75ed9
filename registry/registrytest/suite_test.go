package registrytest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caught says which check has to fail for which fault. Others may fail too.
var caught = map[fault]string{
	updatesTwice:            "saves a rotation",
	updatesAgainWhenChanged: "lets a newer login win",
	updatesAgainOnError:     "returns the error of an update",
	neverUpdates:            "saves a rotation",
	losesRotation:           "saves a rotation",
	losesRefreshToken:       "saves a rotation",
	overwritesNewerLogin:    "lets a newer login win",
	comparesTokensOnly:      "lets a newer login win",
	comparesAllButSession:   "lets a newer login win",
	hidesChange:             "lets a newer login win",
	resurrects:              "lets a removal win",
	savesAnything:           "saves nothing that is not valid",
	savesEmptyToken:         "saves nothing that is not valid",
	savesForOtherHub:        "saves nothing that is not valid",
	loginSavesAnything:      "takes no login that is not valid",
	refusesUnchanged:        "saves nothing that is unchanged",
	savesUnchanged:          "saves nothing that is unchanged",
	locksWholeStore:         "holds nobody up during a slow update",
	readsWait:               "can be read inside an update",
	allReadsWait:            "holds nobody up during a slow update",
	loginWaits:              "lets a newer login win",
	registerWaits:           "holds nobody up during a slow update",
	ignoresContext:          "excludes other updates of the key",
	mistakesContext:         "excludes other updates of the key",
	beginsAfterContext:      "does not begin when the context has ended",
	losesAfterContext:       "saves although the context has ended",
	reportsContext:          "saves although the context has ended",
	swapsContext:            "saves a rotation",
	swallowsError:           "returns the error of an update",
	flattensError:           "returns the error of an update",
	savesAfterError:         "returns the error of an update",
	swallowsPanic:           "survives a panic in an update",
	keepsLockAfterPanic:     "survives Goexit in an update",
	savesAfterPanic:         "survives a panic in an update",
	excludesNobody:          "excludes other updates of the key",
	excludesInProcessOnly:   "excludes other updates of the key",
	readsBeforeLock:         "loses no rotation of many",
	cachesLogins:            "saves a rotation",
	mixesLogins:             "keeps connections apart",
	mixesConnections:        "keeps connections apart",
	losesRegistrationTime:   "gives what was saved",
	cutsTimes:               "gives what was saved",
	readsTimesAsLocal:       "gives what was saved",
	unknownIsNotLoggedIn:    "does not know other keys",
	unknownIsNil:            "does not know other keys",
	notLoggedInIsUnknown:    "knows who is not logged in",
	updatesWithoutLogin:     "knows who is not logged in",
	removalKeepsLogin:       "forgets what is removed",
	logoutRemoves:           "knows who is not logged in",
	answersBesideError:      "does not know other keys",
}

func TestSuiteCatches(t *testing.T) {
	t.Parallel()
	for f, name := range caught {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(registrytest.Names(), name) {
				t.Fatalf("there is no check %q", name)
			}
			failures := run(t, name, f)
			if len(failures) == 0 {
				t.Errorf("a store that %s passes %q", f, name)
			}
			t.Log(strings.Join(failures, "\n"))
		})
	}
}

func TestSuitePasses(t *testing.T) {
	t.Parallel()
	for _, name := range registrytest.Names() {
		if failures := run(t, name, none); len(failures) > 0 {
			t.Errorf("a store without a fault fails %q: %s", name, strings.Join(failures, "\n"))
		}
	}
}

// Every check earns its place by a fault that it catches.
func TestEveryCheckCatches(t *testing.T) {
	t.Parallel()
	for _, name := range registrytest.Names() {
		found := false
		for _, check := range caught {
			found = found || check == name
		}
		if !found {
			t.Errorf("no fault is listed as caught by %q", name)
		}
	}
}

func TestStoreOfOneHandle(t *testing.T) {
	t.Parallel()
	registrytest.TestStore(t, func(testing.TB) registrytest.Fixture {
		store, _ := newFaulty(none)
		return registrytest.Of(store, nil)
	})
}

func TestFixtureMustBeWhole(t *testing.T) {
	t.Parallel()
	store, _ := newFaulty(none)
	whole := registrytest.Of(store, nil)
	for _, take := range []func(*registrytest.Fixture){
		func(f *registrytest.Fixture) { f.Store = nil },
		func(f *registrytest.Fixture) { f.Register = nil },
		func(f *registrytest.Fixture) { f.Login = nil },
		func(f *registrytest.Fixture) { f.Logout = nil },
		func(f *registrytest.Fixture) { f.Remove = nil },
	} {
		lacking := whole
		take(&lacking)
		if failures := record(t, func(tb testing.TB) {
			registrytest.Run(tb, "gives what was saved", func(testing.TB) registrytest.Fixture { return lacking })
		}); len(failures) == 0 {
			t.Error("a fixture that lacks a field is accepted")
		}
	}
}

// run runs a check on a store with a fault, in a bubble, where waiting for a
// store that hangs takes no time, and gives what it complains about.
func run(t *testing.T, name string, f fault) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		failures = record(t, func(tb testing.TB) {
			registrytest.Run(tb, name, func(testing.TB) registrytest.Fixture {
				first, second := newFaulty(f)
				return registrytest.Of(first, second)
			})
		})
	})
	return failures
}

// record runs a test that may fail.
func record(t testing.TB, test func(testing.TB)) []string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, cleanup := range slices.Backward(r.cleanups) {
				cleanup()
			}
		}()
		test(r)
	}()
	<-done
	return r.failures
}

// recorder is a test whose failures are no failures of the test around it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprint(args...))
}

func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }
