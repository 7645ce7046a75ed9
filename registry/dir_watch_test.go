//go:build linux

package registry_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
)

// readAll reads shop and its login.
func readAll(t testing.TB, d *registry.Dir) (registry.Connection, registry.Credentials, error) {
	t.Helper()
	connection, err := d.Connection(t.Context(), key)
	if err != nil {
		return connection, registry.Credentials{}, err
	}
	login, err := d.Credentials(t.Context(), key)
	return connection, login, err
}

func TestDirReadsAgainOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	_, path := newDir(t)
	d := openDir(t, path)
	settle(d)
	book, login := d.CountBook(), d.CountLogin(key)
	want := func(bookOpened, bookParsed, loginOpened, loginParsed int64) {
		t.Helper()
		got := [...]int64{book.Opened.Load(), book.Parsed.Load(), login.Opened.Load(), login.Parsed.Load()}
		if want := [...]int64{bookOpened, bookParsed, loginOpened, loginParsed}; got != want {
			t.Errorf("the connections were opened and parsed, and the login, %v times; want %v", got, want)
		}
	}
	for range 50 {
		if _, _, err := readAll(t, d); err != nil {
			t.Fatal(err)
		}
	}
	want(1, 1, 1, 1)

	// Another login concerns one file only.
	must(t, openDir(t, path).SaveCredentials(t.Context(), key, newer(credentials())))
	for range 50 {
		if _, got, err := readAll(t, d); err != nil || !got.Equal(newer(credentials())) {
			t.Fatalf("Credentials: the newer login or not, %v", err)
		}
	}
	want(1, 1, 2, 2)

	// The same bytes are read, and not parsed.
	must(t, openDir(t, path).SaveCredentials(t.Context(), key, newer(credentials())))
	must(t, os.Chtimes(bookPath(path), time.Time{}, time.Unix(1e9, 0)))
	for range 50 {
		if _, _, err := readAll(t, d); err != nil {
			t.Fatal(err)
		}
	}
	want(2, 1, 3, 2)

	// Whoever comes while it is parsed does not parse it too.
	must(t, registerIn(t, openDir(t, path), other("orders")))
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if _, err := d.Connection(t.Context(), key); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := book.Parsed.Load(); n != 2 {
		t.Errorf("the connections were parsed %d times, want 2", n)
	}
}

// A file of less than two seconds can change without a sign; so can one from
// the future, when the clock was set back.
func TestDirReadsYoungFilesAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// clock is how far the clock is ahead of the file at each reading.
		clock []time.Duration
		opens int64
	}{
		{"young", []time.Duration{0, time.Second, 1999 * time.Millisecond}, 3},
		// The first reading that counts is one of the file at that age.
		{"grows old", []time.Duration{0, 2 * time.Second, 3 * time.Second, time.Hour}, 2},
		{"old", []time.Duration{2 * time.Second, 2 * time.Second, time.Hour}, 1},
		{"the clock is set back by a day", []time.Duration{time.Hour, time.Hour, -24 * time.Hour, -24 * time.Hour, time.Hour, time.Hour}, 4},
		{"the clock is set forward by a day", []time.Duration{0, 24 * time.Hour, 24 * time.Hour, 25 * time.Hour}, 2},
		{"from the future", []time.Duration{-time.Millisecond, -24 * time.Hour, time.Second}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, path := newDir(t)
			d := openDir(t, path)
			book, login := d.CountBook(), d.CountLogin(key)
			for _, ahead := range test.clock {
				// Each file has its own age.
				for _, file := range []string{bookPath(path), loginPath(path, key)} {
					d.SetClock(func() time.Time { return changed(t, file).Add(ahead) })
					var err error
					if file == bookPath(path) {
						_, err = d.Connection(t.Context(), key)
					} else {
						opened, parsed := book.Opened.Load(), book.Parsed.Load()
						_, err = d.Credentials(t.Context(), key)
						book.Opened.Store(opened)
						book.Parsed.Store(parsed)
					}
					must(t, err)
				}
			}
			if got := [...]int64{book.Opened.Load(), book.Parsed.Load(), login.Opened.Load(), login.Parsed.Load()}; got != [...]int64{test.opens, 1, test.opens, 1} {
				t.Errorf("the connections were opened and parsed, and the login, %v times; want opened %d times, parsed once", got, test.opens)
			}
		})
	}
}

