package registrytest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

// rowStore is a store of one's own, over a database.
type rowStore struct{ db *database }

func (s *rowStore) Connection(ctx context.Context, key string) (registry.Connection, error) {
	row, err := s.db.Select(ctx, key)
	return row.Connection, err
}

func (s *rowStore) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	_, credentials, err := s.ConnectionCredentials(ctx, key)
	return credentials, err
}

// ConnectionCredentials makes the store a registry.LoginReader, which it need
// not be: a host then checks a binding with one query in place of two.
func (s *rowStore) ConnectionCredentials(ctx context.Context, key string) (registry.Connection, registry.Credentials, error) {
	row, err := s.db.Select(ctx, key)
	switch {
	case err != nil:
		return registry.Connection{}, registry.Credentials{}, err
	case row.Login == nil:
		return registry.Connection{}, registry.Credentials{}, registry.ErrNotLoggedIn
	}
	credentials, err := registry.DecodeCredentials(row.Login)
	if err != nil {
		return registry.Connection{}, registry.Credentials{}, err
	}
	// Whoever wrote the row, a login of another connection is never given.
	if err := row.Connection.Check(credentials); err != nil {
		return registry.Connection{}, registry.Credentials{}, fmt.Errorf("%w: %v", registry.ErrDamaged, err)
	}
	return row.Connection, credentials, nil
}

func (s *rowStore) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	unlock, err := s.db.Lock(ctx, key) // an advisory lock of this key: update may take seconds
	if err != nil {
		return err
	}
	defer unlock()
	connection, err := s.Connection(ctx, key)
	if err != nil {
		return err
	}
	current, err := s.Credentials(ctx, key)
	if err != nil {
		return err
	}
	next, err := update(ctx, current)
	if err != nil || next.Equal(current) {
		return err
	}
	if err := connection.Check(next); err != nil {
		return err
	}
	// The old refresh token is used up by now: save, whatever became of ctx, and
	// try again while the database is away.
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.SaveLimit)
	defer cancel()
	for {
		// UPDATE … WHERE key = ? AND login IN (current, next), in one step; no row matched: registry.ErrChanged.
		err := s.db.Replace(saving, key, current, next)
		if err == nil || errors.Is(err, registry.ErrChanged) || saving.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestRowStore(t *testing.T) {
	t.Parallel()
	registrytest.TestStore(t, func(testing.TB) registrytest.Fixture {
		db := newDatabase()
		store := &rowStore{db}
		return registrytest.Fixture{
			Store: store, Other: &rowStore{db},
			Register: db.Register, Login: db.Login, Logout: db.Logout, Remove: db.Remove,
		}
	})
}

// A database that is away during a save, or loses its answer, costs no session
// as long as that is shorter than a save is worth trying.
func TestRowStoreTriesItsSaveAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		away  time.Duration
		loses bool
		saved bool
	}{
		"a restart":         {away: 3 * time.Second, saved: true},
		"a lost answer":     {loses: true, saved: true},
		"a failover":        {away: registry.SaveLimit - time.Second, loses: true, saved: true},
		"out for the night": {away: 8 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase()
				store := &rowStore{db}
				d := registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "synthetic-host", Workspace: "catalog-agent"}
				connection, err := db.Register(t.Context(), d)
				if err != nil {
					t.Fatal(err)
				}
				login := registry.Credentials{
					HubURL: d.HubURL, ClientAppID: d.ClientAppID, Workspace: d.Workspace, SessionID: "11111111-1111-4111-8111-111111111111",
					AccessToken: registry.NewSecret("synthetic-access"), RefreshToken: registry.NewSecret("synthetic-refresh"),
					AccessExpiresAt: time.Now(), RefreshExpiresAt: time.Now().Add(time.Hour),
				}
				if err := db.Login(t.Context(), connection.Key, login); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err = store.UpdateCredentials(t.Context(), connection.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					db.mu.Lock()
					defer db.mu.Unlock()
					db.losesAnswer = test.loses
					if test.away > 0 {
						db.awayUntil = start.Add(test.away)
					}
					c.RefreshToken = registry.NewSecret("synthetic-refresh-next")
					return c, nil
				})
				stored, readErr := store.Credentials(t.Context(), connection.Key)
				if saved := readErr == nil && stored.RefreshToken.Reveal() == "synthetic-refresh-next"; saved != test.saved || (err == nil) != test.saved {
					t.Errorf("saved: %v, %v", saved, err)
				}
				if took := time.Since(start); took > registry.SaveLimit+time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// The same database with a way past the checks of its Login.
