package agentauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// members gives the names of a JSON object's members in their order, and those
// of the objects in the array "connections".
func members(t *testing.T, path string) (names []string, connections [][]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	var stack [][]string
	key := true
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names, connections
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				stack, key = append(stack, nil), true
			case '}':
				last := stack[len(stack)-1]
				if stack = stack[:len(stack)-1]; len(stack) == 0 {
					names = last
				} else {
					connections = append(connections, last)
				}
				key = true
			default:
				key = true
			}
		default:
			if name, ok := token.(string); ok && key {
				stack[len(stack)-1] = append(stack[len(stack)-1], name)
				key = false
			} else {
				key = true
			}
		}
	}
}

// A login into a folder of the other SDK leaves files as that writes them, and
// everything of its own as it was. While the person decides no lock is held: the
// other side can log in, and loses nothing.
func TestWithTheOtherSDKsFiles(t *testing.T) {
	t.Parallel()
	path := lockport.Quiet(t.TempDir(), "registry")
	if err := os.CopyFS(path, os.DirFS("../../testdata/interop-v2")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		mode := fs.FileMode(0o600)
		if err == nil && entry.IsDir() {
			mode = 0o700
		}
		return errors.Join(err, os.Chmod(at, mode))
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{}
	files, err := filepath.Glob(filepath.Join(path, "agent-connections", "*.json"))
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		theirs[file] = string(data)
	}
	wantFile, _ := members(t, files[0])
	wantBook, wantEntries := members(t, filepath.Join(path, "agent-connections.json"))

	store, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	if err != nil {
		t.Fatal(err)
	}
	h := newHub(t)
	options := agreeing(t, h)
	show := options.Show
	var meanwhile registry.Connection
	options.Show = func(ctx context.Context, prompt agentauth.Prompt) error {
		other, err := registry.OpenDir(path, registry.AllowPlainCredentials()) // as another process
		if err != nil {
			return err
		}
		brief, cancel := context.WithTimeout(ctx, 5*time.Second) // the lock of the registry is free
		defer cancel()
		if meanwhile, err = other.Register(brief, registry.Descriptor{HubURL: hubURL, ClientAppID: clientApp, Workspace: "orders"}, registry.WithAlias("meanwhile")); err != nil {
			return err
		}
		return show(ctx, prompt)
	}
	made := mustLogIn(t, store, options)
	if made.Connection.InstanceID != "" {
		t.Errorf("%+v", made)
	}
	again := mustLogIn(t, store, agreeing(t, h)) // an instance
	for file, before := range theirs {
		if data, err := os.ReadFile(file); err != nil || string(data) != before {
			t.Errorf("%s has changed (%v)", file, err)
		}
	}
	for _, connection := range []registry.Connection{made.Connection, again.Connection} {
		got, _ := members(t, filepath.Join(path, "agent-connections", connection.Key+".json"))
		if diff := cmp.Diff(wantFile, got); diff != "" {
			t.Error(diff)
		}
	}
	book, entries := members(t, filepath.Join(path, "agent-connections.json"))
	if diff := cmp.Diff(wantBook, book); diff != "" || len(entries) != len(wantEntries)+3 {
		t.Errorf("%s, %d entries", diff, len(entries))
	}
	known := map[string]bool{}
	for _, entry := range append(wantEntries, []string{"connection_key", "base_url", "client_app_id", "workspace", "created_at", "updated_at"},
		[]string{"connection_key", "connection_instance_id", "base_url", "client_app_id", "workspace", "created_at", "updated_at"}) {
		known[strings.Join(entry, " ")] = true
	}
	for _, entry := range entries {
		if !known[strings.Join(entry, " ")] {
			t.Errorf("an entry with %q", entry)
		}
	}
	if seen := look(t, store); seen.Current != again.Connection.Key || seen.Sessions[meanwhile.Key] != "" {
		t.Errorf("%+v", seen)
	}
}
