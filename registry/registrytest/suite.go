package registrytest

import (
	"sync"
	"testing"
	"time"
)

// Limit is how long a call may take that has nothing to wait for.
const Limit = 10 * time.Second

// patience is how long a call is left waiting that has to wait until its
// context ends. A store that waits correctly passes whatever it is.
const patience = 100 * time.Millisecond

// TestStore runs the suite, each check as a parallel subtest on a store of its
// own. Open is called once for each; what it has to clean up it gives to
// t.Cleanup.
func TestStore(t *testing.T, open func(t testing.TB) Fixture) {
	t.Helper()
	mustOpen(t, open)
	var setting sync.Mutex
	for _, check := range checks {
		t.Run(check.name, func(t *testing.T) {
			t.Parallel()
			check.run(newScene(t, open, &setting))
		})
	}
}

func mustOpen(tb testing.TB, open func(testing.TB) Fixture) {
	tb.Helper()
	if open == nil {
		tb.Fatal("registrytest: open is nil")
	}
}

// checks are the suite; the name of each says what a store does that passes.
var checks = []struct {
	name string
	run  func(*scene)
}{
	{"gives what was saved", givesWhatWasSaved},
	{"keeps connections apart", keepsConnectionsApart},
	{"does not know other keys", doesNotKnowOtherKeys},
	{"knows who is not logged in", knowsWhoIsNotLoggedIn},
	{"gives no credentials of another connection", givesNoneOfAnotherConnection},
	{"forgets what is removed", forgetsWhatIsRemoved},
	{"saves a rotation", savesARotation},
	{"saves nothing that is unchanged", savesNothingUnchanged},
	{"saves nothing that is not valid", savesNothingInvalid},
	{"takes no login that is not valid", takesNoInvalidLogin},
	{"returns the error of an update", returnsTheErrorOfAnUpdate},
	{"survives a panic in an update", survivesAPanic},
	{"survives Goexit in an update", survivesGoexit},
	{"lets a newer login win", letsANewerLoginWin},
	{"lets a removal win", letsARemovalWin},
	{"saves although the context has ended", savesAlthoughTheContextHasEnded},
	{"does not begin when the context has ended", doesNotBeginWhenTheContextHasEnded},
	{"can be read inside an update", canBeReadInsideAnUpdate},
	{"holds nobody up during a slow update", holdsNobodyUp},
	{"excludes other updates of the key", excludesOtherUpdates},
	{"loses no rotation of many", losesNoRotation},
	{"excludes updates in other processes", excludesOtherProcesses},
	{"compares and writes in one step", comparesAndWritesInOneStep},
	{"is not used up by those who wait", isNotUsedUp},
	{"gives nothing beside an error", givesNothingBesideAnError},
}
