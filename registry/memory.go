package registry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/namedlock"
)

// Memory is a registry in memory, for tests and for hosts that begin a new session
// each time they start. When the process ends, the refreshed tokens are lost, and
// using an older refresh token makes the Hub end the session. So a host that
// continues a session after a restart needs another store. Memory keeps the same
// rules as a registry on disk.
//
// The zero Memory is an empty registry. A Memory is safe for concurrent use
// and must not be copied. An error of its methods matches
// feedback.CodeInvalidRequest where an argument is wrong, and the context's
// error where that has ended.
type Memory struct {
	mu     sync.RWMutex
	book   book
	logins map[string]Credentials

	updates namedlock.Local
}

var _ LoginReader = (*Memory)(nil)

// NewMemory gives an empty registry.
func NewMemory() *Memory { return &Memory{} }

// NewInstanceID makes an instance ID from random bits.
func NewInstanceID() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	return "instance_" + hex.EncodeToString(bits[:])
}

// Register adds the connection that d describes. A connection that is registered
// already keeps its login and its CreatedAt. It gets the AllowInsecureHTTP of d, and
// the alias of [WithAlias] where that is given. A registry holds at most
// [MaxConnections].
func (m *Memory) Register(ctx context.Context, d Descriptor, options ...RegisterOption) (Connection, error) {
	if err := ready(ctx, "registering a connection"); err != nil {
		return Connection{}, err
	}
	r, err := NewRegistration(d, options...)
	if err != nil {
		return Connection{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, _, err := m.book.register(r, time.Now())
	return entry, err
}

// List gives all connections, sorted by key.
func (m *Memory) List(ctx context.Context) ([]Connection, error) {
	if err := ready(ctx, "listing connections"); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.book.connections), nil
}

// Remove removes a connection and its login. Where it was the current connection,
// there is none afterwards. The error matches [ErrNotFound] where the key has no
// connection.
func (m *Memory) Remove(ctx context.Context, key string) error {
	return m.change(ctx, "removing a connection", key, func() error {
		delete(m.logins, key)
		return m.book.remove(key)
	})
}

// SaveCredentials makes credentials the login of a connection, in place of the one
// that it may have. It does not wait for an update that is running: that update will
// find the newer login and save nothing. The error matches [ErrNotFound] where there
// is no connection; see [Connection.Check] for the credentials that it refuses.
func (m *Memory) SaveCredentials(ctx context.Context, key string, credentials Credentials) error {
	return m.change(ctx, "saving credentials", key, func() error {
		entry, err := m.book.find(key)
		if err != nil {
			return err
		}
		normal, err := entry.accept(credentials)
		if err != nil {
			return err
		}
		m.save(key, normal)
		return nil
	})
}

// DeleteCredentials deletes the login of a connection, and returns nil where there
// is none. The error matches [ErrNotFound] where there is no connection.
func (m *Memory) DeleteCredentials(ctx context.Context, key string) error {
	return m.change(ctx, "deleting credentials", key, func() error {
		delete(m.logins, key)
		_, err := m.book.find(key)
		return err
	})
}

// SetCurrent makes a connection the current one, which hosts may offer a person as
// the default. No inspection ever falls back to it. After the key "" there is no
// current connection. The error matches [ErrNotFound] where there is no connection.
func (m *Memory) SetCurrent(ctx context.Context, key string) error {
	if key == "" {
		if err := ready(ctx, "changing the current connection"); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.book.setCurrent("")
	}
	return m.change(ctx, "changing the current connection", key, func() error { return m.book.setCurrent(key) })
}

// Current gives the current connection. The error matches [ErrNotFound] where
// there is none.
func (m *Memory) Current(ctx context.Context) (Connection, error) {
	if err := ready(ctx, "reading the current connection"); err != nil {
		return Connection{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.book.find(m.book.current)
}

// Rename gives a connection another alias; "" removes it. See [WithAlias] for what an
// alias may be. The error matches [ErrNotFound] where there is no connection.
func (m *Memory) Rename(ctx context.Context, key, alias string) error {
	return m.change(ctx, renaming, key, func() error {
		_, err := m.book.rename(key, alias, time.Now())
		return err
	})
}

// ByAlias gives the connection with exactly this alias. The error matches
// [ErrNotFound] where there is none.
func (m *Memory) ByAlias(ctx context.Context, alias string) (Connection, error) {
	if err := ready(ctx, "reading a connection"); err != nil {
		return Connection{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.book.byAlias(alias)
}

// Connection implements [Store].
func (m *Memory) Connection(ctx context.Context, key string) (Connection, error) {
	if err := ready(ctx, "reading a connection"); err != nil {
		return Connection{}, err
	}
	if err := checkKey(key); err != nil {
		return Connection{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.book.find(key)
}

// Credentials implements [Store].
func (m *Memory) Credentials(ctx context.Context, key string) (Credentials, error) {
	if err := ready(ctx, "reading credentials"); err != nil {
		return Credentials{}, err
	}
	if err := checkKey(key); err != nil {
		return Credentials{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.login(key)
}

// ConnectionCredentials implements [LoginReader].
func (m *Memory) ConnectionCredentials(ctx context.Context, key string) (Connection, Credentials, error) {
	if err := ready(ctx, "reading a login"); err != nil {
		return Connection{}, Credentials{}, err
	}
	if err := checkKey(key); err != nil {
		return Connection{}, Credentials{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	credentials, err := m.login(key)
	if err != nil {
		return Connection{}, Credentials{}, err
	}
	connection, err := m.book.find(key)
	if err != nil {
		return Connection{}, Credentials{}, err
	}
	return connection, credentials, nil
}

// UpdateCredentials implements [Store]. update runs in the goroutine of the caller.
func (m *Memory) UpdateCredentials(ctx context.Context, key string, update func(context.Context, Credentials) (Credentials, error)) error {
	if err := ready(ctx, "updating credentials"); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if update == nil {
		return invalid("the update must not be nil")
	}
	unlock, ok := m.updates.Lock(ctx, key)
	if !ok {
		return ended(ctx, "waiting for another update of "+key, ErrLocked)
	}
	defer unlock()

	m.mu.RLock()
	before, err := m.login(key)
	m.mu.RUnlock()
	if err != nil {
		return err
	}
	after, err := update(ctx, before)
	if err != nil {
		return err
	}
	if after.Equal(before) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, err := m.book.find(key)
	if err != nil || !m.logins[key].Equal(before) {
		return ErrChanged
	}
	normal, err := entry.accept(after)
	if err != nil {
		return err
	}
	m.save(key, normal)
	return nil
}

// change checks ctx and key and runs do with everything locked.
func (m *Memory) change(ctx context.Context, doing, key string, do func() error) error {
	if err := ready(ctx, doing); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return do()
}

func (m *Memory) save(key string, credentials Credentials) {
	if m.logins == nil {
		m.logins = map[string]Credentials{}
	}
	m.logins[key] = credentials
}

// login gives the credentials of a key. The caller holds m.mu.
func (m *Memory) login(key string) (Credentials, error) {
	if credentials, ok := m.logins[key]; ok {
		return credentials, nil
	}
	if _, err := m.book.find(key); err != nil {
		return Credentials{}, err
	}
	return Credentials{}, ErrNotLoggedIn
}
