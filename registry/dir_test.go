//go:build linux

package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/namedlock"
	"github.com/bailinghub/bailinghub-go/internal/namedlock/locktest"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

// Two handles on one folder know nothing of each other, as two processes do.
func TestDirIsAStore(t *testing.T) {
	t.Parallel()
	registrytest.TestStore(t, func(t testing.TB) registrytest.Fixture {
		path := tempPath(t)
		t.Cleanup(func() { wantClean(t, path) })
		fixture := registrytest.Of(openDir(t, path), openDir(t, path))
		fixture.Address = path
		return fixture
	})
}

func TestDirKeepsLogins(t *testing.T) {
	t.Parallel()
	path := tempPath(t)
	testKeeper(t, openDir(t, path))
	wantClean(t, path)
}

// What one registry can do, the other can too. A Dir has locks to name besides.
func TestMemoryAndDirDoTheSame(t *testing.T) {
	t.Parallel()
	methods := func(of reflect.Type) map[string]string {
		all := map[string]string{}
		for method := range of.Methods() {
			signature := method.Type.String()
			all[method.Name] = strings.Replace(signature, of.String(), "", 1)
		}
		return all
	}
	memory, dir := methods(reflect.TypeFor[*registry.Memory]()), methods(reflect.TypeFor[*registry.Dir]())
	for _, own := range []string{"UpdateLock", "SetClock", "SetStep", "SetListen", "CountBook", "CountLogin", "RememberedLogins", "Seal"} {
		delete(dir, own)
	}
	if diff := cmp.Diff(memory, dir); diff != "" {
		t.Errorf("methods (-Memory +Dir):\n%s", diff)
	}
}

func TestOpenDirArguments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path    string
		options []registry.DirOption
		says    string
	}{
		{path: "", says: "path"},
		{path: "/registry\x00", says: "path"},
		{path: "/registry", options: []registry.DirOption{nil}, says: "option"},
	} {
		d, err := registry.OpenDir(test.path, test.options...)
		wantInvalid(t, err, test.says, "")
		if d != nil {
			t.Error("a folder was given beside the error")
		}
	}
}

// Locks are named after the path, so it matters which one that is.
func TestOpenDirPath(t *testing.T) {
	working, err := os.MkdirTemp(t.TempDir(), "")
	must(t, err)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(working, link))
	t.Chdir(link) // which sets $PWD to it
	for opened, named := range map[string]string{
		"registry":           filepath.Join(working, "registry"),
		"./x/..//registry/":  filepath.Join(working, "registry"),
		link + "/registry/.": filepath.Join(link, "registry"),
	} {
		d, err := registry.OpenDir(opened)
		must(t, err)
		var ports locktest.Ports
		ports.Fault = errors.New("stop here")
		d.SetListen(ports.Listen)
		err = registerIn(t, d, shop())
		wantSafe(t, err, nil, fmt.Sprintf("the lock %s, port %d of 127.0.0.1", lockport.Registry(named), namedlock.Port(lockport.Registry(named))))
	}
}

func TestDefaultDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "elsewhere"))
	t.Setenv("BAILINGHUB_AGENT_CLIENT_STORAGE_NAMESPACE", "not-read-here")
	got, err := registry.DefaultDir("")
	if want := filepath.Join(home, ".config/bailinghub"); err != nil || got != want {
		t.Errorf("DefaultDir: %q, %v; want %q", got, err, want)
	}

	data, err := os.ReadFile("../testdata/registry.json")
	must(t, err)
	var vectors struct {
		Namespaces []struct{ Namespace, Segment string }
	}
	must(t, json.Unmarshal(data, &vectors))
	if len(vectors.Namespaces) == 0 {
		t.Fatal("no vectors")
	}
	for _, vector := range vectors.Namespaces {
		got, err := registry.DefaultDir(vector.Namespace)
		if want := filepath.Join(home, ".config/bailinghub/hosts", vector.Segment); err != nil || got != want {
			t.Errorf("DefaultDir(%q): %q, %v; want %q", vector.Namespace, got, err, want)
		}
	}
	for _, namespace := range []string{"A", ".a", "-a", "a b", "a/b", "..", "a\n", "ü", strings.Repeat("a", 65)} {
		got, err := registry.DefaultDir(namespace)
		wantInvalid(t, err, "namespace", namespace)
		if got != "" {
			t.Errorf("DefaultDir(%q) gives %q beside its error", namespace, got)
		}
	}
	if _, err := registry.DefaultDir(strings.Repeat("a", 64)); err != nil {
		t.Errorf("DefaultDir of 64 characters: %v", err)
	}
	for _, home := range []string{"", "relative"} {
		t.Setenv("HOME", home)
		got, err := registry.DefaultDir("")
		wantSafe(t, err, nil, "home folder")
		if got != "" {
			t.Errorf("DefaultDir without a home folder gives %q", got)
		}
	}
}

