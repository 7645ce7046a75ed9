package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host/journal"
)

// Limit is the deadline of the context that a check uses.
const Limit = 30 * time.Second

// Fixture is an empty journal, with everything that the suite needs to check it.
type Fixture struct {
	// Journal is the journal.
	Journal journal.Journal
	// Other is a second handle on the same journal, as another process has it.
	// Leave it nil only where one process at a time has the journal.
	Other journal.Journal
	// Reopen opens the journal as a process does that starts after the end of
	// this one. Journal and Other are not used after that.
	Reopen func() (journal.Journal, error)
}

// TestJournal runs the suite, each check as a parallel subtest on a journal of
// its own. Open is called once for each; what it has to clean up it gives to
// t.Cleanup.
func TestJournal(t *testing.T, open func(t testing.TB) Fixture) {
	t.Helper()
	if open == nil {
		t.Fatal("journaltest: open is nil")
	}
	for _, check := range checks {
		t.Run(check.name, func(t *testing.T) {
			t.Parallel()
			runCheck(t, check.run, open)
		})
	}
}

// checks are the suite; the name of each says what a journal does that passes.
var checks = []struct {
	name string
	run  func(*scene)
}{
	{"gives what was added", givesWhatWasAdded},
	{"keeps operations apart", keepsOperationsApart},
	{"does not know other ids", doesNotKnowOtherIDs},
	{"refuses bad arguments", refusesBadArguments},
	{"takes a call once", takesACallOnce},
	{"takes a call once of many at once", takesOneOfManyAtOnce},
	{"remembers closed calls", remembersClosedCalls},
	{"closes by evidence alone", closesByEvidenceAlone},
	{"keeps evidence", keepsEvidence},
	{"refuses the report of another", refusesTheReportOfAnother},
	{"changes nothing that is closed", changesNothingClosed},
	{"begins a sending once", beginsASendingOnce},
	{"withdraws only what was not sent", withdrawsOnlyWhatWasNotSent},
	{"gives up by a decision", givesUpByADecision},
	{"gives what is open in its order", givesWhatIsOpenInItsOrder},
	{"can be used while it gives what is open", canBeUsedWhileItGives},
	{"does nothing when the context has ended", doesNothingWhenTheContextHasEnded},
	{"outlasts the end of the process", outlastsTheEndOfTheProcess},
	{"loses nothing of many at once", losesNothingOfMany},
}

// A paragraph is one of the contract at [journal.Journal].
type paragraph string

const (
	durable paragraph = "Durable"
	unique  paragraph = "Unique"
	whole   paragraph = "Whole"
	closed  paragraph = "Closed"
	open    paragraph = "Open"
	errs    paragraph = "Errors"
)

// scene is one check on one journal.
type scene struct {
	testing.TB
	Fixture
	ctx     context.Context
	handles []handle
}

// handle is a journal with the name that the fixture gives it.
type handle struct {
	name string
	journal.Journal
}

func runCheck(tb testing.TB, check func(*scene), open func(testing.TB) Fixture) {
	tb.Helper()
	s := &scene{TB: tb, Fixture: open(tb)}
	if s.Journal == nil || s.Reopen == nil {
		tb.Fatal("journaltest: Journal and Reopen are required")
	}
	s.handles = []handle{{"Journal", s.Journal}}
	if s.Other != nil {
		s.handles = append(s.handles, handle{"Other", s.Other})
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	s.ctx = ctx
	check(s)
}

// breaks fails the test: a journal breaks a paragraph of the contract.
func (s *scene) breaks(p paragraph, format string, args ...any) {
	s.Helper()
	s.Error(fmt.Sprintf(format, args...) + " [journal.Journal: " + string(p) + "]")
}

// must ends the check after an error, because the rest of it would make no sense.
func (s *scene) must(p paragraph, doing string, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(fmt.Sprintf("%s: %s; want no error", doing, describe(err)) + " [journal.Journal: " + string(p) + "]")
	}
}

var sentinels = [...]struct {
	err  error
	name string
}{
	{journal.ErrExists, "journal.ErrExists"},
	{journal.ErrNotFound, "journal.ErrNotFound"},
	{journal.ErrClosed, "journal.ErrClosed"},
	{journal.ErrSending, "journal.ErrSending"},
	{feedback.CodeInvalidRequest, "feedback.CodeInvalidRequest"},
	{context.Canceled, "context.Canceled"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
}

// describe gives an error for the person who writes the journal: one that
// errors.Is finds has the name that it has in Go.
func describe(err error) string {
	if err == nil {
		return "no error"
	}
	for _, known := range sentinels {
		if errors.Is(err, known.err) {
			return fmt.Sprintf("%q (%s)", err, known.name)
		}
	}
	return fmt.Sprintf("%q", err)
}

// refused checks that the error is this one.
func (s *scene) refused(p paragraph, doing string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.breaks(p, "%s: %s; want %s", doing, describe(err), describe(want))
	}
}
