package registrytest_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

func TestMain(m *testing.M) {
	registrytest.Child(openOnDisk)
	goleak.VerifyTestMain(m)
}

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
	logoutRegisters:         "does not know other keys",
	registerLogsOut:         "gives what was saved",
	servesAnyHub:            "gives no credentials of another connection",
	servesAnyClient:         "gives no credentials of another connection",
	servesAnyWorkspace:      "gives no credentials of another connection",
	foreignIsNotLoggedIn:    "gives no credentials of another connection",
	foreignUpdates:          "gives no credentials of another connection",
	answersBesideError:      "does not know other keys",
	connectionBesideError:   "does not know other keys",
	answersBesideContext:    "gives nothing beside an error",
	connectionBesideContext: "gives nothing beside an error",
	comparesThenWrites:      "compares and writes in one step",
	waitersHoldConnections:  "is not used up by those who wait",
	waitersHoldEverybody:    "is not used up by those who wait",
	readsOldLogin:           "saves a rotation",
	readsOldConnection:      "gives what was saved",
	readsBothToServeAny:     "gives no credentials of another connection",
	readsBothBesideErr:      "knows who is not logged in",
	readsBothBesideCtx:      "gives nothing beside an error",
	readsBothWait:           "holds nobody up during a slow update",
}

// caughtElsewhere are checks whose faults need more than one process.
var caughtElsewhere = map[string]string{
	"excludes updates in other processes": "TestSuiteCatchesAcrossProcesses",
}

// citation is how a failure ends.
var citation = regexp.MustCompile(`.\[registry\.Store: (Reads|Errors|Exclusion|At most once|Saving|Failing)\]$`)

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
			for _, failure := range failures {
				if !citation.MatchString(failure) && !strings.HasPrefix(failure, "Fixture.") {
					t.Errorf("a failure does not say where the contract has it: %s", failure)
				}
			}
			t.Log(strings.Join(failures, "\n"))
		})
	}
}

func TestSuitePasses(t *testing.T) {
	t.Parallel()
	for _, name := range registrytest.Names() {
		for _, f := range []fault{none, noneOfReader} {
			if failures := run(t, name, f); len(failures) > 0 {
				t.Errorf("a store without a fault fails %q: %s", name, strings.Join(failures, "\n"))
			}
		}
	}
}

// Every check earns its place by a fault that it catches.
func TestEveryCheckCatches(t *testing.T) {
	t.Parallel()
	for _, name := range registrytest.Names() {
		_, found := caughtElsewhere[name]
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
	for field, take := range map[string]func(*registrytest.Fixture){
		"Store":    func(f *registrytest.Fixture) { f.Store = nil },
		"Register": func(f *registrytest.Fixture) { f.Register = nil },
		"Login":    func(f *registrytest.Fixture) { f.Login = nil },
		"Logout":   func(f *registrytest.Fixture) { f.Logout = nil },
		"Remove":   func(f *registrytest.Fixture) { f.Remove = nil },
	} {
		lacking := whole
		take(&lacking)
		failures := record(t, func(tb testing.TB) {
			registrytest.Run(tb, "gives what was saved", func(testing.TB) registrytest.Fixture { return lacking })
		})
		if diff := cmp.Diff([]string{"registrytest: Fixture." + field + " is nil"}, failures); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", field, diff)
		}
	}
}