// The first write makes the folder and those on the way; reading makes nothing.
func TestDirThatIsNotThere(t *testing.T) {
	t.Parallel()
	path := tempPath(t, "config", "hosts")
	base := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	d := openDir(t, path)
	if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List: %v, %v; want nothing", list, err)
	}
	_, err := d.Connection(t.Context(), key)
	_, currentErr := d.Current(t.Context())
	_, aliasErr := d.ByAlias(t.Context(), "shop")
	_, credentialsErr := d.Credentials(t.Context(), key)
	for _, err := range []error{
		err, currentErr, aliasErr, credentialsErr,
		d.Remove(t.Context(), key), d.SaveCredentials(t.Context(), key, credentials()), d.DeleteCredentials(t.Context(), key), d.SetCurrent(t.Context(), key),
		d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) { return c, nil }),
	} {
		if !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("an empty registry gives %v, want ErrNotFound", err)
		}
	}
	must(t, d.SetCurrent(t.Context(), ""))
	if found := tree(t, filepath.Join(base, "config")); len(found) != 0 {
		t.Errorf("reading has made %v", found)
	}
	must(t, registerIn(t, d, shop()))
	if _, err := d.Credentials(t.Context(), key); !errors.Is(err, registry.ErrNotLoggedIn) {
		t.Errorf("Credentials: %v, want ErrNotLoggedIn", err)
	}
	must(t, d.DeleteCredentials(t.Context(), key))
	for _, on := range []string{"config", "config/hosts", "config/hosts/registry"} {
		if info, err := os.Stat(filepath.Join(base, on)); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v; want a folder of mode 0700", on, info.Mode(), err)
		}
	}
	wantClean(t, path)
}

func TestDirConnections(t *testing.T) {
	t.Parallel()
	path := tempPath(t)
	d := openDir(t, path)
	start := time.Date(2026, 11, 30, 8, 26, 12, 375_999_999, time.FixedZone("", 3600))
	d.SetClock(func() time.Time { return start })

	got, err := d.Register(t.Context(), shop(), registry.WithAlias("门店 <B>"))
	must(t, err)
	want := registry.Connection{
		Key: key, Alias: "门店 <B>", HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
		CreatedAt: start.UTC().Truncate(time.Millisecond), UpdatedAt: start.UTC().Truncate(time.Millisecond),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Register (-want +got):\n%s", diff)
	}
	wantFile := func(want string) {
		t.Helper()
		data, err := os.ReadFile(bookPath(path))
		must(t, err)
		if string(data) != want {
			t.Errorf("the file is %s\nwant %s", data, want)
		}
	}
	shopEntry := `{"connection_key":"conn_ad8c5f3426e68dfa6b0838bd575794c2","base_url":"https://hub.example.com","client_app_id":"commerce-agent","workspace":"inventory","alias":"门店 <B>","created_at":"2026-11-30T07:26:12.375Z","updated_at":"2026-11-30T07:26:12.375Z"}`
	wantFile(`{"schema_version":1,"connections":[` + shopEntry + `]}`)

	// Registering what is there already writes nothing.
	before := inode(t, bookPath(path))
	start = start.Add(time.Hour)
	again, err := d.Register(t.Context(), shop())
	must(t, err)
	must(t, d.SetCurrent(t.Context(), ""))
	if again != want || inode(t, bookPath(path)) != before {
		t.Error("registering the same again has changed something")
	}

	must(t, d.SetCurrent(t.Context(), key))
	wantFile(`{"schema_version":1,"current_connection_key":"` + key + `","connections":[` + shopEntry + `]}`)

	// A named instance makes it schema 2, its removal 1 again.
	named, err := d.Register(t.Context(), shop(), registry.WithInstance(instance), registry.WithAlias("second"))
	must(t, err)
	namedEntry := `{"connection_key":"conn_3bdf6e3e011b09eefb9280bcf0ec0847","connection_instance_id":"` + instance + `","base_url":"https://hub.example.com","client_app_id":"commerce-agent","workspace":"inventory","alias":"second","created_at":"2026-11-30T08:26:12.375Z","updated_at":"2026-11-30T08:26:12.375Z"}`
	wantFile(`{"schema_version":2,"current_connection_key":"` + key + `","connections":[` + namedEntry + `,` + shopEntry + `]}`)
	insecure := registry.Descriptor{HubURL: "http://hub.internal:8787", ClientAppID: "commerce-agent", Workspace: "inventory", AllowInsecureHTTP: true}
	plain, err := d.Register(t.Context(), insecure)
	must(t, err)

	fresh := openDir(t, path)
	if list, err := fresh.List(t.Context()); err != nil || !slices.Equal(list, []registry.Connection{named, plain, want}) {
		t.Errorf("List: %+v, %v", list, err)
	}
	if current, err := fresh.Current(t.Context()); err != nil || current != want {
		t.Errorf("Current: %+v, %v", current, err)
	}
	if found, err := fresh.ByAlias(t.Context(), "second"); err != nil || found != named {
		t.Errorf("ByAlias: %+v, %v", found, err)
	}
	if _, err := fresh.ByAlias(t.Context(), "Second"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("ByAlias of another letter case: %v, want ErrNotFound", err)
	}
	if _, err := fresh.ByAlias(t.Context(), ""); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("ByAlias of none: %v, want ErrNotFound", err)
	}

	must(t, d.Remove(t.Context(), named.Key))
	must(t, d.Remove(t.Context(), plain.Key))
	wantFile(`{"schema_version":1,"current_connection_key":"` + key + `","connections":[` + shopEntry + `]}`)
	must(t, d.Remove(t.Context(), key))
	wantFile(`{"schema_version":1,"connections":[]}`)
	if _, err := fresh.Current(t.Context()); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("Current after its removal: %v, want ErrNotFound", err)
	}
	wantClean(t, path)
}

