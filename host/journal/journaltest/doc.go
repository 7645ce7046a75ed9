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
// The suite checks the contract at [journal.Journal]. A failure names the paragraph of the
// contract that it comes from: Durable, Unique, Whole, Closed, Open or Errors. The suite
// catches a journal that accepts a repeated call twice, closes an operation without evidence,
// forgets what was settled, or lets a sent operation be withdrawn, and some thirty other
// faults. After each of them an operation could be sent twice, or never be inspected.
//
// The contexts that it uses end after [Limit].
package journaltest
