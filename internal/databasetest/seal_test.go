package databasetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// Marks of the tokens of this file, which must be in no file of a database.
const accessMark, refreshMark = "synthetic-canary-access", "synthetic-canary-refresh"

func descriptor(workspace string) registry.Descriptor {
	return registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: workspace}
}

func loginOf(c registry.Connection, n int) registry.Credentials {
	return registry.Credentials{
		HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace, SessionID: "11111111-1111-4111-8111-111111111111",
		AccessToken: registry.NewSecret(fmt.Sprint(accessMark, n)), RefreshToken: registry.NewSecret(fmt.Sprint(refreshMark, n)),
		AccessExpiresAt: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), RefreshExpiresAt: time.Date(2099, 2, 1, 0, 0, 0, 0, time.UTC),
	}
}

// loggedIn registers a connection with a login.
func loggedIn(t testing.TB, store *sqlstore.Store, workspace string) registry.Connection {
	t.Helper()
	connection, err := store.Register(t.Context(), descriptor(workspace))
	must(t, err)
	must(t, store.SaveCredentials(t.Context(), connection.Key, loginOf(connection, 1)))
	return connection
}

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		own := namespace()
		old, both := d.open(t, own, sqlstore.WithKeys(key(1))), d.open(t, own, sqlstore.WithKeys(key(2), key(1)))
		after, other := d.open(t, own, sqlstore.WithKeys(key(2))), d.open(t, own, sqlstore.WithKeys(key(3)))
		c := loggedIn(t, old, "inventory")
		reads := func(name string, store *sqlstore.Store, want error) {
			t.Helper()
			got, err := store.Credentials(t.Context(), c.Key)
			if !errors.Is(err, want) || err == nil && !got.Equal(loginOf(c, 1)) {
				t.Errorf("%s reads %v; want %v", name, err, want)
			}
		}
		reads("the old key", old, nil)
		reads("both keys", both, nil)
		reads("the new key", after, sqlstore.ErrKey)
		reads("another key", other, sqlstore.ErrKey)
		reads("no key", d.open(t, own, sqlstore.WithPlainTokens()), sqlstore.ErrKey)

		// Who cannot open a login does not update it either, nor seal it anew.
		called := false
		err := other.UpdateCredentials(t.Context(), c.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			called = true
			return c, nil
		})
		if called || !errors.Is(err, sqlstore.ErrKey) {
			t.Errorf("an update with another key: called %v, %v", called, err)
		}
		if _, err := other.Reseal(t.Context()); !errors.Is(err, sqlstore.ErrKey) {
			t.Errorf("Reseal with another key: %v", err)
		}
		reads("the old key, afterwards", old, nil)

		n, err := both.Reseal(t.Context())
		if n != 1 || err != nil {
			t.Errorf("Reseal: %d, %v", n, err)
		}
		reads("the new key, after Reseal", after, nil)
		reads("the old key, after Reseal", old, sqlstore.ErrKey)
		// A new login replaces one that no key opens.
		must(t, other.SaveCredentials(t.Context(), c.Key, loginOf(c, 1)))
		reads("another key, after a login", other, nil)
	})
}

// A login that was changed, or moved to another connection or namespace, is
// damaged, and is not written over by an update.
func TestMovedLogin(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		first, second := fmt.Sprint("moved-a-", namespaces.Add(1)), fmt.Sprint("moved-b-", namespaces.Add(1))
		a := d.open(t, sqlstore.WithNamespace(first), sqlstore.WithKeys(key(1)))
		b := d.open(t, sqlstore.WithNamespace(second), sqlstore.WithKeys(key(1)))
		source, target := loggedIn(t, a, "inventory"), loggedIn(t, a, "orders")
		loggedIn(t, b, "inventory")
		sealed := d.login(t, first, source.Key)
		flipped := bytes.Clone(sealed)
		flipped[len(flipped)-1] ^= 1
		for _, damage := range []struct {
			name           string
			store          *sqlstore.Store
			namespace, key string
			login          []byte
		}{
			{"moved to another connection", a, first, target.Key, sealed},
			{"moved to another namespace", b, second, source.Key, sealed},
			{"changed by a bit", a, first, source.Key, flipped},
			{"cut", a, first, source.Key, sealed[:20]},
			{"empty", a, first, source.Key, []byte{}},
			{"of an unknown format", a, first, source.Key, append([]byte{9}, sealed[1:]...)},
			{"plain", a, first, source.Key, []byte("\x00{}")},
		} {
			must(t, d.setLogin(t.Context(), damage.namespace, damage.key, damage.login))
			if _, err := damage.store.Credentials(t.Context(), damage.key); !errors.Is(err, registry.ErrDamaged) {
				t.Errorf("a login that was %s: %v", damage.name, err)
			}
			err := damage.store.UpdateCredentials(t.Context(), damage.key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
				t.Error("update is called with a damaged login")
				return registry.Credentials{}, nil
			})
			if !errors.Is(err, registry.ErrDamaged) {
				t.Errorf("an update of a login that was %s: %v", damage.name, err)
			}
			if got := d.login(t, damage.namespace, damage.key); !bytes.Equal(got, damage.login) {
				t.Errorf("a login that was %s was written over", damage.name)
			}
		}
	})
}