// What a caller gets is his own.
func TestDirGivesCopies(t *testing.T) {
	t.Parallel()
	d, _ := newDir(t)
	settle(d)
	list, err := d.List(t.Context())
	must(t, err)
	list[0].HubURL = "https://other.example.com"
	if found, err := d.Connection(t.Context(), key); err != nil || found.HubURL != "https://hub.example.com" {
		t.Errorf("Connection: %+v, %v", found, err)
	}
}

func TestDirRemovesTheLogin(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	must(t, d.Remove(t.Context(), key))
	if _, err := os.Lstat(loginPath(path, key)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the credential file after Remove: %v", err)
	}
	must(t, registerIn(t, d, shop()))
	must(t, d.SaveCredentials(t.Context(), key, credentials()))
	must(t, d.DeleteCredentials(t.Context(), key))
	must(t, d.DeleteCredentials(t.Context(), key))
	if _, err := os.Lstat(loginPath(path, key)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the credential file after DeleteCredentials: %v", err)
	}
}

func TestDirIsFull(t *testing.T) {
	t.Parallel()
	path := tempPath(t)
	must(t, os.MkdirAll(path, 0o700))
	var entries []string
	for i := range registry.MaxConnections {
		d := other(fmt.Sprint("workspace-", i))
		entries = append(entries, fmt.Sprintf(`{"connection_key":%q,"base_url":%q,"client_app_id":%q,"workspace":%q,"created_at":"2026-11-30T08:26:12.375Z","updated_at":"2026-11-30T08:26:12.375Z"}`,
			keyOf(t, d), d.HubURL, d.ClientAppID, d.Workspace))
	}
	must(t, os.WriteFile(bookPath(path), []byte(`{"schema_version":1,"connections":[`+strings.Join(entries, ",")+`]}`), 0o600))
	d := openDir(t, path)
	list, err := d.List(t.Context())
	if err != nil || len(list) != registry.MaxConnections || !slices.IsSortedFunc(list, func(a, b registry.Connection) int { return strings.Compare(a.Key, b.Key) }) {
		t.Fatalf("List gives %d connections, sorted or not, and %v", len(list), err)
	}
	before := tree(t, path)
	wantSafe(t, registerIn(t, d, shop()), nil, "at most 256 connections")
	wantTree(t, path, before)
	must(t, d.Remove(t.Context(), list[0].Key))
	must(t, registerIn(t, d, shop()))

	// What would not fit in the file is not written.
	path = tempPath(t)
	d = openDir(t, path)
	for i := range 60 {
		long := other("inventory")
		long.HubURL += "/" + strings.Repeat("x", 8000-len(long.HubURL)) + fmt.Sprint(i)
		before := tree(t, path)
		if err := registerIn(t, d, long); err != nil {
			wantSafe(t, err, nil, "larger than 256 KiB")
			wantTree(t, path, before)
			if list, err := d.List(t.Context()); err != nil || len(list) != i {
				t.Errorf("List of a full registry gives %d connections and %v, want %d", len(list), err, i)
			}
			if i < 30 {
				t.Errorf("full after %d connections", i)
			}
			return
		}
	}
	t.Error("a file larger than 256 KiB was written")
}

