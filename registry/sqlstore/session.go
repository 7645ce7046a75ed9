package sqlstore

import (
	"bytes"
	"context"
	"errors"

	"github.com/bailinghub/bailinghub-go/internal/sqldb"
	"github.com/bailinghub/bailinghub-go/registry"
)

// deletions is how often a login is read again that was refreshed after it was read
// and before it was deleted.
const deletions = 5

// AddCredentials makes credentials the login of a connection that has none. The error
// matches registry.ErrChanged where it has a login, even one that no key opens, and
// registry.ErrNotFound where there is no connection; see [registry.Connection.Check]
// for the credentials that it refuses.
func (s *Store) AddCredentials(ctx context.Context, key string, credentials registry.Credentials) error {
	const doing = "saving a new login"
	r, err := s.find(ctx, doing, key)
	if err != nil {
		return err
	}
	if err := r.Check(credentials); err != nil {
		return err
	}
	sealed, err := s.seal(ctx, key, credentials)
	if err != nil {
		return err
	}
	return s.replace(ctx, doing, key, nil, sealed)
}

// DeleteSession deletes the login of a connection if it belongs to this session, also
// where its tokens were refreshed. It returns nil where there is no login. The error
// matches registry.ErrChanged where the login belongs to another session, and
// registry.ErrNotFound where there is no connection. It leaves a login alone that it
// cannot read, and returns the error.
func (s *Store) DeleteSession(ctx context.Context, key, sessionID string) error {
	const doing = "deleting a login"
	var err error
	for range deletions {
		var r *row
		var login registry.Credentials
		r, login, err = s.login(ctx, doing, key)
		switch {
		case errors.Is(err, registry.ErrNotLoggedIn):
			return nil
		case err != nil:
			return err
		case login.SessionID != sessionID:
			return fail("the login of "+key+" is one of another session by now", registry.ErrChanged)
		}
		if err = s.replace(ctx, doing, key, r.login.V, nil); !errors.Is(err, registry.ErrChanged) {
			return err
		}
	}
	return err
}

// replace replaces the login before with after; nil stands for none. Where a statement
// changed no row, an earlier one, whose answer was lost, may have done the work: so
// replace compares what is stored with after.
func (s *Store) replace(ctx context.Context, doing, key string, before, after []byte) error {
	var login any // a driver may take a slice that is nil for an empty value
	if after != nil {
		login = after
	}
	statement, args := "UPDATE bailinghub_connections SET login = ? WHERE namespace = ? AND connection_key = ? AND login ", []any{login, s.namespace, key}
	if before == nil {
		statement += "IS NULL"
	} else {
		statement, args = statement+"= ?", append(args, before)
	}
	return s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		n, err := s.db.Exec(ctx, statement, args...)
		if err != nil || n > 0 {
			return err
		}
		r, err := s.find(ctx, doing, key)
		if err == nil && !bytes.Equal(r.login.V, after) {
			return fail("the login of "+key+" was saved, replaced or removed in the meantime", registry.ErrChanged)
		}
		return err
	})
}