func TestRowStoreRefusesForeignRows(t *testing.T) {
	t.Parallel()
	registrytest.TestStore(t, func(testing.TB) registrytest.Fixture {
		db := newDatabase()
		store := &rowStore{db}
		return registrytest.Fixture{
			Store: store, Other: &rowStore{db},
			Register: db.Register, Login: db.Login, Logout: db.Logout, Remove: db.Remove,
			Plant: db.Plant, // into the row, past all checks
		}
	})
}

// database stands for one: rows, and advisory locks beside them.
type database struct {
	mu    sync.Mutex
	rows  map[string]row
	locks map[string]chan struct{}

	awayUntil   time.Time // for saves; the zero value is never
	losesAnswer bool      // to the next save
}

type row struct {
	Connection registry.Connection
	Login      []byte
}

func newDatabase() *database {
	return &database{rows: map[string]row{}, locks: map[string]chan struct{}{}}
}

func (db *database) Select(ctx context.Context, key string) (row, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	found, ok := db.rows[key]
	switch {
	case ctx.Err() != nil:
		return row{}, ctx.Err()
	case !ok:
		return row{}, registry.ErrNotFound
	}
	return found, nil
}

func (db *database) Lock(ctx context.Context, key string) (unlock func(), err error) {
	db.mu.Lock()
	lock, ok := db.locks[key]
	if !ok {
		lock = make(chan struct{}, 1)
		db.locks[key] = lock
	}
	db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Replace is UPDATE … SET login = next WHERE key = ? AND login IN (current, next):
// it may have gone through before, and the answer got lost.
func (db *database) Replace(_ context.Context, key string, current, next registry.Credentials) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if !time.Now().After(db.awayUntil) {
		return errors.New("the database is away")
	}
	found := db.rows[key]
	stored, err := registry.DecodeCredentials(found.Login)
	if err != nil {
		return registry.ErrChanged
	}
	before := found.Login
	if found.Login, err = registry.EncodeCredentials(next); err != nil {
		return err
	}
	if !stored.Equal(current) && !bytes.Equal(before, found.Login) {
		return registry.ErrChanged
	}
	db.rows[key] = found
	if db.losesAnswer {
		db.losesAnswer = false
		return errors.New("the connection broke in the commit")
	}
	return nil
}

func (db *database) Register(_ context.Context, d registry.Descriptor) (registry.Connection, error) {
	key, err := d.ConnectionKey()
	if err != nil {
		return registry.Connection{}, err
	}
	hubURL, err := registry.NormalizeHubURL(d.HubURL, d.AllowInsecureHTTP)
	if err != nil {
		return registry.Connection{}, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	// INSERT … ON CONFLICT (key) DO UPDATE SET allow_insecure_http = …: a
	// connection that is there keeps its login.
	found := db.rows[key]
	found.Connection = registry.Connection{
		Key: key, HubURL: hubURL, ClientAppID: d.ClientAppID, Workspace: d.Workspace, AllowInsecureHTTP: d.AllowInsecureHTTP,
	}
	db.rows[key] = found
	return found.Connection, nil
}

func (db *database) Login(_ context.Context, key string, credentials registry.Credentials) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	found, ok := db.rows[key]
	if !ok {
		return registry.ErrNotFound
	}
	if err := found.Connection.Check(credentials); err != nil {
		return err
	}
	login, err := registry.EncodeCredentials(credentials)
	if err != nil {
		return err
	}
	found.Login = login
	db.rows[key] = found
	return nil
}

// Logout is UPDATE … SET login = NULL WHERE key = ?: it makes no row.
func (db *database) Logout(_ context.Context, key string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	found, ok := db.rows[key]
	if !ok {
		return registry.ErrNotFound
	}
	found.Login = nil
	db.rows[key] = found
	return nil
}

func (db *database) Remove(_ context.Context, key string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.rows, key)
	return nil
}

// Plant is UPDATE … SET login = ? WHERE key = ?, by somebody who checks nothing.
func (db *database) Plant(_ context.Context, key string, credentials registry.Credentials) error {
	login, err := registry.EncodeCredentials(credentials)
	if err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	found, ok := db.rows[key]
	if !ok {
		return registry.ErrNotFound
	}
	found.Login = login
	db.rows[key] = found
	return nil
}