// The time of its content says nothing of when a file was made.
func TestDirReadsAgainWhatOnlyLooksOld(t *testing.T) {
	t.Parallel()
	_, path := newDir(t)
	must(t, os.Chtimes(bookPath(path), time.Time{}, time.Unix(1e9, 0)))
	d := openDir(t, path)
	d.SetClock(func() time.Time { return changed(t, bookPath(path)).Add(time.Second) })
	book := d.CountBook()
	read := func(times int64) {
		t.Helper()
		before := book.Opened.Load()
		for range 3 {
			if _, err := d.Connection(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if n := book.Opened.Load() - before; n != times {
			t.Errorf("the file was opened %d times in 3, want %d", n, times)
		}
	}
	read(3)
	settle(d)
	read(1)
	// Nor when it claims to be of tomorrow.
	must(t, os.Chtimes(bookPath(path), time.Time{}, time.Now().Add(24*time.Hour)))
	read(3)
}

// changed gives when the system last noted a change of a file.
func changed(t testing.TB, path string) time.Time {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Lstat(path, &st))
	return time.Unix(0, max(st.Mtim.Nano(), st.Ctim.Nano()))
}

// overwrite writes into a file in place and gives it the size and the time of
// modification that it had. Only the system's own note of it is left, which it
// takes at intervals.
func overwrite(t testing.TB, path string, data []byte) {
	t.Helper()
	before := changed(t, path)
	info, err := os.Stat(path)
	must(t, err)
	for {
		must(t, os.WriteFile(path, data, 0o600))
		must(t, os.Truncate(path, info.Size()))
		must(t, os.Chtimes(path, time.Time{}, info.ModTime()))
		if after, err := os.Stat(path); err != nil || after.Size() != info.Size() || !after.ModTime().Equal(info.ModTime()) {
			t.Fatalf("the file is not as it has to be: %v, %v", after, err)
		}
		if !changed(t, path).Equal(before) {
			return
		}
	}
}

// Every change shows in the next call, whatever was remembered.
func TestDirNoticesChanges(t *testing.T) {
	t.Parallel()
	replace := func(t testing.TB, path string, data []byte) {
		must(t, os.WriteFile(path+".new", data, 0o600))
		must(t, os.Rename(path+".new", path))
	}
	for _, change := range []struct {
		name string
		do   func(t testing.TB, path string, data []byte)
		// gone and damaged: there is nothing to read afterwards.
		gone, damaged bool
	}{
		{name: "replaced by a rename", do: replace},
		{name: "overwritten with the same size and time", do: func(t testing.TB, path string, data []byte) { overwrite(t, path, data) }},
		{name: "touched", do: func(t testing.TB, path string, data []byte) {
			must(t, os.WriteFile(path, data, 0o600))
			must(t, os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)))
		}},
		{name: "removed and written", do: func(t testing.TB, path string, data []byte) {
			must(t, os.Remove(path))
			must(t, os.WriteFile(path, data, 0o600))
		}},
		{name: "truncated", damaged: true, do: func(t testing.TB, path string, data []byte) { must(t, os.Truncate(path, 10)) }},
		{name: "emptied", damaged: true, do: func(t testing.TB, path string, data []byte) { must(t, os.Truncate(path, 0)) }},
		{name: "longer", damaged: true, do: func(t testing.TB, path string, data []byte) {
			must(t, os.WriteFile(path, append(data, '}'), 0o600))
		}},
		{name: "deleted", gone: true, do: func(t testing.TB, path string, data []byte) { must(t, os.Remove(path)) }},
		{name: "a link to the same", damaged: true, do: func(t testing.TB, path string, data []byte) {
			must(t, os.Rename(path, path+".old"))
			must(t, os.Symlink(path+".old", path))
		}},
		{name: "a FIFO", damaged: true, do: func(t testing.TB, path string, data []byte) {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
		}},
		{name: "a folder", damaged: true, do: func(t testing.TB, path string, data []byte) { must(t, notFile(path)) }},
		{name: "of another mode", damaged: true, do: func(t testing.TB, path string, data []byte) { must(t, os.Chmod(path, 0o640)) }},
		{name: "of another user", damaged: true, do: func(t testing.TB, path string, data []byte) {
			if os.Geteuid() == 0 {
				must(t, os.Chown(path, nobody, -1))
			} else {
				must(t, os.Truncate(path, 0))
			}
		}},
	} {
		for _, file := range []struct {
			name     string
			at       func(path string) string
			old, new string // one becomes the other, and is as long
			gone     error
		}{
			{"the connections", bookPath, `"shop"`, `"deli"`, registry.ErrNotFound},
			{"the login", func(path string) string { return loginPath(path, key) }, accessCanary, "canary-ACCESS-5d41402abc4b2a76", registry.ErrNotLoggedIn},
		} {
			t.Run(file.name+" "+change.name, func(t *testing.T) {
				t.Parallel()
				_, path := newDir(t)
				d := openDir(t, path)
				must(t, registerIn(t, d, shop(), registry.WithAlias("shop")))
				settle(d)
				connection, login, err := readAll(t, d)
				must(t, err)

				at := file.at(path)
				before, err := os.ReadFile(at)
				must(t, err)
				change.do(t, at, bytes.Replace(before, []byte(file.old), []byte(file.new), 1))
				nextConnection, nextLogin, err := readAll(t, d)
				switch {
				case change.gone:
					if !errors.Is(err, file.gone) {
						t.Errorf("the next reading: %v, want %v", err, file.gone)
					}
				case change.damaged:
					wantSafe(t, err, registry.ErrDamaged, at)
				case err != nil:
					t.Errorf("the next reading: %v", err)
				case nextConnection == connection && nextLogin.Equal(login):
					t.Error("the next reading gives what was there before")
				}

				// It is right again as soon as the file is.
				must(t, os.RemoveAll(at))
				replace(t, at, before)
				if nextConnection, nextLogin, err := readAll(t, d); err != nil || nextConnection != connection || !nextLogin.Equal(login) {
					t.Errorf("reading what is right again: %+v, a login or not, %v", nextConnection, err)
				}
			})
		}
	}
}