func TestOpenMustNotBeNil(t *testing.T) {
	t.Parallel()
	failures := record(t, func(tb testing.TB) { registrytest.Run(tb, "gives what was saved", nil) })
	if diff := cmp.Diff([]string{"registrytest: open is nil"}, failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpenMustGiveAnEmptyStore(t *testing.T) {
	t.Parallel()
	first, second := newFaulty(none)
	open := func(testing.TB) registrytest.Fixture { return registrytest.Of(first, second) }
	for i, name := range registrytest.Names() {
		failures := record(t, func(tb testing.TB) { registrytest.Run(tb, name, open) })
		switch {
		case i == 0 && len(failures) > 0:
			t.Errorf("the store was empty: %q", failures)
		case i > 0 && (len(failures) != 1 || !strings.HasPrefix(failures[0], "registrytest: open must give an empty store each time")):
			t.Errorf("%s: %q", name, failures)
		}
	}
}

// Without Plant one check is not made, whatever the store does.
func TestWithoutPlant(t *testing.T) {
	t.Parallel()
	if failures := record(t, func(tb testing.TB) {
		registrytest.Run(tb, "gives no credentials of another connection", func(testing.TB) registrytest.Fixture {
			return registrytest.Of(newFaulty(servesAnyHub))
		})
	}); len(failures) > 0 {
		t.Errorf("%q", failures)
	}
}

// What the person reads who has written the store.
func TestFailuresAreClear(t *testing.T) {
	t.Parallel()
	for f, want := range map[fault][]string{
		excludesInProcessOnly: {
			"update ran through Other while one was running through Store: the exclusion does not reach across handles [registry.Store: Exclusion]",
		},
		excludesNobody: {
			"update ran through Store while one of the same key was running through it: there is no exclusion [registry.Store: Exclusion]",
			"update ran through Other while one was running through Store: the exclusion does not reach across handles [registry.Store: Exclusion]",
		},
		cachesLogins: {
			"after a rotation through Other: Credentials of inventory through Store and Other gives another access token, refresh token, access expiry, refresh expiry than should be stored [registry.Store: Saving]",
		},
		registerLogsOut: {
			"after registering again what is registered: Credentials of inventory through Store and Other: registry.ErrNotLoggedIn; want its login [registry.Store: Reads]",
		},
		logoutRegisters: {
			"after Fixture.Logout of a key that is not registered: Connection through Store and Other: no error; want registry.ErrNotFound [registry.Store: Errors]",
			"after Fixture.Logout of a key that is not registered: Credentials through Store and Other: registry.ErrNotLoggedIn; want registry.ErrNotFound [registry.Store: Errors]",
		},
		foreignIsNotLoggedIn: {
			"with a connection whose row has credentials of another Hub: Credentials through Store and Other: registry.ErrNotLoggedIn; want registry.ErrDamaged [registry.Store: Reads]",
			"UpdateCredentials of a connection whose row has credentials of another Hub through Store: registry.ErrNotLoggedIn; want registry.ErrDamaged [registry.Store: Reads]",
		},
		flattensError: {
			`UpdateCredentials through Store when update fails: "refreshing: the Hub refused the refresh token"; want update's own error, "the Hub refused the refresh token" [registry.Store: Failing]`,
		},
		ignoresContext: {
			"UpdateCredentials through Store whose context ended while it waited did not return within 10s [registry.Store: Exclusion]",
		},
		losesRegistrationTime: {
			"after a login: Connection of inventory through Store and Other gives CreatedAt 0001-01-01 00:00:00 +0000 UTC; want 2000-01-01 00:00:00 +0000 UTC [registry.Store: Reads]",
		},
		loginWaits: {
			"Fixture.Login inside update, through Store, did not return within 10s: it waits for the update [registry.Store: At most once]",
		},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			failures := run(t, caught[f], f)
			if diff := cmp.Diff(want, failures[:min(len(failures), len(want))]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Other is on another store: the address of a database was mistyped.
func TestOtherMustBeTheSameStore(t *testing.T) {
	t.Parallel()
	store, _ := newFaulty(none)
	other, _ := newFaulty(none)
	failures := record(t, func(tb testing.TB) {
		registrytest.Run(tb, "gives what was saved", func(testing.TB) registrytest.Fixture { return registrytest.Of(store, other) })
	})
	if diff := cmp.Diff([]string{
		"after a login: Connection of inventory through Other: registry.ErrNotFound; want the connection [registry.Store: Reads]",
		"after a login: Credentials of inventory through Other: registry.ErrNotFound; want its login [registry.Store: Reads]",
	}, failures[:min(len(failures), 2)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The paragraphs that failures name are those of the contract.
func TestTheContractHasTheParagraphs(t *testing.T) {
	t.Parallel()
	contract, err := os.ReadFile("../store.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range registrytest.Paragraphs() {
		if !strings.Contains(string(contract), "\n//\n// "+name+". ") {
			t.Errorf("registry.Store has no paragraph %q", name)
		}
	}
}

// run runs a check on a store with a fault, in a bubble, where waiting for a
// store that hangs takes no time, and gives what it complains about.
func run(t *testing.T, name string, f fault) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		failures = record(t, func(tb testing.TB) {
			registrytest.Run(tb, name, func(testing.TB) registrytest.Fixture {
				first, second, plant := handles(f)
				fixture := registrytest.Of(first, second)
				fixture.Plant = plant
				return fixture
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
