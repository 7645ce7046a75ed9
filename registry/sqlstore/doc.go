// Package sqlstore keeps a registry in a database that the host already runs, for many
// replicas of the host: connections, and their logins, which are encrypted at rest.
//
//	store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL, sqlstore.WithKeys(key))
//	if err != nil {
//		return err
//	}
//	if err := store.Migrate(ctx); err != nil { // the tables, once
//		return err
//	}
//	transport, err := host.New(store)
//
// A [Store] has the methods of registry.Dir for the connections of a namespace,
// without its limit of 256. It uses database/sql alone: the host imports the driver
// and opens, configures and closes the database.
//
// # One refresh for all replicas
//
// While a replica updates a login, it holds a lease in the row of the login. The lease
// is timed by the clock of the database, because the clocks of replicas may be wrong.
// No transaction is open and no connection of the database is held while an update
// talks to a Hub, nor while another replica waits for the lease. So a small pool is
// enough, also behind PgBouncer in transaction mode. With PgBouncer, tell the driver to
// prepare no statements on the server (with pgx: default_query_exec_mode=exec).
//
// The store tries to save a refreshed login for up to a minute, over lost connections
// and failovers, and replaces only the login that the update had read. It tries reads,
// and writes whose failure loses nothing, for up to ten seconds.
//
// # Keys
//
// Logins are sealed, which means encrypted and authenticated: by AES-256-GCM with keys
// of 32 bytes from the host ([WithKeys]), or by the host's own [Sealer]. To replace a
// key, first open the store on every replica with the old key as the first one and the
// new key as another; then on every replica with the new key as the first one. Then
// call [Store.Reseal], and after that leave out the old key. Reading a login that no
// key opens is the error [ErrKey]; the login stays as it is.
package sqlstore
