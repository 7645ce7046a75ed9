package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/sqldb"
	"github.com/bailinghub/bailinghub-go/registry"
)

// row is one row of bailinghub_connections.
type row struct {
	registry.Connection
	login sql.Null[[]byte] // as it is stored
}

const columns = "connection_key, instance_id, alias, hub_url, client_app_id, workspace, allow_insecure_http, created_at, updated_at, login"

func (r *row) scan(scan func(...any) error) error {
	var instanceID, alias sql.NullString
	var insecure int
	var created, updated int64
	err := scan(&r.Key, &instanceID, &alias, &r.HubURL, &r.ClientAppID, &r.Workspace, &insecure, &created, &updated, &r.login)
	r.InstanceID, r.Alias, r.AllowInsecureHTTP = instanceID.String, alias.String, insecure != 0
	r.CreatedAt, r.UpdatedAt = time.UnixMilli(created).UTC(), time.UnixMilli(updated).UTC()
	return err
}

// read gives the one row of the namespace for which a condition holds. The error
// matches registry.ErrNotFound where there is none.
func (s *Store) read(ctx context.Context, doing, condition string, args ...any) (*row, error) {
	var r row
	err := s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		r = row{}
		err := r.scan(s.db.QueryRow(ctx, "SELECT "+columns+" FROM bailinghub_connections WHERE namespace = ? AND "+condition, append([]any{s.namespace}, args...)...).Scan)
		if sqldb.IsNoRow(err) {
			return fail("there is no such connection", registry.ErrNotFound)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &r, s.check(&r)
}

// check returns an error for a row that this package would not have written.
func (s *Store) check(r *row) error {
	key, err := r.Descriptor().ConnectionKey()
	if r.InstanceID != "" {
		key, err = r.Descriptor().InstanceKey(r.InstanceID)
	}
	if err != nil || key != r.Key {
		return fail("the row of "+r.Key+" is damaged: its key is not that of its Hub, client app and workspace", registry.ErrDamaged)
	}
	return nil
}

// find reads the row of a key.
func (s *Store) find(ctx context.Context, doing, key string) (*row, error) {
	if err := s.db.Ready(ctx, doing); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return s.read(ctx, doing, "connection_key = ?", key)
}

// Connection implements [registry.Store] with one query.
func (s *Store) Connection(ctx context.Context, key string) (registry.Connection, error) {
	r, err := s.find(ctx, "reading a connection", key)
	if err != nil {
		return registry.Connection{}, err
	}
	return r.Connection, nil
}

// Credentials implements [registry.Store] with one query.
func (s *Store) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	_, credentials, err := s.ConnectionCredentials(ctx, key)
	return credentials, err
}

// ConnectionCredentials gives a connection and its login as they were at one
// moment, with one query. Its errors are those of Connection and Credentials.
func (s *Store) ConnectionCredentials(ctx context.Context, key string) (registry.Connection, registry.Credentials, error) {
	r, credentials, err := s.login(ctx, "reading a connection and its login", key)
	if err != nil {
		return registry.Connection{}, registry.Credentials{}, err
	}
	return r.Connection, credentials, nil
}

// login reads the row of a key and unseals its login.
func (s *Store) login(ctx context.Context, doing, key string) (*row, registry.Credentials, error) {
	r, err := s.find(ctx, doing, key)
	if err != nil {
		return nil, registry.Credentials{}, err
	}
	if !r.login.Valid {
		return nil, registry.Credentials{}, fail("the connection "+key+" has no login", registry.ErrNotLoggedIn)
	}
	credentials, err := s.unseal(ctx, r)
	return r, credentials, err
}

// Register does what [registry.Memory.Register] does, without a limit on how
// many connections there are.
func (s *Store) Register(ctx context.Context, d registry.Descriptor, options ...registry.RegisterOption) (registry.Connection, error) {
	const doing = "registering a connection"
	if err := s.db.Ready(ctx, doing); err != nil {
		return registry.Connection{}, err
	}
	registration, err := registry.NewRegistration(d, options...)
	if err != nil {
		return registry.Connection{}, err
	}
	var entry registry.Connection
	err = s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		entry, err = s.register(ctx, registration)
		return err
	})
	if err != nil {
		return registry.Connection{}, err
	}
	return entry, nil
}