func TestDirArguments(t *testing.T) {
	t.Parallel()
	d, path := newDir(t)
	before := tree(t, path)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	update := func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		t.Error("the update was called")
		return c, nil
	}
	for name, call := range map[string]func(ctx context.Context, key string) error{
		"Connection":        func(ctx context.Context, key string) error { _, err := d.Connection(ctx, key); return err },
		"Credentials":       func(ctx context.Context, key string) error { _, err := d.Credentials(ctx, key); return err },
		"UpdateCredentials": func(ctx context.Context, key string) error { return d.UpdateCredentials(ctx, key, update) },
		"Remove":            d.Remove,
		"SaveCredentials":   func(ctx context.Context, key string) error { return d.SaveCredentials(ctx, key, newer(credentials())) },
		"DeleteCredentials": d.DeleteCredentials,
		"SetCurrent":        d.SetCurrent,
		"Register":          func(ctx context.Context, _ string) error { _, err := d.Register(ctx, other("orders")); return err },
		"List":              func(ctx context.Context, _ string) error { _, err := d.List(ctx); return err },
		"Current":           func(ctx context.Context, _ string) error { _, err := d.Current(ctx); return err },
		"ByAlias":           func(ctx context.Context, _ string) error { _, err := d.ByAlias(ctx, "shop"); return err },
		"SetCurrent to none": func(ctx context.Context, _ string) error {
			return d.SetCurrent(ctx, "")
		},
	} {
		wantInvalid(t, call(nil, key), "context", "") //nolint:staticcheck // what a caller may do by mistake
		if err := call(cancelled, key); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: %v", name, err)
		}
	}
	for _, wrong := range []string{"", "shop", "conn_123", "../../conn_ad8c5f3426e68dfa6b0838bd575794c2", strings.ToUpper(key), key + "\n"} {
		for _, err := range []error{
			d.Remove(t.Context(), wrong), d.SaveCredentials(t.Context(), wrong, credentials()), d.DeleteCredentials(t.Context(), wrong),
			d.UpdateCredentials(t.Context(), wrong, update),
		} {
			wantInvalid(t, err, "connection key", wrong)
		}
		_, err := d.Connection(t.Context(), wrong)
		wantInvalid(t, err, "connection key", wrong)
		_, err = d.Credentials(t.Context(), wrong)
		wantInvalid(t, err, "connection key", wrong)
	}
	wantInvalid(t, d.UpdateCredentials(t.Context(), key, nil), "update", "")
	wantInvalid(t, registerIn(t, d, registry.Descriptor{}), "Hub URL", "")
	wantInvalid(t, registerIn(t, d, shop(), nil), "option", "")
	wantInvalid(t, d.SaveCredentials(t.Context(), key, registry.Credentials{}), "credentials", "")
	wantTree(t, path, before)
}

// Plain files are used only where the host has said so. To take a login away
// needs no leave.
func TestDirWithoutConsent(t *testing.T) {
	t.Parallel()
	_, path := newDir(t)
	before := tree(t, path)
	d, err := registry.OpenDir(path)
	must(t, err)
	_, err = d.Credentials(t.Context(), key)
	for _, err := range []error{
		err,
		d.SaveCredentials(t.Context(), key, newer(credentials())),
		d.UpdateCredentials(t.Context(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			t.Error("the update was called")
			return c, nil
		}),
	} {
		wantSafe(t, err, nil, "registry.AllowPlainCredentials")
		if errors.Is(err, feedback.CodeInvalidRequest) || errors.Is(err, registry.ErrDamaged) || errors.Is(err, registry.ErrNotLoggedIn) {
			t.Errorf("error %v says more than that", err)
		}
	}
	wantTree(t, path, before)
	if list, err := d.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
	must(t, registerIn(t, d, other("orders")))
	must(t, d.DeleteCredentials(t.Context(), key))
	if _, err := openDir(t, path).Credentials(t.Context(), key); !errors.Is(err, registry.ErrNotLoggedIn) {
		t.Errorf("Credentials after DeleteCredentials: %v", err)
	}
	must(t, d.Remove(t.Context(), key))
}

// Nothing that prints a folder shows a token.
func TestDirPrintsNoToken(t *testing.T) {
	t.Parallel()
	d, _ := newDir(t)
	if _, err := d.Credentials(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		wantNoCanary(t, fmt.Sprintf(format, d))
	}
}
