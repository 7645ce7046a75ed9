//go:build linux

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/registry"
)

// nobody is a user other than the one who runs the tests.
const nobody = 65534

// spoil makes something of the file or folder at path that is not used. What
// only root can do is done where the tests run as root.
func spoil(t testing.TB) map[string]func(path string) error {
	elsewhere := t.TempDir()
	spoils := map[string]func(path string) error{
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, filepath.Join(elsewhere, filepath.Base(path))), os.Symlink(filepath.Join(elsewhere, filepath.Base(path)), path))
		},
		"a link to nothing": func(path string) error {
			return errors.Join(os.RemoveAll(path), os.Symlink(filepath.Join(elsewhere, "nothing"), path))
		},
		"a FIFO": func(path string) error {
			return errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600))
		},
		"a socket": func(path string) error {
			// The path may be too long for a socket.
			short, err := os.MkdirTemp("", "s")
			if err != nil {
				return err
			}
			socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "s"), Net: "unix"})
			if err != nil {
				return err
			}
			socket.SetUnlinkOnClose(false)
			return errors.Join(socket.Close(), os.RemoveAll(path), os.Rename(filepath.Join(short, "s"), path), os.Remove(short))
		},
		"readable for the group":   func(path string) error { return chmod(path, 0o040) },
		"readable for all":         func(path string) error { return chmod(path, 0o004) },
		"not writable":             func(path string) error { return os.Chmod(path, mode(path)&^0o200) },
		"not accessible":           func(path string) error { return os.Chmod(path, 0) },
		"marked to run as its own": func(path string) error { return syscall.Chmod(path, uint32(mode(path))|syscall.S_ISUID) },
	}
	if os.Geteuid() == 0 {
		spoils["another user's"] = func(path string) error { return os.Chown(path, nobody, -1) }
	}
	return spoils
}

func mode(path string) fs.FileMode {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Mode().Perm()
}

func chmod(path string, more fs.FileMode) error { return os.Chmod(path, mode(path)|more) }

// kinds are what only a file or only a folder can be besides.
func notFile(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }

func notFolder(path string) error {
	return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600))
}

// promptly calls f, which must not wait, and gives its error.
func promptly(t testing.TB, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("it hangs")
		return nil
	}
}

// wantRefused checks that every use of the login of shop is refused, with a
// fresh handle and with one that has read it before; of the connections too,
// where these are what is refused.
func wantRefused(t *testing.T, path string, known *registry.Dir, refused string, connections bool) {
	t.Helper()
	before := tree(t, path)
	for _, d := range []*registry.Dir{openDir(t, path), known} {
		uses := map[string]func() error{
			"Credentials": func() error { _, err := d.Credentials(t.Context(), key); return err },
			"UpdateCredentials": func() error {
				return d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					t.Error("the update was called")
					return rotated(c), nil
				})
			},
		}
		if connections {
			maps.Copy(uses, map[string]func() error{
				"Connection":        func() error { _, err := d.Connection(t.Context(), key); return err },
				"List":              func() error { _, err := d.List(t.Context()); return err },
				"Current":           func() error { _, err := d.Current(t.Context()); return err },
				"ByAlias":           func() error { _, err := d.ByAlias(t.Context(), "shop"); return err },
				"Register":          func() error { _, err := d.Register(t.Context(), other("orders")); return err },
				"SetCurrent":        func() error { return d.SetCurrent(t.Context(), key) },
				"Remove":            func() error { return d.Remove(t.Context(), key) },
				"SaveCredentials":   func() error { return d.SaveCredentials(t.Context(), key, newer(credentials())) },
				"DeleteCredentials": func() error { return d.DeleteCredentials(t.Context(), key) },
			})
		}
		for name, use := range uses {
			err := promptly(t, use)
			if err == nil {
				t.Errorf("%s: no error", name)
				continue
			}
			wantSafe(t, err, registry.ErrDamaged, refused)
			wantTree(t, path, before)
		}
	}
}