func (d *database) login(t testing.TB, namespace, key string) (login []byte) {
	t.Helper()
	statement := "SELECT login FROM bailinghub_connections WHERE namespace = ? AND connection_key = ?"
	if d.dialect == sqlstore.PostgreSQL {
		statement = "SELECT login FROM bailinghub_connections WHERE namespace = $1 AND connection_key = $2"
	}
	must(t, d.db.QueryRow(statement, namespace, key).Scan(&login))
	return login
}

// sealedMark is in tokens that are only ever stored sealed.
const sealedMark = "synthetic-canary-sealed"

// No token is in the files of a database or in its log, where every statement
// stands.
func TestNoTokenInTheFiles(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		store := d.open(t, namespace(), sqlstore.WithKeys(key(1)))
		for i := range 20 {
			c := loggedIn(t, store, fmt.Sprint("workspace-", i))
			sealed := loginOf(c, 1)
			sealed.AccessToken, sealed.RefreshToken = registry.NewSecret(sealedMark+"-access"), registry.NewSecret(sealedMark+"-refresh")
			must(t, store.SaveCredentials(t.Context(), c.Key, sealed))
			must(t, store.UpdateCredentials(t.Context(), c.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				c.AccessToken = registry.NewSecret(sealedMark + "-next")
				return c, nil
			}))
		}
		seen := 0
		must(t, filepath.WalkDir(d.server.Dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil // gone meanwhile
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return nil
			}
			seen++
			if bytes.Contains(data, []byte(sealedMark)) {
				t.Errorf("%s is in %s", sealedMark, path)
			}
			return nil
		}))
		if seen == 0 {
			t.Error("no file was read")
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	d := databases[0]
	for name, options := range map[string][]sqlstore.Option{
		"no key":               nil,
		"a short key":          {sqlstore.WithKeys(make([]byte, 16))},
		"a short second key":   {sqlstore.WithKeys(key(1), nil)},
		"keys and plain":       {sqlstore.WithKeys(key(1)), sqlstore.WithPlainTokens()},
		"a nil sealer":         {sqlstore.WithSealer(nil)},
		"a zero option":        {sqlstore.WithKeys(key(1)), {}},
		"a namespace in caps":  {sqlstore.WithKeys(key(1)), sqlstore.WithNamespace("Shop")},
		"a namespace and more": {sqlstore.WithKeys(key(1)), sqlstore.WithNamespace("shop\n")},
		"a short lease":        {sqlstore.WithKeys(key(1)), sqlstore.WithLease(time.Millisecond)},
		"a long lease":         {sqlstore.WithKeys(key(1)), sqlstore.WithLease(2 * time.Hour)},
	} {
		if store, err := sqlstore.Open(t.Context(), d.db, d.dialect, options...); store != nil || !errors.Is(err, feedback.CodeInvalidRequest) || !strings.HasPrefix(err.Error(), "sqlstore: ") {
			t.Errorf("%s: %v, %v", name, store, err)
		}
	}
	if _, err := sqlstore.Open(t.Context(), nil, d.dialect, sqlstore.WithKeys(key(1))); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("a nil database: %v", err)
	}
	if _, err := sqlstore.Open(t.Context(), d.db, sqlstore.Dialect{}, sqlstore.WithKeys(key(1))); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("no dialect: %v", err)
	}
	//lint:ignore SA1012 the nil context is the case
	if _, err := sqlstore.Open(nil, d.db, d.dialect, sqlstore.WithKeys(key(1))); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("a nil context: %v", err)
	}
}

// sealer is a host's own, which can be out of reach.
type sealer struct{ down error }

func (s *sealer) Seal(_ context.Context, plaintext, _ []byte) ([]byte, error) {
	if s.down != nil {
		return nil, s.down
	}
	return invert(plaintext), nil
}

func (s *sealer) Open(_ context.Context, sealed, _ []byte) ([]byte, error) {
	return invert(sealed), nil
}

func invert(data []byte) []byte {
	out := bytes.Clone(data)
	for i := range out {
		out[i] ^= 0xff
	}
	return out
}

// Where the login could not be sealed afterwards, update is not called: its
// refresh token would be used up for nothing.
func TestSealerIsAskedFirst(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		service := &sealer{}
		store := d.open(t, namespace(), sqlstore.WithSealer(service))
		connection, err := store.Register(t.Context(), descriptor("inventory"))
		must(t, err)
		login := loginOf(connection, 1)
		must(t, store.SaveCredentials(t.Context(), connection.Key, login))
		service.down = errors.New("the key service is down")
		err = store.UpdateCredentials(t.Context(), connection.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			t.Error("update is called")
			return c, nil
		})
		if !errors.Is(err, service.down) {
			t.Errorf("an update: %v", err)
		}
	})
}