// register makes one attempt. Where another process registers the same connection or
// the same alias at that moment, the statement fails, and the next attempt reads what
// that process wrote.
func (s *Store) register(ctx context.Context, registration registry.Registration) (registry.Connection, error) {
	var now int64
	if err := s.db.QueryRow(ctx, "SELECT {now}").Scan(&now); err != nil {
		return registry.Connection{}, err
	}
	existing, err := s.find(ctx, "reading a connection", registration.Key())
	if errors.Is(err, registry.ErrNotFound) {
		existing, err = &row{}, nil
	}
	if err != nil {
		return registry.Connection{}, err
	}
	entry, changed := registration.Apply(existing.Connection, time.UnixMilli(now))
	if !changed {
		return entry, nil
	}
	if existing.Key != "" {
		return entry, s.rewrite(ctx, entry)
	}
	_, err = s.db.Exec(ctx, "INSERT INTO bailinghub_connections (namespace, connection_key, instance_id, alias, hub_url, client_app_id, workspace, allow_insecure_http, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		s.namespace, entry.Key, text(entry.InstanceID), text(entry.Alias), entry.HubURL, entry.ClientAppID, entry.Workspace, number(entry.AllowInsecureHTTP), entry.CreatedAt.UnixMilli(), entry.UpdatedAt.UnixMilli())
	if err != nil {
		return registry.Connection{}, s.conflict(ctx, entry, true, err)
	}
	return entry, nil
}

// rewrite updates the columns of a registered entry that can change.
func (s *Store) rewrite(ctx context.Context, entry registry.Connection) error {
	n, err := s.db.Exec(ctx, "UPDATE bailinghub_connections SET alias = ?, allow_insecure_http = ?, updated_at = ? WHERE namespace = ? AND connection_key = ?",
		text(entry.Alias), number(entry.AllowInsecureHTTP), entry.UpdatedAt.UnixMilli(), s.namespace, entry.Key)
	switch {
	case err != nil:
		return s.conflict(ctx, entry, false, err)
	case n == 0: // removed by another process just now
		return sqldb.ErrAgain
	}
	return nil
}

// Rename does what [registry.Memory.Rename] does.
func (s *Store) Rename(ctx context.Context, key, alias string) error {
	const doing = "renaming a connection"
	if _, err := s.find(ctx, doing, key); err != nil {
		return err
	}
	return s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		var now int64
		if err := s.db.QueryRow(ctx, "SELECT {now}").Scan(&now); err != nil {
			return err
		}
		existing, err := s.find(ctx, doing, key)
		if err != nil {
			return err
		}
		options := []registry.RegisterOption{registry.WithAlias(alias)}
		if existing.InstanceID != "" {
			options = append(options, registry.WithInstance(existing.InstanceID))
		}
		registration, err := registry.NewRegistration(existing.Descriptor(), options...)
		if err != nil {
			return fail(err.Error(), err) // as a *fault.Error, which Try does not repeat
		}
		if entry, changed := registration.Apply(existing.Connection, time.UnixMilli(now)); changed {
			return s.rewrite(ctx, entry)
		}
		return nil
	})
}

// conflict gives the error of a write of entry that failed with err. Where another
// connection has the alias or the instance ID of entry, it says so.
func (s *Store) conflict(ctx context.Context, entry registry.Connection, added bool, err error) error {
	for _, unique := range []struct{ name, column, value string }{
		{"alias", "alias", entry.Alias},
		{"instance ID", "instance_id", entry.InstanceID},
	} {
		if unique.value == "" {
			continue
		}
		other, readErr := s.read(ctx, "reading a connection", unique.column+" = ?", unique.value)
		if readErr == nil && other.Key != entry.Key {
			return invalid("the " + unique.name + " is that of another connection, " + other.Key)
		}
	}
	if _, readErr := s.find(ctx, "reading a connection", entry.Key); readErr == nil && added {
		return sqldb.ErrAgain // registered by another process just now
	}
	return err
}

