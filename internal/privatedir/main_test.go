package privatedir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/fault"
	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// children are what other processes do.
var children = map[string]func(args []string) error{
	"abandon":       childThatAbandons,
	"single mounts": childWithSingleMounts,
}

func TestMain(m *testing.M) {
	childtest.Run(children)
	goleak.VerifyTestMain(m, goleak.Cleanup(childtest.Descriptors()))
}

// hasModes tells whether modes of files are checked.
const hasModes = !privatedir.ByRoot

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFolder makes a folder, which is closed at the end. Step may be nil.
func newFolder(t testing.TB, step privatedir.Steps) (f *privatedir.Folder, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "private")
	f, err := privatedir.Make(path, step)
	must(t, err)
	t.Cleanup(f.Close)
	return f, path
}

// save makes text the content of a file, whole.
func save(t testing.TB, f *privatedir.Folder, name, text string) {
	t.Helper()
	d, err := f.Draft(name)
	must(t, err)
	defer d.Discard()
	must(t, d.Fill([]byte(text)))
	must(t, d.Replace())
}

func wantContent(t testing.TB, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %.40q (%d bytes), %v; want %.40q (%d bytes)", filepath.Base(path), got, len(got), err, want, len(want))
	}
}

// wantNames checks what is in a folder.
func wantNames(t testing.TB, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	must(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("in the folder is %q, want %q", names, want)
	}
}

// wantFault checks an error of the package: what it matches and what it says.
func wantFault(t testing.TB, err, matches error, says ...string) {
	t.Helper()
	if _, ok := errors.AsType[*fault.Error](err); !ok && err != matches {
		t.Errorf("error %v (%T), want a *fault.Error", err, err)
		return
	}
	if matches != nil && !errors.Is(err, matches) {
		t.Errorf("error %q does not match %q", err, matches)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "synthetic") {
		t.Errorf("error %q has the content of a file", err)
	}
}

// failAt gives steps of which those of a name fail, or the one of a number from
// 1 on.
func failAt(name string, number int, with error) (step privatedir.Steps, failed *string) {
	n := 0
	failed = new(string)
	return func(now string) error {
		if n++; now != name && n != number {
			return nil
		}
		*failed = now
		return with
	}, failed
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
