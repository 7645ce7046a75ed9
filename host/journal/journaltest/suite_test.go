package journaltest_test

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/host/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caught says which check has to fail for which fault. Others may fail too.
var caught = map[fault]string{
	losesWords:            "gives what was added",
	mangleWords:           "gives what was added",
	foldsCalls:            "gives what was added",
	cutsTimes:             "gives what was added",
	losesSessionEnds:      "gives what was added",
	losesText:             "gives what was added",
	mixesEntries:          "keeps operations apart",
	unknownIsZero:         "does not know other ids",
	answersBesideError:    "changes nothing that is closed",
	recordsUnknown:        "does not know other ids",
	addsAnything:          "refuses bad arguments",
	keepsGivenState:       "refuses bad arguments",
	findsNothingForBadID:  "refuses bad arguments",
	addsCallTwice:         "takes a call once",
	ignoresSecondAdd:      "takes a call once",
	addsInvocationTwice:   "takes a call once",
	checksThenAdds:        "takes a call once of many at once",
	forgetsClosed:         "closes by evidence alone",
	forgetsClosedOnReopen: "remembers closed calls",
	closesUnanswered:      "closes by evidence alone",
	closesUnsettled:       "closes by evidence alone",
	neverCloses:           "closes by evidence alone",
	closesByError:         "closes by evidence alone",
	replacesEvidence:      "keeps evidence",
	keepsFirstReport:      "keeps evidence",
	ignoresUnanswered:     "keeps evidence",
	recordsAnothers:       "refuses the report of another",
	changesClosed:         "changes nothing that is closed",
	givesUpClosed:         "changes nothing that is closed",
	sendsClosed:           "changes nothing that is closed",
	withdrawsClosed:       "changes nothing that is closed",
	closedIsNil:           "changes nothing that is closed",
	sendsTwice:            "begins a sending once",
	checksThenSends:       "begins a sending once",
	withdrawsSent:         "withdraws only what was not sent",
	withdrawalStays:       "withdraws only what was not sent",
	withdrawalBlocks:      "withdraws only what was not sent",
	givesUpWithoutNote:    "gives up by a decision",
	losesNote:             "gives up by a decision",
	opensInAnyOrder:       "gives what is open in its order",
	opensClosed:           "gives what is open in its order",
	opensSnapshot:         "can be used while it gives what is open",
	ignoresContext:        "does nothing when the context has ended",
	mistakesContext:       "does nothing when the context has ended",
	notDurable:            "outlasts the end of the process",
	sendingNotDurable:     "outlasts the end of the process",
	withdrawalNotDurable:  "outlasts the end of the process",
	losesConcurrent:       "loses nothing of many at once",
	cachesReads:           "gives what was added",
	recordGivesOld:        "gives what was added",
}

// citation is how a failure ends.
var citation = regexp.MustCompile(`.\[journal\.Journal: (Durable|Unique|Whole|Closed|Open|Errors)\]$`)

func TestSuiteCatches(t *testing.T) {
	t.Parallel()
	for f, name := range caught {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(journaltest.Names(), name) {
				t.Fatalf("there is no check %q", name)
			}
			failures := run(name, f)
			if len(failures) == 0 {
				t.Errorf("a journal that %s passes %q", f, name)
			}
			for _, failure := range failures {
				if !citation.MatchString(failure) {
					t.Errorf("a failure does not say where the contract has it: %s", failure)
				}
			}
		})
	}
}

// A journal without a fault passes; so every failure above is that of its
// fault.
func TestSuitePasses(t *testing.T) {
	t.Parallel()
	journaltest.TestJournal(t, func(testing.TB) journaltest.Fixture { return fixture(none) })
}

// Every check catches something.
func TestEveryCheckCatches(t *testing.T) {
	t.Parallel()
	for _, name := range journaltest.Names() {
		found := false
		for _, by := range caught {
			found = found || by == name
		}
		if !found {
			t.Errorf("no wrong journal is kept for %q", name)
		}
	}
}

func fixture(f fault) journaltest.Fixture {
	shared := &state{fault: f}
	one := &faulty{state: shared, cache: map[string]journal.Entry{}}
	other := &faulty{state: shared, cache: map[string]journal.Entry{}}
	return journaltest.Fixture{Journal: one, Other: other, Reopen: func() (journal.Journal, error) { return one.reopen(), nil }}
}

// recorder keeps the failures of a check.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprint(args...))
}

// ended ends a check within its own goroutine.
type ended struct{}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	panic(ended{})
}

// run gives the failures of a check on a faulty journal.
func run(name string, f fault) []string {
	r := &recorder{}
	func() {
		defer func() {
			if p := recover(); p != nil && p != (ended{}) {
				panic(p)
			}
		}()
		journaltest.Run(r, name, func(testing.TB) journaltest.Fixture { return fixture(f) })
	}()
	return r.failures
}
