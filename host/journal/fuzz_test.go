package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bailinghub/bailinghub-go/host/journal"
)

// Whatever is in the file: it is refused and left as it is, or opened, and then
// it is a journal that opens again with the same entries.
func FuzzOpenFile(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed")
	text := lively(f, path)
	f.Add(text)
	f.Add(text[:len(text)-10])
	f.Add([]byte(nil))
	f.Add(journal.Seal(`{"call_id":"c","original":{"invocation_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"state":"prepared","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := newPath(t)
		must(t, os.WriteFile(path, text, 0o600))
		j, err := journal.OpenFile(path)
		if err != nil {
			if !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("refused with %v", err)
			}
			if now := read(t, path); !bytes.Equal(now, text) {
				t.Error("refused, and changed")
			}
			return
		}
		calls := callsOf(t, j)
		must(t, j.Close())
		j = open(t, path)
		if again := callsOf(t, j); j.Torn() != (journal.Torn{}) || len(again) != len(calls) {
			t.Errorf("%d entries, and then %d", len(calls), len(again))
		}
	})
}

// The same for objects whose checksums are right.
func FuzzObjects(f *testing.F) {
	const object = `{"call_id":"c","original":{"invocation_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"state":"prepared","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`
	f.Add(object, object)
	f.Add(`{}`, `{"state":"withdrawn"}`)
	f.Fuzz(func(t *testing.T, one, other string) {
		if len(one) == 0 || len(other) == 0 {
			return
		}
		path := newPath(t)
		text := journal.Seal(one, other)
		must(t, os.WriteFile(path, text, 0o600))
		j, err := journal.OpenFile(path)
		if err != nil {
			if !errors.Is(err, journal.ErrDamaged) || !bytes.Equal(read(t, path), text) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		defer j.Close()
		for e, err := range j.Open(t.Context()) {
			if err != nil && !errors.Is(err, journal.ErrDamaged) || err == nil && e.CallID == "" {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}
