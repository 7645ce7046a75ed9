package databasetest_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bailinghub/bailinghub-go/host/journal/sqljournal"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/databasetest/server"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// database is a server that runs for all tests.
type database struct {
	name    string
	dialect sqlstore.Dialect
	server  *server.Server
	db      *sql.DB
}

var databases []*database

// TestMain starts all servers: a run that lacks one fails.
func TestMain(m *testing.M) {
	registrytest.Child(openAddress)
	childtest.Run(children)
	flag.Parse()
	os.Exit(withServers(m))
}

func withServers(m *testing.M) (code int) {
	var postgres *server.Server
	for _, kind := range []struct {
		name    string
		dialect sqlstore.Dialect
		start   func() (*server.Server, error)
	}{
		{"PostgreSQL", sqlstore.PostgreSQL, func() (s *server.Server, err error) {
			postgres, err = server.PostgreSQL()
			return postgres, err
		}},
		{"PgBouncer", sqlstore.PostgreSQL, func() (*server.Server, error) { return server.PgBouncer(postgres) }},
		{"MariaDB", sqlstore.MySQL, server.MariaDB},
		{"SQLite", sqlstore.SQLite, server.SQLite},
	} {
		running, err := kind.start()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() {
			if err := running.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}()
		db, err := running.Open()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer db.Close()
		d := &database{kind.name, kind.dialect, running, db}
		if err := d.migrateAll(); err != nil {
			fmt.Fprintln(os.Stderr, kind.name, err)
			return 1
		}
		databases = append(databases, d)
	}
	return m.Run()
}

// migrateAll lets ten replicas begin at once.
func (d *database) migrateAll() error {
	failures := make(chan error, 10)
	var group sync.WaitGroup
	for range cap(failures) {
		group.Go(func() { failures <- d.migrate(context.Background()) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *database) migrate(ctx context.Context) error {
	store, err := sqlstore.Open(ctx, d.db, d.dialect, sqlstore.WithPlainTokens())
	if err != nil {
		return err
	}
	operations, err := sqljournal.Open(ctx, d.db, d.dialect)
	if err != nil {
		return err
	}
	return errors.Join(store.Migrate(ctx), operations.Migrate(ctx))
}

// each runs a test on every database.
func each(t *testing.T, run func(t *testing.T, d *database)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { run(t, d) })
	}
}

// address says how another process opens a store with plain logins; see
// openAddress.
func (d *database) address(namespace string) string {
	return strings.Join([]string{d.server.Driver, d.dialect.String(), namespace, d.server.Source}, " ")
}

func openAddress(address string) (registry.Store, error) {
	words := strings.SplitN(address, " ", 4)
	if len(words) != 4 {
		return nil, errors.New("not an address of these tests")
	}
	db, err := sql.Open(words[0], words[3])
	if err != nil {
		return nil, err
	}
	return sqlstore.Open(context.Background(), db, dialects[words[1]], sqlstore.WithNamespace(words[2]), sqlstore.WithPlainTokens())
}

var namespaces atomic.Int64

// namespace gives one that no other test of this run has.
func namespace() sqlstore.Option {
	return sqlstore.WithNamespace(fmt.Sprint("test-", namespaces.Add(1)))
}

func (d *database) open(t testing.TB, options ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), d.db, d.dialect, options...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// key is a key of [sqlstore.WithKeys], and not a secret of anybody.
func key(fill byte) []byte {
	key := make([]byte, sqlstore.KeySize)
	for i := range key {
		key[i] = fill
	}
	return key
}