func TestDirRefusesWhatIsNotPrivate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what        string
		at          func(path string) string
		connections bool
		folder      bool
	}{
		{"the connections", bookPath, true, false},
		{"a credential file", func(path string) string { return loginPath(path, key) }, false, false},
		{"the folder", func(path string) string { return path }, true, true},
		{"the folder of the credentials", func(path string) string { return filepath.Join(path, "agent-connections") }, false, true},
	} {
		spoils := spoil(t)
		spoils["a folder"] = notFile
		if test.folder {
			delete(spoils, "a folder")
			spoils["a file"] = notFolder
		}
		for how, spoil := range spoils {
			if test.what == "the folder" && strings.HasPrefix(how, "a link") {
				continue // a link may lead to it
			}
			t.Run(test.what+" is "+how, func(t *testing.T) {
				t.Parallel()
				d, path := newDir(t)
				settle(d)
				_, err := d.Credentials(t.Context(), key)
				must(t, err)
				must(t, spoil(test.at(path)))
				t.Cleanup(func() { _ = os.Chmod(test.at(path), 0o700) })
				wantRefused(t, path, d, test.at(path), test.connections)
			})
		}
	}
}

// What changes between a look and the opening is not followed and not waited
// for either.
func TestDirOpensNothingElse(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	at := loginPath(path, key)
	elsewhere := filepath.Join(t.TempDir(), "login")
	foreign, err := registry.EncodeCredentials(newer(credentials()))
	must(t, err)
	must(t, os.WriteFile(elsewhere, foreign, 0o600))
	must(t, os.Rename(at, at+".file"))
	must(t, os.Symlink(elsewhere, at+".link"))
	must(t, syscall.Mkfifo(at+".fifo", 0o600))
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			for _, kind := range []string{".file", ".fifo", ".file", ".link"} {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if err := errors.Join(os.Rename(at+kind, at), os.Rename(at, at+kind)); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	err = promptly(t, func() error {
		for range 20000 {
			login, err := d.Credentials(t.Context(), key)
			if err == nil && !login.Equal(credentials()) {
				return errors.New("a link was followed")
			}
			if err != nil && !errors.Is(err, registry.ErrDamaged) && !errors.Is(err, registry.ErrNotLoggedIn) {
				return err
			}
		}
		return nil
	})
	close(stop)
	must(t, <-done)
	must(t, err)
}

// A folder can inherit a bit that lets nobody in.
func TestDirTakesAFolderWithTheBitOfItsGroup(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	must(t, syscall.Chmod(path, 0o700|syscall.S_ISGID))
	if _, err := d.Credentials(t.Context(), key); err != nil {
		t.Errorf("Credentials: %v", err)
	}
}

func TestDirFollowsALinkToTheFolder(t *testing.T) {
	t.Parallel()
	_, path := newDir(t)
	link := quietPath(t, t.TempDir(), "link")
	must(t, os.MkdirAll(filepath.Dir(link), 0o700))
	must(t, os.Symlink(path, link))
	wantStored(t, link, credentials())
	must(t, openDir(t, link).SaveCredentials(t.Context(), key, newer(credentials())))
	wantStored(t, path, newer(credentials()))

	must(t, os.Remove(link))
	must(t, os.Symlink(filepath.Join(path, "nothing"), link))
	d := openDir(t, link)
	if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List: %v, %v; want nothing", list, err)
	}
	wantSafe(t, registerIn(t, d, shop()), syscall.ENOENT, link)
}

