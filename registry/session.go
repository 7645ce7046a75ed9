package registry

import (
	"context"
	"errors"
)

// What follows is for those who make and end sessions: neither overwrites nor
// deletes what another process has put there in the meantime.

// AddCredentials makes credentials the login of a connection that has none. The
// error matches [ErrChanged] where it has one, a damaged one included, and
// [ErrNotFound] where there is no connection; see [Connection.Check] for what is
// refused.
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

// DeleteSession deletes the login of a connection while it is that of this
// session, whatever became of its tokens; it is no error when there is no login.
// The error matches [ErrChanged] where there is one of another session, and
// [ErrNotFound] where there is no connection.
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

// DeleteSession does what [Memory.DeleteSession] does. A login that cannot be
// read is left alone, and its error returned.
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
