package sqlstore

import (
	"context"
	"database/sql"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/namedlock"
	"github.com/bailinghub/bailinghub-go/internal/sqldb"
	"github.com/bailinghub/bailinghub-go/registry"
)

// Store is a registry in a database. It is safe for concurrent use and must not be
// copied. It holds no connection of the database between two calls, nor while an update
// talks to a Hub.
type Store struct {
	db        sqldb.DB
	namespace string
	sealer    Sealer
	logger    *slog.Logger
	lease     time.Duration
	updates   namedlock.Local
	left      sync.Map // the fencing numbers of leases that could not be given back, by connection key
}

var _ registry.Store = (*Store)(nil)

// Dialect is the SQL of one kind of database: [PostgreSQL], [MySQL] or [SQLite]. [Open]
// refuses the zero Dialect.
type Dialect = sqldb.Dialect

// The databases that this package supports. Its tests run the suite of package
// registrytest on a real server of each.
var (
	// PostgreSQL is PostgreSQL 13 and later, also behind PgBouncer in transaction
	// mode.
	PostgreSQL = sqldb.PostgreSQL
	// MySQL is MySQL 8.0 and MariaDB 10.6, and later.
	MySQL = sqldb.MySQL
	// SQLite is SQLite 3.35 and later.
	SQLite = sqldb.SQLite
)

// Option is an option of [Open], which refuses the zero Option.
type Option struct{ apply func(*Store) error }

// WithNamespace keeps the connections of this store, such as those of one tenant,
// apart from others in the same tables. A namespace is 1 to 64 characters a-z, 0-9,
// ".", "_" and "-", the first a letter or a digit; without this option it is "default".
func WithNamespace(namespace string) Option {
	return Option{func(s *Store) error {
		if !namespaceForm.MatchString(namespace) {
			return invalid("the namespace must be 1 to 64 characters a-z, 0-9, ., _ and -, the first a letter or a digit")
		}
		s.namespace = namespace
		return nil
	}}
}

var namespaceForm = regexp.MustCompile(`\A[a-z0-9][a-z0-9._-]{0,63}\z`)

// WithKeys seals logins with AES-256-GCM. Each key has [KeySize] random bytes. The
// store seals with the first key, and opens with each of them; the package
// documentation says how to replace a key. A sealed login is bound to its namespace and
// connection: a copy of it in another row does not open.
func WithKeys(first []byte, others ...[]byte) Option {
	return Option{func(s *Store) error {
		ring, err := newKeyring(first, others)
		if err != nil {
			return err
		}
		return s.setSealer(ring)
	}}
}

// WithSealer seals logins with the host's own sealer.
func WithSealer(sealer Sealer) Option {
	return Option{func(s *Store) error {
		if sealer == nil {
			return invalid("the sealer must not be nil")
		}
		return s.setSealer(sealer)
	}}
}

// WithPlainTokens keeps logins as plain text: whoever can read the tables, a
// backup of them or the traffic to the database can act as the persons who
// logged in.
func WithPlainTokens() Option {
	return Option{func(s *Store) error { return s.setSealer(unsealed{}) }}
}

func (s *Store) setSealer(sealer Sealer) error {
	if s.sealer != nil {
		return invalid("only one of WithKeys, WithSealer and WithPlainTokens can be given")
	}
	s.sealer = sealer
	return nil
}

// WithLease sets the time of a lease, from 1 second to 1 hour; without this option it
// is 30 seconds. A process that cannot renew the lease of its update for this time ends
// the update. Another process takes the lease over after four times this time since the
// last renewal. All processes must use the same value.
func WithLease(lease time.Duration) Option {
	return Option{func(s *Store) error {
		if lease < time.Second || lease > time.Hour {
			return invalid("the lease must be 1 second to 1 hour")
		}
		s.lease = lease
		return nil
	}}
}

// WithLogger logs an error for each stored login that cannot be read, because no key
// opens it or it is damaged, and a warning where the store takes over a lease from a
// process that did not release it. Connection keys and reasons, and never a token or a
// key, are in the records. Nil logs nothing, like a store without this option.
func WithLogger(logger *slog.Logger) Option {
	return Option{func(s *Store) error {
		if logger != nil {
			s.logger = logger
		}
		return nil
	}}
}

// defaultLease is twice the 15 seconds that a refresh may take, so that a slow or lost
// connection to the database does not end the lease of a refresh.
const defaultLease = 30 * time.Second

// Open gives the registry in the tables of db, which the host configures and closes.
// One of [WithKeys], [WithSealer] and [WithPlainTokens] is required. Open asks the
// database for its time, and so fails for a wrong address or dialect. The tables need
// not exist yet: see [Store.Migrate].
//
// An error matches feedback.CodeInvalidRequest where an argument is wrong.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, options ...Option) (*Store, error) {
	const doing = "opening the store"
	switch err := name.Ready(ctx, doing); {
	case err != nil:
		return nil, err
	case db == nil:
		return nil, invalid("the database must not be nil")
	case dialect == Dialect{}:
		return nil, invalid("the dialect must be PostgreSQL, MySQL or SQLite")
	}
	s := &Store{
		db:        sqldb.DB{Package: name, Dialect: dialect, Pool: db},
		namespace: "default",
		logger:    slog.New(slog.DiscardHandler),
		lease:     defaultLease,
	}
	for _, option := range options {
		if option.apply == nil {
			return nil, invalid("an option must not be zero")
		}
		if err := option.apply(s); err != nil {
			return nil, err
		}
	}
	if s.sealer == nil {
		return nil, invalid("the logins need keys: give WithKeys, or say WithPlainTokens")
	}
	if err := s.db.Check(ctx, doing); err != nil {
		return nil, err
	}
	return s, nil
}