func TestDirNoticesChangesOfItsFolder(t *testing.T) {
	t.Parallel()
	logins := func(path string) string { return filepath.Join(path, "agent-connections") }
	self := func(path string) string { return path }
	for _, test := range []struct {
		name string
		do   func(t testing.TB, path, other string)
		want error // nil: the login of the other folder
	}{
		{"another mode", func(t testing.TB, path, other string) { must(t, os.Chmod(path, 0o750)) }, registry.ErrDamaged},
		{"another mode of the logins", func(t testing.TB, path, other string) { must(t, os.Chmod(logins(path), 0o701)) }, registry.ErrDamaged},
		{"another user", func(t testing.TB, path, other string) { giveAway(t, path) }, registry.ErrDamaged},
		{"another user of the logins", func(t testing.TB, path, other string) { giveAway(t, logins(path)) }, registry.ErrDamaged},
		{"exchanged", func(t testing.TB, path, other string) { swap(t, self(path), self(other)) }, nil},
		{"exchanged logins", func(t testing.TB, path, other string) { swap(t, logins(path), logins(other)) }, nil},
		{"a link to another", func(t testing.TB, path, other string) {
			must(t, os.Rename(path, path+".old"))
			must(t, os.Symlink(other, path))
		}, nil},
		{"a link to the other logins", func(t testing.TB, path, other string) {
			must(t, os.Rename(logins(path), path+".old"))
			must(t, os.Symlink(logins(other), logins(path)))
		}, registry.ErrDamaged},
		{"removed", func(t testing.TB, path, other string) { must(t, os.RemoveAll(path)) }, registry.ErrNotFound},
		{"removed logins", func(t testing.TB, path, other string) { must(t, os.RemoveAll(logins(path))) }, registry.ErrNotLoggedIn},
		// The very files of a folder in another one, their times and all.
		{"the same files in a folder for everybody", func(t testing.TB, path, other string) {
			must(t, os.Rename(path, path+".old"))
			must(t, os.Mkdir(path, 0o755))
			must(t, os.Link(bookPath(path+".old"), bookPath(path)))
			must(t, os.Rename(logins(path+".old"), logins(path)))
		}, registry.ErrDamaged},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, path := newDir(t)
			second, otherPath := newDir(t)
			must(t, second.SaveCredentials(t.Context(), key, newer(credentials())))
			settle(d)
			_, _, err := readAll(t, d)
			must(t, err)
			test.do(t, path, otherPath)
			_, login, err := readAll(t, d)
			switch {
			case test.want == nil && (err != nil || !login.Equal(newer(credentials()))):
				t.Errorf("the next reading gives the login of the folder that is there now or not, and %v", err)
			case !errors.Is(err, test.want):
				t.Errorf("the next reading: %v, want %v", err, test.want)
			}
		})
	}
}

func giveAway(t testing.TB, path string) {
	t.Helper()
	if os.Geteuid() == 0 {
		must(t, os.Chown(path, nobody, -1))
	} else {
		must(t, os.Chmod(path, 0o777))
	}
}

func swap(t testing.TB, one, other string) {
	t.Helper()
	must(t, os.Rename(one, one+".swap"))
	must(t, os.Rename(other, one))
	must(t, os.Rename(one+".swap", other))
}

// A file that somebody writes without a rename may be read half written, which
// nobody can see in it; but not for longer than it is.
func TestDirReadsAFileThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	settle(d)
	var texts [][]byte
	for _, c := range []registry.Credentials{credentials(), newer(credentials())} {
		text, err := registry.EncodeCredentials(c)
		must(t, err)
		texts = append(texts, text)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			for _, text := range texts {
				select {
				case <-stop:
					done <- os.WriteFile(loginPath(path, key), texts[1], 0o600)
					return
				default:
					if err := os.WriteFile(loginPath(path, key), text, 0o600); err != nil {
						done <- err
						return
					}
				}
			}
		}
	}()
	var fault error
	for range 2000 {
		if _, err := d.Credentials(t.Context(), key); err != nil && !errors.Is(err, registry.ErrDamaged) {
			fault = err
		}
	}
	close(stop)
	must(t, <-done)
	must(t, fault)
	wantStored(t, path, newer(credentials()))
	if login, err := d.Credentials(t.Context(), key); err != nil || !login.Equal(newer(credentials())) {
		t.Errorf("Credentials when it is written: what is there or not, %v", err)
	}
}
