package privatedir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

func TestOpenAndMake(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	path := filepath.Join(base, "on", "the", "way")
	if _, err := privatedir.Open(path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing: %v, want fs.ErrNotExist", err)
	}
	var steps []string
	f, err := privatedir.Make(path, func(step string) error {
		steps = append(steps, step)
		return nil
	})
	must(t, err)
	defer f.Close()
	if f.Path() != path || len(steps) != 3 {
		t.Errorf("the folder is at %s, made in the steps %q", f.Path(), steps)
	}
	if _, err := f.Open("sub"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing inside: %v, want fs.ErrNotExist", err)
	}
	sub, err := f.Make("sub")
	must(t, err)
	defer sub.Close()
	again, err := f.Make("sub")
	must(t, err)
	again.Close()
	for at := sub.Path(); at != base; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err != nil || hasModes && info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v; want a folder of mode 0700", at, info.Mode(), err)
		}
	}
	must(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
	_, err = f.Open("file")
	wantFault(t, err, privatedir.ErrDamaged, "file is not a folder")
	_, err = privatedir.Open(filepath.Join(path, "file"), nil)
	wantFault(t, err, privatedir.ErrDamaged, "file is not a folder")

	if f.Replaced(privatedir.RefuseLink) {
		t.Error("the folder has been replaced by itself")
	}
	if runtime.GOOS == "windows" {
		return // where an open folder is not renamed
	}
	must(t, os.Rename(path, path+".old"))
	if !f.Replaced(privatedir.FollowLink) {
		t.Error("a folder that is gone has not been replaced")
	}
	must(t, os.Mkdir(path, 0o700))
	if !f.Replaced(privatedir.FollowLink) {
		t.Error("another folder is the same")
	}
}

func TestMakeFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	step, _ := failAt("make folder", 0, syscall.ENOSPC)
	_, err := privatedir.Make(path, step)
	wantFault(t, err, syscall.ENOSPC, "making the folder "+path)
	if exists(filepath.Dir(path)) {
		t.Error("a folder was made")
	}
	for _, name := range []string{"make folder", "sync folder"} {
		step, _ := failAt("", 0, nil)
		f, path := newFolder(t, func(now string) error { return step(now) })
		step, failed := failAt(name, 0, syscall.ENOSPC)
		_, err := f.Make("sub")
		if *failed == "" {
			t.Fatalf("there is no step %q", name)
		}
		wantFault(t, err, syscall.ENOSPC, "making the folder "+filepath.Join(path, "sub"))
	}
}

// What is not the user's alone, or not what it should be, is refused and left
// alone, through every door.
func TestRefused(t *testing.T) {
	t.Parallel()
	for how, spoil := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link": func(path string) error {
			return errors.Join(os.WriteFile(path+".elsewhere", []byte("synthetic"), 0o600), os.Symlink(path+".elsewhere", path))
		},
		"a link to nothing": func(path string) error { return os.Symlink(path+".nothing", path) },
		"for everybody": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("synthetic"), 0o600), os.Chmod(path, 0o644))
		},
	} {
		if how == "for everybody" && !hasModes {
			continue
		}
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f, path := newFolder(t, nil)
			at := filepath.Join(path, "file")
			must(t, spoil(at))
			before, err := os.Lstat(at)
			must(t, err)
			_, _, err = f.Read("file", 100)
			wantFault(t, err, privatedir.ErrDamaged, at)
			if how != "for everybody" { // which a new content puts right
				wantFault(t, f.Erase("file"), privatedir.ErrDamaged, at, "left alone")
				d, err := f.Draft("file")
				must(t, err)
				must(t, d.Fill(nil))
				wantFault(t, d.Replace(), privatedir.ErrDamaged, at, "left alone")
				d.Discard()
			}
			if after, err := os.Lstat(at); err != nil || after.Mode() != before.Mode() || !os.SameFile(before, after) {
				t.Errorf("it is not as it was: %v, %v", after, err)
			}
			if exists(at + ".nothing") {
				t.Error("a link was followed")
			}
		})
	}
}

func TestRefusedFolders(t *testing.T) {
	t.Parallel()
	if !hasModes {
		return
	}
	path := filepath.Join(t.TempDir(), "open")
	must(t, os.MkdirAll(filepath.Join(path, "sub"), 0o700))
	must(t, os.Chmod(path, 0o755))
	_, err := privatedir.Open(path, nil)
	wantFault(t, err, privatedir.ErrDamaged, path, "0755", "0700")
	must(t, os.Chmod(path, 0o700))
	f, err := privatedir.Open(path, nil)
	must(t, err)
	defer f.Close()
	must(t, os.Chmod(filepath.Join(path, "sub"), 0o750))
	_, err = f.Open("sub")
	wantFault(t, err, privatedir.ErrDamaged, "sub", "0750")
	must(t, os.Symlink(".", filepath.Join(path, "link")))
	_, err = f.Open("link")
	wantFault(t, err, privatedir.ErrDamaged, "link is not a folder")
}

