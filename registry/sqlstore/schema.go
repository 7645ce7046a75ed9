package sqlstore

import (
	"context"

	"github.com/bailinghub/bailinghub-go/internal/sqldb"
)

// tables: a connection is one row. Its login is one value in it: what
// registry.EncodeCredentials gives, sealed. lease_holder is the fencing number of
// the update that is under way, another one for each, and 0 for none; lease_until
// is when another may take over from a process that does not give its lease
// back, in milliseconds since 1970 by the database's clock.
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

// Migrate makes the tables, or brings them to the version that this package
// works with. It may be called by many processes at once and by every process
// at its start: one does the work, the others wait, and where there is nothing
// to do it only reads. Nothing else in this package needs the right to change
// tables.
//
// Tables that a later version of this package made are [ErrSchema] and are left
// alone.
func (s *Store) Migrate(ctx context.Context) error {
	return s.db.Migrate(ctx, tables, fail("the tables were made by a later version of this package: update the program", ErrSchema))
}