func text(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// MaxPage is how many connections a page of [Store.Page] has at most.
const MaxPage = 1000

// Page gives up to limit connections, at most [MaxPage], sorted by key. It begins with
// the first key behind after, or with the first of all where after is "". A page with
// fewer than limit connections is the last one.
func (s *Store) Page(ctx context.Context, after string, limit int) ([]registry.Connection, error) {
	const doing = "listing connections"
	if err := s.db.Ready(ctx, doing); err != nil {
		return nil, err
	}
	if limit < 1 || limit > MaxPage {
		return nil, invalid("the limit of a page must be 1 to 1000")
	}
	if after != "" {
		if err := checkKey(after); err != nil {
			return nil, err
		}
	}
	var page []registry.Connection
	err := s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		page = nil
		rows, err := s.db.Pool.QueryContext(ctx, s.db.SQL("SELECT "+columns+" FROM bailinghub_connections WHERE namespace = ? AND connection_key > ? ORDER BY connection_key LIMIT "+strconv.Itoa(limit)), s.namespace, after)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			if err := r.scan(rows.Scan); err != nil {
				return err
			}
			if err := s.check(&r); err != nil {
				return err
			}
			page = append(page, r.Connection)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// List gives all connections, sorted by key. It reads them page by page: a connection
// that is registered or removed meanwhile may be in the list or not. A host with very
// many connections uses [Store.Page].
func (s *Store) List(ctx context.Context) ([]registry.Connection, error) {
	var all []registry.Connection
	for after := ""; ; after = all[len(all)-1].Key {
		page, err := s.Page(ctx, after, MaxPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < MaxPage {
			return all, nil
		}
	}
}

// Remove removes a connection and its login. Where it was the current connection,
// there is none afterwards. The error matches registry.ErrNotFound where the key has
// no connection.
func (s *Store) Remove(ctx context.Context, key string) error {
	const doing = "removing a connection"
	if _, err := s.find(ctx, doing, key); err != nil {
		return err
	}
	// The pointer to the current connection goes first. If it remained, a later
	// connection with the same key would become the current one unasked.
	err := s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		_, err := s.db.Exec(ctx, "DELETE FROM bailinghub_current WHERE namespace = ? AND connection_key = ?", s.namespace, key)
		return err
	})
	if err != nil {
		return err
	}
	return s.change(ctx, doing, key, sqldb.RequestLimit,
		"DELETE FROM bailinghub_connections WHERE namespace = ? AND connection_key = ?", s.namespace, key)
}

// SaveCredentials makes credentials the login of a connection, in place of the one
// that it may have, even one that no key of this store opens. It does not wait for an
// update that is running: that update will find the newer login and save nothing. The
// error matches registry.ErrNotFound where there is no connection; see
// [registry.Connection.Check] for the credentials that it refuses.
func (s *Store) SaveCredentials(ctx context.Context, key string, credentials registry.Credentials) error {
	const doing = "saving a login"
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
	return s.change(ctx, doing, key, sqldb.RequestLimit,
		"UPDATE bailinghub_connections SET login = ? WHERE namespace = ? AND connection_key = ?", sealed, s.namespace, key)
}

// DeleteCredentials deletes the login of a connection, and returns nil where there is
// none. The error matches registry.ErrNotFound where there is no connection.
func (s *Store) DeleteCredentials(ctx context.Context, key string) error {
	return s.change(ctx, "deleting a login", key, sqldb.RequestLimit,
		"UPDATE bailinghub_connections SET login = NULL WHERE namespace = ? AND connection_key = ?", s.namespace, key)
}

// change executes a statement on the row of a key. Where that changed no row, it
// checks that the row exists: the row may have been as wanted already, which MySQL
// does not count as a change, or an earlier attempt, whose answer was lost, may have
// changed it.
func (s *Store) change(ctx context.Context, doing, key string, limit time.Duration, statement string, args ...any) error {
	if err := s.db.Ready(ctx, doing); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	attempts := 0
	return s.db.Try(ctx, doing, limit, func(ctx context.Context) error {
		attempts++
		n, err := s.db.Exec(ctx, statement, args...)
		if err != nil || n > 0 {
			return err
		}
		_, err = s.find(ctx, doing, key)
		if attempts > 1 && errors.Is(err, registry.ErrNotFound) && strings.HasPrefix(statement, "DELETE") {
			return nil
		}
		return err
	})
}

// SetCurrent makes a connection the current one, which hosts may offer a person as the
// default. No inspection ever falls back to it. After the key "" there is no current
// connection. The error matches registry.ErrNotFound where there is no connection.
func (s *Store) SetCurrent(ctx context.Context, key string) error {
	const doing = "changing the current connection"
	if key == "" {
		if err := s.db.Ready(ctx, doing); err != nil {
			return err
		}
		return s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
			_, err := s.db.Exec(ctx, "DELETE FROM bailinghub_current WHERE namespace = ?", s.namespace)
			return err
		})
	}
	if _, err := s.find(ctx, doing, key); err != nil {
		return err
	}
	return s.db.Try(ctx, doing, sqldb.RequestLimit, func(ctx context.Context) error {
		_, err := s.db.Exec(ctx, "INSERT INTO bailinghub_current (namespace, connection_key) VALUES (?, ?) {replacing connection_key}", s.namespace, key)
		return err
	})
}

// Current gives the current connection. The error matches registry.ErrNotFound
// where there is none.
func (s *Store) Current(ctx context.Context) (registry.Connection, error) {
	return s.one(ctx, "reading the current connection", "connection_key IN (SELECT connection_key FROM bailinghub_current WHERE namespace = ?)", s.namespace)
}

// ByAlias gives the connection with exactly this alias. The error matches
// registry.ErrNotFound where there is none.
func (s *Store) ByAlias(ctx context.Context, alias string) (registry.Connection, error) {
	return s.one(ctx, "reading a connection", "alias = ?", alias)
}

func (s *Store) one(ctx context.Context, doing, condition string, args ...any) (registry.Connection, error) {
	if err := s.db.Ready(ctx, doing); err != nil {
		return registry.Connection{}, err
	}
	r, err := s.read(ctx, doing, condition, args...)
	if err != nil {
		return registry.Connection{}, err
	}
	return r.Connection, nil
}