const (
	goodEntry    = `"connection_key":"conn_ad8c5f3426e68dfa6b0838bd575794c2","base_url":"https://hub.example.com","client_app_id":"commerce-agent","workspace":"inventory"`
	secondEntry  = `"connection_key":"conn_3bdf6e3e011b09eefb9280bcf0ec0847","connection_instance_id":"instance_0123456789abcdef0123456789abcdef","base_url":"https://hub.example.com","client_app_id":"commerce-agent","workspace":"inventory"`
	entryTimes   = `,"created_at":"2026-11-30T08:26:12.375Z","updated_at":"2026-11-30T08:26:12.375Z"`
	current      = `"current_connection_key":"conn_ad8c5f3426e68dfa6b0838bd575794c2",`
	insecureBase = `"connection_key":"conn_3eccb2ae2831766dfb22fdb93537ed7d","base_url":"http://hub.internal:8787","client_app_id":"commerce-agent","workspace":"inventory"`
)

// bookOf is a file of connections with these entries.
func bookOf(schema int, entries ...string) string {
	return fmt.Sprintf(`{"schema_version":%d,"connections":[%s]}`, schema, strings.Join(entries, ","))
}

func entry(members ...string) string { return "{" + strings.Join(members, "") + "}" }

func TestDirRefusesConnections(t *testing.T) {
	t.Parallel()
	good := entry(goodEntry, entryTimes)
	second := entry(secondEntry, entryTimes)
	var many []string
	for i := range registry.MaxConnections + 1 {
		d := other(fmt.Sprint("workspace-", i))
		many = append(many, entry(fmt.Sprintf(`"connection_key":%q,"base_url":%q,"client_app_id":%q,"workspace":%q`, keyOf(t, d), d.HubURL, d.ClientAppID, d.Workspace), entryTimes))
	}
	for name, text := range map[string]string{
		"empty":                       "",
		"no JSON":                     bookOf(1, good) + "]",
		"cut short":                   bookOf(1, good)[:100],
		"an array":                    "[]",
		"null":                        "null",
		"a byte order mark":           "\ufeff" + bookOf(1, good),
		"not UTF-8":                   strings.Replace(bookOf(1, entry(goodEntry, `,"alias":"x"`, entryTimes)), `"x"`, "\"\xff\"", 1),
		"two texts":                   bookOf(1, good) + bookOf(1),
		"no schema version":           `{"connections":[]}`,
		"schema version 0":            bookOf(0, good),
		"schema version 3":            bookOf(3, good),
		"a schema version as text":    `{"schema_version":"1","connections":[]}`,
		"schema 1 with an instance":   bookOf(1, good, second),
		"schema 2 without one":        bookOf(2, good),
		"no connections":              `{"schema_version":1}`,
		"connections that are null":   `{"schema_version":1,"connections":null}`,
		"an entry that is null":       `{"schema_version":1,"connections":[null]}`,
		"an unknown member":           `{"schema_version":1,"connections":[],"note":"canary"}`,
		"an unknown member inside":    bookOf(1, entry(goodEntry, entryTimes, `,"note":"canary"`)),
		"another letter case":         bookOf(1, entry(goodEntry, entryTimes, `,"Alias":"shop"`)),
		"a member twice":              bookOf(1, entry(goodEntry, entryTimes, `,"alias":"a","alias":"b"`)),
		"a null member":               bookOf(1, entry(goodEntry, entryTimes, `,"alias":null`)),
		"a current one that is not":   `{"schema_version":1,"current_connection_key":"conn_00000000000000000000000000000000","connections":[` + good + `]}`,
		"an empty current one":        `{"schema_version":1,"current_connection_key":"","connections":[` + good + `]}`,
		"a key twice":                 bookOf(1, good, good),
		"an alias twice":              bookOf(2, entry(goodEntry, `,"alias":"shop"`, entryTimes), entry(secondEntry, `,"alias":"shop"`, entryTimes)),
		"an instance twice":           bookOf(2, second, entry(strings.ReplaceAll(strings.ReplaceAll(secondEntry, `"https://hub.example.com"`, `"http://127.0.0.1:8787"`), "conn_3bdf6e3e011b09eefb9280bcf0ec0847", "conn_3247ac4147e4440b80501866ffb5e870"), entryTimes)),
		"a key of something else":     bookOf(1, entry(strings.Replace(goodEntry, "inventory", "orders", 1), entryTimes)),
		"a key that is none":          bookOf(1, entry(strings.Replace(goodEntry, "conn_ad", "conn_AD", 1), entryTimes)),
		"a plain key of an instance":  bookOf(2, entry(goodEntry, `,"connection_instance_id":"instance_0123456789abcdef0123456789abcdef"`, entryTimes)),
		"an instance ID that is none": bookOf(2, entry(goodEntry, `,"connection_instance_id":"instance_canary"`, entryTimes)),
		"a URL that is not normal":    bookOf(1, entry(strings.Replace(goodEntry, `.com"`, `.com/"`, 1), entryTimes)),
		"a URL with a user":           bookOf(1, entry(strings.Replace(goodEntry, `https://`, `https://canary@`, 1), entryTimes)),
		"plain http without leave":    bookOf(1, entry(insecureBase, entryTimes)),
		"plain http against leave":    bookOf(1, entry(insecureBase, `,"allow_insecure_http":false`, entryTimes)),
		"a workspace that is none":    bookOf(1, entry(strings.Replace(goodEntry, "inventory", "auto", 1), entryTimes)),
		"an alias with a space":       bookOf(1, entry(goodEntry, `,"alias":" canary"`, entryTimes)),
		"an empty alias":              bookOf(1, entry(goodEntry, `,"alias":""`, entryTimes)),
		"no times":                    bookOf(1, entry(goodEntry)),
		"a time that is none":         bookOf(1, entry(goodEntry, `,"created_at":"2026-11-31T08:26:12.375Z","updated_at":"2026-11-30T08:26:12.375Z"`)),
		"a time without a zone":       bookOf(1, entry(goodEntry, `,"created_at":"2026-11-30T08:26:12.375Z","updated_at":"2026-11-30T08:26:12.375"`)),
		"no URL":                      bookOf(1, entry(`"connection_key":"conn_ad8c5f3426e68dfa6b0838bd575794c2","client_app_id":"commerce-agent","workspace":"inventory"`, entryTimes)),
		"too many":                    bookOf(1, many...),
		"too large":                   bookOf(1, good) + strings.Repeat(" ", 256<<10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, path := newDir(t)
			settle(d)
			_, err := d.Credentials(t.Context(), key)
			must(t, err)
			must(t, os.WriteFile(bookPath(path), []byte(text), 0o600))
			wantRefused(t, path, d, bookPath(path), true)
		})
	}
}

