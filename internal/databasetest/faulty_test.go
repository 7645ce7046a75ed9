package databasetest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// faults decide about each statement that goes to a database. At gives the error
// of the n-th one, counted from 0, and whether the database executes it all the
// same: then its answer is lost.
type faults struct {
	mu   sync.Mutex
	n    int
	at   func(n int, statement string) (err error, executed bool)
	kept []string
}

func (f *faults) reset(at func(n int, statement string) (error, bool)) (statements []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	statements = f.kept
	f.n, f.at, f.kept = 0, at, nil
	return statements
}

func (f *faults) next(statement string) (error, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.n
	f.n++
	f.kept = append(f.kept, statement)
	if f.at == nil {
		return nil, true
	}
	return f.at(n, statement)
}

// faulty opens a database whose statements pass through faults.
func (d *database) faulty(t *testing.T, f *faults) *sql.DB {
	t.Helper()
	db := sql.OpenDB(connector{d.db.Driver(), d.server.Source, f})
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

type connector struct {
	base   driver.Driver
	source string
	faults *faults
}

func (c connector) Driver() driver.Driver { return c.base }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	base, err := c.base.Open(c.source)
	if err != nil {
		return nil, err
	}
	return conn{base, c.faults}, nil
}

type conn struct {
	driver.Conn
	faults *faults
}

func (c conn) CheckNamedValue(value *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return pass(c.faults, query, func() (driver.Result, error) {
		if execer, ok := c.Conn.(driver.ExecerContext); ok {
			if result, err := execer.ExecContext(ctx, query, args); !errors.Is(err, driver.ErrSkip) {
				return result, err
			}
		}
		statement, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		defer statement.Close()
		return statement.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return pass(c.faults, query, func() (driver.Rows, error) {
		if queryer, ok := c.Conn.(driver.QueryerContext); ok {
			if rows, err := queryer.QueryContext(ctx, query, args); !errors.Is(err, driver.ErrSkip) {
				return rows, err
			}
		}
		statement, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		rows, err := statement.(driver.StmtQueryContext).QueryContext(ctx, args)
		if err != nil {
			return nil, errors.Join(err, statement.Close())
		}
		return closing{rows, statement}, nil
	})
}

// closing are rows whose statement is of no use after them.
type closing struct {
	driver.Rows
	statement driver.Stmt
}

func (c closing) Close() error { return errors.Join(c.Rows.Close(), c.statement.Close()) }

func pass[T any](f *faults, query string, execute func() (T, error)) (T, error) {
	var none T
	fault, executed := f.next(query)
	if fault != nil && !executed {
		return none, fault
	}
	value, err := execute()
	if fault != nil {
		if rows, ok := any(value).(driver.Rows); ok && err == nil {
			_ = rows.Close()
		}
		return none, fault
	}
	return value, err
}

// busy is how the driver of SQLite says that a database is busy.
type busy struct{}

func (busy) Error() string { return "database is locked (5) (SQLITE_BUSY)" }
func (busy) Code() int     { return 5 }

// readOnly is how the driver of SQLite says that a database takes no writes.
type readOnly struct{}

func (readOnly) Error() string { return "attempt to write a readonly database (8)" }
func (readOnly) Code() int     { return 8 }

// conflict is what each database says to a transaction that another one is in
// the way of.
func (d *database) conflict() error {
	switch d.dialect {
	case sqlstore.PostgreSQL:
		return &pgconn.PgError{Severity: "ERROR", Code: "40001", Message: "could not serialize access"}
	case sqlstore.MySQL:
		return &mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001")), Message: "Deadlock found when trying to get lock"}
	}
	return busy{}
}

func (d *database) refusesWrites() error {
	switch d.dialect {
	case sqlstore.PostgreSQL:
		return &pgconn.PgError{Severity: "ERROR", Code: "25006", Message: "cannot execute UPDATE in a read-only transaction"}
	case sqlstore.MySQL:
		return &mysql.MySQLError{Number: 1290, SQLState: [5]byte([]byte("HY000")), Message: "The MySQL server is running with the --read-only option"}
	}
	return readOnly{}
}

// A conflict, or a lost answer, at any statement of any call changes nothing of
// its result; and an update is run once.
func TestFaultAtEveryStatement(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var f faults
		db := d.faulty(t, &f)
		number := 0
		for _, fault := range []struct {
			name     string
			err      error
			executed bool
		}{
			{"a conflict", d.conflict(), false},
			{"a lost answer", errors.New("unexpected EOF"), true},
			{"a lost statement", errors.New("connection reset by peer"), false},
		} {
			for n := 0; ; n++ {
				number++
				f.reset(nil)
				store, err := sqlstore.Open(t.Context(), db, d.dialect, sqlstore.WithNamespace(fmt.Sprint("fault-", namespaces.Add(1))), sqlstore.WithKeys(key(1)))
				must(t, err)
				hit := false
				f.reset(func(at int, _ string) (error, bool) {
					if at != n {
						return nil, true
					}
					hit = true
					return fault.err, fault.executed
				})
				if err := wholeLife(t, store); err != nil {
					statements := f.reset(nil)
					t.Errorf("%s at statement %d, %s: %v", fault.name, n, statements[min(n, len(statements)-1)], err)
				}
				if !hit {
					if n < 20 {
						t.Errorf("only %d statements were executed", n)
					}
					break
				}
			}
		}
		f.reset(nil)
	})
}

