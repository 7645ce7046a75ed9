package sqljournal

import (
	"context"

	"github.com/bailinghub/bailinghub-go/internal/sqldb"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// tables has one row for each operation.
//
// number gives the order in which they were added. call_hash is the SHA-256 of call_id, which
// is too long for an index. version counts the changes: a process writes only where the
// version is the one that it has read, and so never overwrites the change of another process.
// added and changed are the marks of the attempts that added and last changed the row; an
// attempt whose answer was lost recognizes its own. due_at is when the operation is due to be
// inspected, and pause is the time from the last report to that, both in milliseconds by the
// clock of the database. Claims are found by the last index; it is unique only because number
// is in it.
var tables = sqldb.Tables{Component: "journal", Versions: [][]string{{
	`CREATE TABLE IF NOT EXISTS bailinghub_operations (
	number {counter},
	namespace varchar(64) {word} NOT NULL,
	invocation_id char(64) {word} NOT NULL,
	call_hash char(64) {word} NOT NULL,
	call_id {text} NOT NULL,
	original {text} NOT NULL,
	about {text} NOT NULL,
	state varchar(16) {word} NOT NULL,
	report {text} NOT NULL,
	note {text} NOT NULL,
	sending_at bigint NOT NULL DEFAULT 0,
	created_at bigint NOT NULL,
	updated_at bigint NOT NULL,
	version bigint NOT NULL DEFAULT 1,
	added char(32) {word} NOT NULL,
	changed char(32) {word} NOT NULL,
	due_at bigint NOT NULL,
	pause bigint NOT NULL DEFAULT 0,
	UNIQUE (namespace, invocation_id),
	UNIQUE (namespace, call_hash),
	UNIQUE (namespace, state, due_at, number)
) {table}`,
}}}

// Schema gives the statements that make the table in an empty database, in their
// order, for a host that makes its tables with a tool of its own. They are what
// [Journal.Migrate] executes. It is nil for the zero Dialect.
func Schema(d sqlstore.Dialect) []string { return tables.Statements(d) }

// Migrate makes the table, or changes it to the version of this package, as
// [sqlstore.Store.Migrate] does.
func (j *Journal) Migrate(ctx context.Context) error {
	return j.db.Migrate(ctx, tables, fail("the table was made by a later version of this package: update the program", ErrSchema))
}