// What is unusual and right is read.
func TestDirTakesConnections(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"space and order":                         " \n" + `{"connections":[{` + goodEntry[len(`"connection_key":"conn_ad8c5f3426e68dfa6b0838bd575794c2",`):] + entryTimes + `,"connection_key":"conn_ad8c5f3426e68dfa6b0838bd575794c2"}],` + current + `"schema_version":1}` + "\n",
		"entries in any order":                    bookOf(2, entry(goodEntry, entryTimes), entry(secondEntry, entryTimes)),
		"an alias that nobody may write any more": bookOf(1, entry(goodEntry, `,"alias":"a\u202eb"`, entryTimes)),
		"times of another zone and precision":     bookOf(1, entry(goodEntry, `,"created_at":"2026-11-30T09:26:12+01:00","updated_at":"2026-11-30T08:26:12.3759999Z"`)),
		"leave for https":                         bookOf(1, entry(goodEntry, `,"allow_insecure_http":true`, entryTimes)),
		"no leave":                                bookOf(1, entry(goodEntry, `,"allow_insecure_http":false`, entryTimes)),
		"just small enough":                       bookOf(1, entry(goodEntry, entryTimes)) + strings.Repeat(" ", 256<<10-len(bookOf(1, entry(goodEntry, entryTimes)))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, path := newDir(t)
			must(t, os.WriteFile(bookPath(path), []byte(text), 0o600))
			if found, err := d.Connection(t.Context(), key); err != nil || found.Key != key {
				t.Errorf("Connection: %+v, %v", found, err)
			}
			before, err := d.List(t.Context())
			must(t, err)
			must(t, registerIn(t, d, other("orders")))
			must(t, d.Remove(t.Context(), keyOf(t, other("orders"))))
			after, err := d.List(t.Context())
			must(t, err)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("writing has changed the entries (-before +after):\n%s", diff)
			}
		})
	}
}