// wholeLife is everything that a host does with a connection.
func wholeLife(t *testing.T, store *sqlstore.Store) error {
	ctx := t.Context()
	connection, err := store.Register(ctx, descriptor("shop"), registry.WithAlias("shop"))
	if err != nil {
		return err
	}
	if err := store.SaveCredentials(ctx, connection.Key, loginOf(connection, 1)); err != nil {
		return err
	}
	if err := store.SetCurrent(ctx, connection.Key); err != nil {
		return err
	}
	if current, err := store.Current(ctx); err != nil || current.Key != connection.Key {
		return fmt.Errorf("the current connection: %w", err)
	}
	runs := 0
	err = store.UpdateCredentials(ctx, connection.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		runs++
		return loginOf(connection, 2), nil
	})
	if err != nil || runs != 1 {
		return fmt.Errorf("update was run %d times: %w", runs, err)
	}
	if got, err := store.Credentials(ctx, connection.Key); err != nil || !got.Equal(loginOf(connection, 2)) {
		return fmt.Errorf("the rotation is not stored: %w", err)
	}
	if n, err := store.Reseal(ctx); err != nil || n != 1 {
		return fmt.Errorf("%d logins were sealed anew: %w", n, err)
	}
	if err := store.DeleteCredentials(ctx, connection.Key); err != nil {
		return err
	}
	if _, err := store.Credentials(ctx, connection.Key); !errors.Is(err, registry.ErrNotLoggedIn) {
		return fmt.Errorf("after a logout: %w", err)
	}
	if err := store.Remove(ctx, connection.Key); err != nil {
		return err
	}
	if all, err := store.List(ctx); err != nil || len(all) != 0 {
		return fmt.Errorf("%d connections are left: %w", len(all), err)
	}
	return nil
}

// A database that takes no writes is found out before update is called, and at
// once.
func TestReadOnlyDatabase(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var f faults
		store, err := sqlstore.Open(t.Context(), d.faulty(t, &f), d.dialect, namespace(), sqlstore.WithKeys(key(1)))
		must(t, err)
		c := loggedIn(t, store, "shop")
		f.reset(func(_ int, statement string) (error, bool) {
			if strings.HasPrefix(statement, "UPDATE") {
				return d.refusesWrites(), false
			}
			return nil, true
		})
		err = store.UpdateCredentials(t.Context(), c.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			t.Error("update is called")
			return c, nil
		})
		if !errors.Is(err, d.refusesWrites()) && !strings.Contains(fmt.Sprint(err), "read") {
			t.Errorf("an update: %v", err)
		}
		if n := len(f.reset(nil)); n > 5 {
			t.Errorf("%d statements were tried", n)
		}
		// What can be read still is.
		_, err = store.Credentials(t.Context(), c.Key)
		must(t, err)
	})
}

// A pool whose connections are all in use for something else: the call ends with
// its context, and update is not called.
func TestFullPool(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db, err := sql.Open(d.server.Driver, d.server.Source)
		must(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		store, err := sqlstore.Open(t.Context(), db, d.dialect, namespace(), sqlstore.WithKeys(key(1)))
		must(t, err)
		c := loggedIn(t, store, "shop")
		taken, err := db.Conn(t.Context())
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = store.UpdateCredentials(ctx, c.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			t.Error("update is called")
			return c, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "did not answer in time") {
			t.Errorf("an update: %v", err)
		}
		must(t, taken.Close())
		// One connection is enough for everything, since none is kept.
		must(t, store.UpdateCredentials(t.Context(), c.Key, func(ctx context.Context, before registry.Credentials) (registry.Credentials, error) {
			_, err := store.Credentials(ctx, c.Key)
			return loginOf(c, 2), err
		}))
	})
}
