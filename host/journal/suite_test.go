package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/host/journal/journaltest"
)

func TestFile(t *testing.T) {
	t.Parallel()
	journaltest.TestJournal(t, func(t testing.TB) journaltest.Fixture {
		path := filepath.Join(t.TempDir(), "operations.jsonl")
		f, err := journal.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return journaltest.Fixture{Journal: f, Reopen: func() (journal.Journal, error) {
			if err := f.Close(); err != nil {
				return nil, err
			}
			again, err := journal.OpenFile(path)
			if err == nil {
				t.Cleanup(func() { _ = again.Close() })
			}
			return again, err
		}}
	})
}
