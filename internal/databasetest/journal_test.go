package databasetest_test

import (
	"fmt"
	"testing"

	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/host/journal/journaltest"
	"github.com/bailinghub/bailinghub-go/host/journal/sqljournal"
)

func (d *database) journal(t testing.TB, name string, options ...sqljournal.Option) *sqljournal.Journal {
	t.Helper()
	opened, err := sqljournal.Open(t.Context(), d.db, d.dialect, append(options, sqljournal.WithNamespace(name))...)
	must(t, err)
	return opened
}

func newName() string { return fmt.Sprint("journal-", namespaces.Add(1)) }

func TestJournal(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		journaltest.TestJournal(t, func(t testing.TB) journaltest.Fixture {
			name := newName()
			return journaltest.Fixture{
				Journal: d.journal(t, name),
				Other:   d.journal(t, name),
				Reopen:  func() (journal.Journal, error) { return d.journal(t, name), nil },
			}
		})
	})
}
