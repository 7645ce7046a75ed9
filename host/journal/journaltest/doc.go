// Package journaltest is the suite that every [journal.Journal] must pass: the
// one of this SDK, and yours.
//
// Write a test that gives it a way to open your journal, empty:
//
//	func TestJournal(t *testing.T) {
//		journaltest.TestJournal(t, func(t testing.TB) journaltest.Fixture {
//			db := newDatabase(t)
//			return journaltest.Fixture{
//				Journal: mine.Open(db.URL),
//				Other:   mine.Open(db.URL), // as another process has it
//				Reopen:  func() (journal.Journal, error) { return mine.Open(db.URL), nil },
//			}
//		})
//	}
//
// What it asks for stands at [journal.Journal], and a failure names the
// paragraph there that it comes from: Durable, Unique, Whole, Closed, Open or
// Errors. It catches a journal that takes a repeated call twice, closes an
// operation without evidence, forgets what was settled, lets a sent operation be
// withdrawn, and some thirty other faults, each of which ends in an operation
// that is sent a second time or that nobody asks about.
//
// The contexts that it uses end after [Limit].
package journaltest
