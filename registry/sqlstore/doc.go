// Package sqlstore keeps a registry in a database that the host already runs,
// for many replicas of it: connections, and their logins sealed at rest.
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
// A [Store] does what registry.Dir does for connections, without the limit of
// 256, within a namespace. It uses database/sql alone: the host brings the
// driver and opens, configures and closes the database.
//
// # One refresh for all replicas
//
// An update of a login runs under a lease in its row, by the database's own
// clock: the clocks of replicas may be wrong. No transaction is open and no
// connection is held while an update talks to a Hub, and those who wait for a
// lease hold none either, so a small pool is enough, also behind PgBouncer in
// transaction mode. There, tell the driver to prepare no statements on the
// server (with pgx: default_query_exec_mode=exec).
//
// A save is tried again over lost connections and failovers for up to a minute,
// and replaces nothing but the very login that was read. Reads, and writes that
// can be refused without a loss, are tried again for up to ten seconds.
//
// # Keys
//
// Logins are sealed by AES-256-GCM with keys of 32 bytes that the host gives
// ([WithKeys]), or by the host's own [Sealer]. To replace a key, open the store
// on every replica with the old key first and the new one beside it, then with
// the new one first, then call [Store.Reseal], then leave out the old one. A
// login that no key opens is [ErrKey] and is left as it is.
package sqlstore