func TestRead(t *testing.T) {
	t.Parallel()
	f, _ := newFolder(t, nil)
	if _, _, err := f.Read("file", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of nothing: %v, want fs.ErrNotExist", err)
	}
	save(t, f, "file", "synthetic")
	data, stamp, err := f.Read("file", 9)
	if now, lookErr := f.Look("file"); err != nil || lookErr != nil || string(data) != "synthetic" || now != stamp {
		t.Errorf("Read: %q, %v, %v", data, err, lookErr)
	}
	save(t, f, "file", strings.Repeat("a", 2049))
	_, _, err = f.Read("file", 2048)
	wantFault(t, err, privatedir.ErrDamaged, "larger than 2 KiB")
}

func TestErase(t *testing.T) {
	t.Parallel()
	step, _ := failAt("", 0, nil)
	f, path := newFolder(t, func(now string) error { return step(now) })
	must(t, f.Erase("file"))
	for _, test := range []struct {
		step  string
		kind  error
		there bool
	}{{"erase", nil, true}, {"sync folder", privatedir.ErrNotSynced, false}} {
		save(t, f, "file", "text")
		failing, failed := failAt(test.step, 0, syscall.EIO)
		step = failing
		err := f.Erase("file")
		wantFault(t, err, syscall.EIO, filepath.Join(path, "file"))
		if errors.Is(err, privatedir.ErrNotSynced) != (test.kind != nil) {
			t.Errorf("error %q, want one that matches %v", err, test.kind)
		}
		if exists(filepath.Join(path, "file")) != test.there || *failed == "" {
			t.Errorf("after %q failed the file is there: %v", test.step, !test.there)
		}
		step, _ = failAt("", 0, nil)
		must(t, f.Erase("file"))
	}
	wantNames(t, path)
}

// Whatever step fails, the file is what it was or what it was to be, and nothing
// is left beside it.
func TestDraft(t *testing.T) {
	t.Parallel()
	for number := 1; ; number++ {
		step, _ := failAt("", 0, nil)
		f, path := newFolder(t, func(now string) error { return step(now) })
		save(t, f, "file", "old")
		step, failed := failAt("", number, syscall.ENOSPC)
		err := func() error {
			d, err := f.Draft("file")
			if err != nil {
				return err
			}
			defer d.Discard()
			if err := d.Reserve(8192); err != nil {
				return err
			}
			if err := d.Fill([]byte("new")); err != nil {
				return err
			}
			return d.Replace()
		}()
		want := "old"
		switch *failed {
		case "", "allocate":
			must(t, err)
			want = "new"
		case "sync folder":
			wantFault(t, err, privatedir.ErrNotSynced, "may not outlast a power failure")
			want = "new"
		default:
			wantFault(t, err, syscall.ENOSPC, path)
		}
		wantContent(t, filepath.Join(path, "file"), want)
		wantNames(t, path, "file")
		if *failed == "" {
			if number < 6 {
				t.Errorf("there are only %d steps", number-1)
			}
			return
		}
	}
}

func TestReplaceIf(t *testing.T) {
	t.Parallel()
	for _, exchange := range []error{nil, errors.ErrUnsupported} {
		f, path := newFolder(t, func(step string) error {
			if step == "exchange" {
				return exchange
			}
			return nil
		})
		save(t, f, "file", "old")
		was, err := f.Look("file")
		must(t, err)
		replace := func(text string) error {
			d, err := f.Draft("file")
			must(t, err)
			defer d.Discard()
			must(t, d.Fill([]byte(text)))
			return d.ReplaceIf(was)
		}
		must(t, replace("new"))
		wantContent(t, filepath.Join(path, "file"), "new")
		if err := replace("newer"); err != privatedir.ErrChanged {
			t.Errorf("ReplaceIf of a file that is another one by now: %v, want ErrChanged", err)
		}
		wantContent(t, filepath.Join(path, "file"), "new")
		must(t, f.Erase("file"))
		if err := replace("newest"); err != privatedir.ErrChanged {
			t.Errorf("ReplaceIf of a file that is gone: %v, want ErrChanged", err)
		}
		wantNames(t, path)
	}
}

