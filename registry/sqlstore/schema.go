package sqlstore

import (
	"context"

	"github.com/bailinghub/bailinghub-go/internal/sqldb"
)

// tables has one row for each connection. The column login has the sealed text of
// registry.EncodeCredentials. lease_holder is the fencing number of the update that is
// running, which no other update has; 0 for none. lease_until is the time from which
// another process may take over the lease, in milliseconds since 1970 by the clock of
// the database.
var tables = sqldb.Tables{Component: "registry", Versions: [][]string{{
	`CREATE TABLE IF NOT EXISTS bailinghub_connections (
	namespace varchar(64) {word} NOT NULL,
	connection_key char(37) {word} NOT NULL,
	instance_id varchar(41) {word},
	alias varchar(128) {word},
	hub_url {text} NOT NULL,
	client_app_id varchar(64) NOT NULL,
	workspace varchar(64) NOT NULL,
	allow_insecure_http smallint NOT NULL,
	created_at bigint NOT NULL,
	updated_at bigint NOT NULL,
	login {bytes},
	lease_holder bigint NOT NULL DEFAULT 0,
	lease_until bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (namespace, connection_key),
	UNIQUE (namespace, alias),
	UNIQUE (namespace, instance_id)
) {table}`,
	`CREATE TABLE IF NOT EXISTS bailinghub_current (
	namespace varchar(64) {word} NOT NULL PRIMARY KEY,
	connection_key char(37) {word} NOT NULL
) {table}`,
}}}

// Schema gives the statements that make the tables in an empty database, in
// their order, for a host that makes its tables with a tool of its own. They
// are what [Store.Migrate] executes. It is nil for the zero Dialect.
func Schema(d Dialect) []string { return tables.Statements(d) }

// Migrate makes the tables, or changes them to the version of this package. Many
// processes may call it at once, and each at its start: one of them does the work and
// the others wait. Where there is nothing to do, it only reads. No other method needs
// the right to change tables.
//
// Where a later version of this package has made the tables, Migrate leaves them alone
// and returns [ErrSchema].
func (s *Store) Migrate(ctx context.Context) error {
	return s.db.Migrate(ctx, tables, fail("the tables were made by a later version of this package: update the program", ErrSchema))
}
