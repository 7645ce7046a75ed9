package privatedir_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// openFile opens a file that is closed at the end.
func openFile(t testing.TB, f *privatedir.Folder, wantMade bool) *privatedir.File {
	t.Helper()
	file, made, err := f.OpenFile("file")
	must(t, err)
	if made != wantMade {
		t.Errorf("the file was made: %v, want %v", made, wantMade)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func contentOf(t testing.TB, file *privatedir.File) string {
	t.Helper()
	data, err := io.ReadAll(io.NewSectionReader(file, 0, file.Size()))
	must(t, err)
	return string(data)
}

func TestFile(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	at := filepath.Join(path, "file")
	first := openFile(t, f, true)
	must(t, first.Append([]byte("one\n")))
	must(t, first.Append([]byte("two\n")))
	must(t, first.Append(nil))
	wantContent(t, at, "one\ntwo\n")
	again := openFile(t, f, false)
	if got := contentOf(t, again); got != "one\ntwo\n" || again.Size() != 8 {
		t.Errorf("the file opened again holds %q, %d bytes", got, again.Size())
	}
	if n, err := again.ReadAt(make([]byte, 10), 4); n != 4 || err != io.EOF {
		t.Errorf("ReadAt beyond the end: %d, %v; want 4, EOF", n, err)
	}
	must(t, again.Cut(4))
	must(t, again.Append([]byte("three\n")))
	wantContent(t, at, "one\nthree\n")
	if hasModes {
		if info, err := os.Stat(at); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file has mode %v, %v", info.Mode(), err)
		}
	}
	if again.Replaced() {
		t.Error("the file has been replaced by itself")
	}
	must(t, os.Remove(at))
	if !again.Replaced() {
		t.Error("a file that is gone has not been replaced")
	}
}

// After an append that failed the file ends where it did; where what it left
// cannot be cut off, nothing more is appended until that is done.
func TestAppendFails(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"append", "sync"} {
		var faults map[string]error
		f, path := newFolder(t, func(step string) error {
			err := faults[step]
			delete(faults, step)
			return err
		})
		at := filepath.Join(path, "file")
		file := openFile(t, f, true)
		must(t, file.Append([]byte("one\n")))
		faults = map[string]error{name: syscall.ENOSPC}
		wantFault(t, file.Append([]byte("synthetic\n")), syscall.ENOSPC, "writing "+at)
		wantContent(t, at, "one\n")
		must(t, file.Append([]byte("two\n")))

		faults = map[string]error{name: syscall.ENOSPC, "cut": syscall.EIO}
		wantFault(t, file.Append([]byte("lost\n")), syscall.ENOSPC, "writing "+at)
		wantFault(t, file.Append([]byte("three\n")), nil, at, "opened again")
		must(t, file.Cut(file.Size()))
		must(t, file.Append([]byte("three\n")))
		wantContent(t, at, "one\ntwo\nthree\n")

		faults = map[string]error{"cut": syscall.EIO}
		wantFault(t, file.Cut(4), syscall.EIO, "cutting off the end of "+at)
		if file.Size() != 14 {
			t.Errorf("the file has %d bytes, want 14", file.Size())
		}
	}
}

func TestOpenFileFails(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"create", "sync folder"} {
		step, failed := failAt(name, 0, syscall.ENOSPC)
		f, path := newFolder(t, step)
		_, _, err := f.OpenFile("file")
		wantFault(t, err, syscall.ENOSPC, "making "+filepath.Join(path, "file"))
		if *failed == "" {
			t.Errorf("there is no step %q", name)
		}
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 10_000)
	write := func(w io.Writer) error {
		_, err := io.Copy(w, strings.NewReader(long))
		return err
	}
	for number := 1; ; number++ {
		step, failed := failAt("", 0, nil)
		f, path := newFolder(t, func(now string) error { return step(now) })
		at := filepath.Join(path, "file")
		file := openFile(t, f, true)
		must(t, file.Append([]byte("old\n")))
		step, failed = failAt("", number, syscall.ENOSPC)
		err := file.Rewrite(write)
		step, _ = failAt("", 0, nil)
		want := long
		switch {
		case *failed == "":
			must(t, err)
		case *failed == "sync folder":
			wantFault(t, err, privatedir.ErrNotSynced)
		default:
			want = "old\n"
			wantFault(t, err, syscall.ENOSPC, path)
		}
		wantContent(t, at, want)
		must(t, file.Append([]byte("next\n")))
		wantContent(t, at, want+"next\n")
		if got := contentOf(t, file); got != want+"next\n" {
			t.Errorf("through the file it holds %d bytes", len(got))
		}
		wantNames(t, path, "file")
		if *failed == "" {
			if number < 5 {
				t.Errorf("there are only %d steps", number-1)
			}
			break
		}
	}

	f, path := newFolder(t, nil)
	file := openFile(t, f, true)
	must(t, file.Append([]byte("old\n")))
	own := errors.New("own")
	if err := file.Rewrite(func(io.Writer) error { return own }); err != own {
		t.Errorf("Rewrite with an error of its writer: %v", err)
	}
	save(t, f, "file", "another")
	if err := file.Rewrite(write); err != privatedir.ErrChanged {
		t.Errorf("Rewrite of a file that is another one by now: %v, want ErrChanged", err)
	}
	wantContent(t, filepath.Join(path, "file"), "another")
	wantNames(t, path, "file")
}

// What a Rewrite has left is swept like any other draft.
func TestRewriteUnlocks(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	file := openFile(t, f, true)
	must(t, file.Rewrite(func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader([]byte("new"))); return err }))
	must(t, os.WriteFile(filepath.Join(path, ".file.0123456789abcdef.tmp"), nil, 0o600))
	f.Sweep(func(string) bool { return true })
	wantNames(t, path, "file")
}
