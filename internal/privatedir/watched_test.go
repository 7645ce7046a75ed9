package privatedir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// A file is read again when it has changed, parsed again when its bytes have,
// and read each time while its last change is recent.
func TestWatched(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	opened, parsed, ahead := 0, 0, time.Hour
	w := privatedir.Watched[string]{
		Folder: path, Path: filepath.Join(path, "file"), Limit: 100, Links: privatedir.FollowLink,
		Open: func() (*privatedir.Folder, error) { opened++; return privatedir.Open(path, nil) },
		Parse: func(data []byte) (string, string) {
			parsed++
			if string(data) == "flaw" {
				return "", "has a flaw"
			}
			return string(data), ""
		},
		Now: func() time.Time { return time.Now().Add(ahead) },
	}
	if _, err := w.Get(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of nothing: %v, want fs.ErrNotExist", err)
	}
	want := func(value string, wantOpened, wantParsed int) {
		t.Helper()
		opened, parsed = 0, 0
		for range 3 {
			if got, err := w.Get(); err != nil || got != value {
				t.Errorf("Get: %q, %v; want %q", got, err, value)
			}
		}
		if opened != wantOpened || parsed != wantParsed {
			t.Errorf("the folder was opened %d times, and the file parsed %d times; want %d and %d", opened, parsed, wantOpened, wantParsed)
		}
	}
	save(t, f, "file", "a")
	want("a", 1, 1)
	want("a", 0, 0)
	save(t, f, "file", "a")
	want("a", 1, 0)
	save(t, f, "file", "b")
	want("b", 1, 1)
	ahead = 0
	save(t, f, "file", "c")
	want("c", 3, 1)
	if w.IsSettled() {
		t.Error("a file that changed a moment ago is settled")
	}
	ahead = time.Hour
	save(t, f, "file", "flaw")
	_, err := w.Get()
	wantFault(t, err, privatedir.ErrDamaged, filepath.Join(path, "file")+" has a flaw")
	save(t, f, "file", "d")
	want("d", 1, 1)
	must(t, os.Remove(filepath.Join(path, "file")))
	if _, err := w.Get(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of a file that is gone: %v, want fs.ErrNotExist", err)
	}
}
