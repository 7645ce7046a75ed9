package registry

import (
	"context"
	"errors"
)

// AddCredentials and DeleteSession are for programs that make and end sessions.
// Neither of them overwrites or deletes a login that another process has saved in
// the meantime.

// AddCredentials makes credentials the login of a connection that has none. The error
// matches [ErrChanged] where it has a login, even a damaged one, and [ErrNotFound]
// where there is no connection; see [Connection.Check] for the credentials that it
// refuses.
func (m *Memory) AddCredentials(ctx context.Context, key string, credentials Credentials) error {
	return m.change(ctx, "saving a new login", key, func() error {
		entry, err := m.book.find(key)
		if err != nil {
			return err
		}
		normal, err := entry.accept(credentials)
		if err != nil {
			return err
		}
		if _, ok := m.logins[key]; ok {
			return ErrChanged
		}
		m.save(key, normal)
		return nil
	})
}

// DeleteSession deletes the login of a connection if it belongs to this session, also
// where its tokens were refreshed. It returns nil where there is no login. The error
// matches [ErrChanged] where the login belongs to another session, and [ErrNotFound]
// where there is no connection.
func (m *Memory) DeleteSession(ctx context.Context, key, sessionID string) error {
	return m.change(ctx, "deleting a login", key, func() error {
		if _, err := m.book.find(key); err != nil {
			return err
		}
		if login, ok := m.logins[key]; ok && login.SessionID != sessionID {
			return ErrChanged
		}
		delete(m.logins, key)
		return nil
	})
}

// AddCredentials does what [Memory.AddCredentials] does.
func (d *Dir) AddCredentials(ctx context.Context, key string, credentials Credentials) error {
	if err := d.check(ctx, "saving a new login", key); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		entry, err := d.entry(key)
		if err != nil {
			return err
		}
		normal, err := entry.accept(credentials)
		if err != nil {
			return err
		}
		switch _, err := d.vault.read(entry); {
		case err == nil, errors.Is(err, ErrDamaged):
			return ErrChanged
		case !errors.Is(err, ErrNotLoggedIn):
			return err
		}
		return d.vault.write(entry, normal)
	})
}

// DeleteSession does what [Memory.DeleteSession] does. It leaves a login alone that it
// cannot read, and returns the error.
func (d *Dir) DeleteSession(ctx context.Context, key, sessionID string) error {
	if err := d.check(ctx, "deleting a login", key); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		entry, err := d.entry(key)
		if err != nil {
			return err
		}
		login, err := d.vault.read(entry)
		switch {
		case errors.Is(err, ErrNotLoggedIn):
			return nil
		case err != nil:
			return err
		case login.SessionID != sessionID:
			return ErrChanged
		}
		return d.vault.erase(key)
	})
}