func TestDirRefusesCredentials(t *testing.T) {
	t.Parallel()
	encoded, err := registry.EncodeCredentials(credentials())
	must(t, err)
	good := string(encoded)
	strange := credentials()
	strange.Workspace = "orders"
	foreign, err := registry.EncodeCredentials(strange)
	must(t, err)
	for name, text := range map[string]string{
		"empty":                        "",
		"cut short":                    good[:len(good)/2],
		"an unknown member":            strings.Replace(good, "{", `{"canary":1,`, 1),
		"a member twice":               strings.Replace(good, "{", `{"schema_version":1,`, 1),
		"schema version 2":             strings.Replace(good, `"schema_version":1`, `"schema_version":2`, 1),
		"no refresh token":             strings.Replace(good, `,"refresh_token":"`+refreshCanary+`"`, "", 1),
		"an expiry before the other":   strings.Replace(good, "2099-02-01", "2098-02-01", 1),
		"too large":                    good + strings.Repeat(" ", registry.MaxCredentialsSize),
		"those of another workspace":   string(foreign),
		"those of another Hub":         strings.Replace(good, "hub.example.com", "other.example.com", 1),
		"a token with a line end":      strings.Replace(good, accessCanary, `canary\n`, 1),
		"the connections in its place": bookOf(1, entry(goodEntry, entryTimes)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, path := newDir(t)
			settle(d)
			_, err := d.Credentials(t.Context(), key)
			must(t, err)
			must(t, os.WriteFile(loginPath(path, key), []byte(text), 0o600))
			wantRefused(t, path, d, loginPath(path, key), false)

			// The way out is a new login, or none.
			must(t, d.SaveCredentials(t.Context(), key, newer(credentials())))
			wantStored(t, path, newer(credentials()))
			must(t, os.WriteFile(loginPath(path, key), []byte(text), 0o600))
			must(t, d.DeleteCredentials(t.Context(), key))
			if _, err := d.Credentials(t.Context(), key); !errors.Is(err, registry.ErrNotLoggedIn) {
				t.Errorf("Credentials after DeleteCredentials: %v", err)
			}
		})
	}
}

// A new login and a removal leave alone what is no plain file of the user's.
func TestDirLeavesAloneWhatIsNoFile(t *testing.T) {
	t.Parallel()
	spoils := spoil(t)
	for how, spoil := range map[string]func(string) error{
		"a link": spoils["a link"], "a FIFO": spoils["a FIFO"], "a socket": spoils["a socket"], "a folder": notFile, "another user's": spoils["another user's"],
	} {
		if spoil == nil {
			continue // the tests do not run as root
		}
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			d, path := newDir(t)
			must(t, spoil(loginPath(path, key)))
			before := tree(t, path)
			for _, err := range []error{
				d.SaveCredentials(t.Context(), key, newer(credentials())),
				d.DeleteCredentials(t.Context(), key),
				d.Remove(t.Context(), key),
			} {
				wantSafe(t, err, registry.ErrDamaged, loginPath(path, key), "left alone")
				wantTree(t, path, before)
			}
		})
	}
	for _, wrong := range []fs.FileMode{0o644, 0o400, 0} {
		d, path := newDir(t)
		must(t, os.Chmod(loginPath(path, key), wrong))
		must(t, d.SaveCredentials(t.Context(), key, newer(credentials())))
		wantStored(t, path, newer(credentials()))
		wantClean(t, path)
	}
}
