//go:build linux

package registry_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/registry"
)

// interop copies a folder that the other SDK wrote, with the modes that git
// does not keep.
func interop(t testing.TB, name string) (path string) {
	t.Helper()
	path = tempPath(t)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.CopyFS(path, os.DirFS(filepath.Join("../testdata", name))))
	must(t, filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.Chmod(at, 0o700)
		default:
			return os.Chmod(at, 0o600)
		}
	}))
	return path
}

func jsonOf(t testing.TB, path string) (value any) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(data, &value))
	return value
}

// at is a time in the files of the other SDK.
func at(text string) time.Time {
	when, err := time.Parse(time.RFC3339, "2026-11-30T08:26:12."+text+"Z")
	if err != nil {
		panic(err)
	}
	return when
}

func TestDirReadsTheOtherSDK(t *testing.T) {
	t.Parallel()
	const insecure, loggedOut, shopB = "conn_3eccb2ae2831766dfb22fdb93537ed7d", "conn_a300d94aa5189d84849e8e17b7c17098", "conn_daa687c7fe18495455b366d60ebee644"
	connection := func(key, instance, alias, hub, when string) registry.Connection {
		return registry.Connection{
			Key: key, InstanceID: instance, Alias: alias, HubURL: hub, ClientAppID: "commerce-agent", Workspace: "inventory",
			AllowInsecureHTTP: key == insecure, CreatedAt: at(when), UpdatedAt: at(when),
		}
	}
	for name, want := range map[string]struct {
		list    []registry.Connection
		current string
		logins  map[string]string // the digit that the session and the tokens are made of
	}{
		"interop-v1": {
			[]registry.Connection{
				connection(insecure, "", "plain http", "http://hub.internal:8787", "375"),
				connection(key, "", "default", "https://hub.example.com", "367"),
			}, key, map[string]string{insecure: "4", key: "1"},
		},
		"interop-v2": {
			[]registry.Connection{
				connection(insecure, "", "plain http", "http://hub.internal:8787", "391"),
				connection(loggedOut, "instance_cc96bf446fb17d95fe750b62c121d5ec", "logged-out", "https://hub.example.com", "398"),
				connection(key, "", "default", "https://hub.example.com", "387"),
				connection(shopB, "instance_3d3de059a92046d6e7ac9c397d23d0d2", "门店 B", "https://hub.example.com", "394"),
			}, shopB, map[string]string{insecure: "4", key: "1", shopB: "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := interop(t, name)
			d := openDir(t, path)
			list, err := d.List(t.Context())
			must(t, err)
			if diff := cmp.Diff(want.list, list); diff != "" {
				t.Errorf("List (-want +got):\n%s", diff)
			}
			if current, err := d.Current(t.Context()); err != nil || current.Key != want.current {
				t.Errorf("Current: %s, %v; want %s", current.Key, err, want.current)
			}
			for _, c := range want.list {
				if found, err := d.ByAlias(t.Context(), c.Alias); err != nil || found != c {
					t.Errorf("ByAlias(%s): %+v, %v", c.Alias, found, err)
				}
				login, err := d.Credentials(t.Context(), c.Key)
				digit := want.logins[c.Key]
				if digit == "" {
					wantSafe(t, err, registry.ErrNotLoggedIn)
					continue
				}
				must(t, err)
				four := digit + digit + digit + digit
				if !login.Equal(registry.Credentials{
					HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace,
					SessionID:   four + four + "-" + four + "-4" + four[1:] + "-8" + four[1:] + "-" + four + four + four,
					AccessToken: registry.NewSecret("synthetic-access-" + four), RefreshToken: registry.NewSecret("synthetic-refresh-" + four),
					AccessExpiresAt: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), RefreshExpiresAt: time.Date(2099, 2, 1, 0, 0, 0, 0, time.UTC),
				}) {
					t.Errorf("the login of %s is another one", c.Alias)
				}
			}
			wantClean(t, path)
		})
	}
}

// Written from the same, member for member the same.
func TestDirWritesAsTheOtherSDK(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"interop-v1", "interop-v2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := interop(t, name)
			d := openDir(t, path)
			current, err := d.Current(t.Context())
			must(t, err)
			list, err := d.List(t.Context())
			must(t, err)

			before := changed(t, bookPath(path))
			must(t, d.SetCurrent(t.Context(), ""))
			must(t, d.SetCurrent(t.Context(), current.Key))
			if changed(t, bookPath(path)).Equal(before) {
				t.Fatal("nothing was written")
			}
			for _, c := range list {
				login, err := d.Credentials(t.Context(), c.Key)
				if err != nil {
					continue
				}
				must(t, d.DeleteCredentials(t.Context(), c.Key))
				must(t, d.SaveCredentials(t.Context(), c.Key, login))
				if diff := cmp.Diff(jsonOf(t, loginPath(filepath.Join("../testdata", name), c.Key)), jsonOf(t, loginPath(path, c.Key))); diff != "" {
					t.Errorf("the login of %s (-want +got):\n%s", c.Alias, diff)
				}
			}
			if diff := cmp.Diff(jsonOf(t, bookPath(filepath.Join("../testdata", name))), jsonOf(t, bookPath(path))); diff != "" {
				t.Errorf("the connections (-want +got):\n%s", diff)
			}

			// Registered anew, they differ in nothing but their times and their order.
			path = tempPath(t)
			d = openDir(t, path)
			for i := len(list) - 1; i >= 0; i-- {
				options := []registry.RegisterOption{registry.WithAlias(list[i].Alias)}
				if list[i].InstanceID != "" {
					options = append(options, registry.WithInstance(list[i].InstanceID))
				}
				when := list[i].CreatedAt
				d.SetClock(func() time.Time { return when })
				must(t, registerIn(t, d, list[i].Descriptor(), options...))
			}
			must(t, d.SetCurrent(t.Context(), current.Key))
			if diff := cmp.Diff(jsonOf(t, bookPath(filepath.Join("../testdata", name))), jsonOf(t, bookPath(path))); diff != "" {
				t.Errorf("the connections, registered anew (-want +got):\n%s", diff)
			}
		})
	}
}

// As git gives them, files are not private.
func TestDirRefusesTheModesOfGit(t *testing.T) {
	t.Parallel()
	path := interop(t, "interop-v1")
	must(t, os.Chmod(bookPath(path), 0o644))
	_, err := openDir(t, path).List(t.Context())
	wantSafe(t, err, registry.ErrDamaged, bookPath(path), "0644", "0600")
	must(t, os.Chmod(bookPath(path), 0o600))
	must(t, os.Chmod(path, 0o755))
	_, err = openDir(t, path).List(t.Context())
	wantSafe(t, err, registry.ErrDamaged, path, "0755", "0700")
}