// Drafts of whoever lives are left alone, and so is what is of others.
func TestSweep(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	alive, err := f.Draft("file")
	must(t, err)
	defer alive.Discard()
	for _, name := range []string{".file.0123456789abcdef.tmp", ".other.0123456789abcdef.tmp", ".file.0123.tmp", "file.0123456789abcdef.tmp"} {
		must(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
	}
	f.Sweep(func(target string) bool { return target == "file" })
	must(t, alive.Fill([]byte("text")))
	must(t, alive.Replace())
	wantNames(t, path, "file", ".other.0123456789abcdef.tmp", ".file.0123.tmp", "file.0123456789abcdef.tmp")
}

func TestAbsolute(t *testing.T) {
	working, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(working)
	for path, want := range map[string]string{
		"file":            filepath.Join(working, "file"),
		"a/../b/":         filepath.Join(working, "b"),
		working + "/./c/": filepath.Join(working, "c"),
	} {
		if got, err := privatedir.Absolute(path); err != nil || got != want {
			t.Errorf("Absolute(%q): %q, %v; want %q", path, got, err, want)
		}
	}
}

// A stamp differs after every change.
func TestStamps(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	seen := map[privatedir.Stamp]string{{}: "nothing"}
	for i, change := range []func(){
		func() { save(t, f, "file", "a") },
		func() { save(t, f, "file", "a") },
		func() { must(t, os.WriteFile(filepath.Join(path, "file"), []byte("longer"), 0o600)) },
	} {
		change()
		now, err := f.Look("file")
		must(t, err)
		if before, found := seen[now]; found {
			t.Errorf("change %d gives the stamp of %s", i, before)
		}
		seen[now] = fmt.Sprint("change ", i)
	}
	must(t, f.Erase("file"))
	if now, err := f.Look("file"); err != nil || now != (privatedir.Stamp{}) {
		t.Errorf("a file that is gone has the stamp %+v, %v", now, err)
	}
}

// childThatAbandons PATH begins a draft and does not end it.
func childThatAbandons(args []string) error {
	f, err := privatedir.Open(args[0], nil)
	if err != nil {
		return err
	}
	d, err := f.Draft("file")
	if err != nil {
		return err
	}
	if err := d.Fill([]byte("abandoned")); err != nil {
		return err
	}
	return childtest.Proceed("drafted")
}

// What another process works on is left alone as long as that lives, and is
// swept when it was killed.
func TestSweepAfterACrash(t *testing.T) {
	t.Parallel()
	f, path := newFolder(t, nil)
	child := childtest.Start(t, "abandon", path)
	child.Says("drafted")
	count := func() int {
		t.Helper()
		entries, err := os.ReadDir(path)
		must(t, err)
		return len(entries)
	}
	all := func(string) bool { return true }
	if f.Sweep(all); count() != 1 {
		t.Errorf("%d files are there while a process works on one", count())
	}
	must(t, child.Process.Kill())
	_, _ = child.End()
	if f.Sweep(all); count() != 0 {
		t.Errorf("%d files are there after the process was killed", count())
	}
}

// A newer file that came between the two steps goes back in, or stays to be
// found where even that fails.
func TestReplaceIfGivesBack(t *testing.T) {
	t.Parallel()
	for _, renamed := range []bool{true, false} {
		armed := false
		var f *privatedir.Folder
		f, path := newFolder(t, func(step string) error {
			switch {
			case !armed:
			case step == "exchange":
				armed = false
				save(t, f, "file", "newer")
				armed = true
			case step == "put back", step == "rename" && !renamed:
				return syscall.EIO
			}
			return nil
		})
		save(t, f, "file", "old")
		was, err := f.Look("file")
		must(t, err)
		d, err := f.Draft("file")
		must(t, err)
		must(t, d.Fill([]byte("late")))
		armed = true
		err = d.ReplaceIf(was)
		d.Discard()
		if renamed || privatedir.ByRoot { // where nothing is exchanged
			if err != privatedir.ErrChanged {
				t.Errorf("ReplaceIf: %v, want ErrChanged", err)
			}
			wantContent(t, filepath.Join(path, "file"), "newer")
			wantNames(t, path, "file")
			continue
		}
		wantFault(t, err, syscall.EIO, "putting back the newer "+filepath.Join(path, "file"), ".file.")
		_, name, _ := strings.Cut(err.Error(), "which is in ")
		name, _, _ = strings.Cut(name, ":")
		wantContent(t, filepath.Join(path, name), "newer")
	}
}
