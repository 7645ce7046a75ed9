package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
)

// Tables has the statements that make the tables of one package. A version that was
// published never changes: later changes are a version of their own. Where the
// database cannot undo a statement (MySQL), it may be executed again after a
// failure, and must be written so that this does no harm.
type Tables struct {
	// Component is the name under which the database records the versions.
	Component string
	// Versions has the statements of each version, the first one first.
	Versions [][]string
}

// versionTable makes the table in which a database records its versions.
const versionTable = "CREATE TABLE IF NOT EXISTS bailinghub_schema (component varchar(32) NOT NULL, version integer NOT NULL, PRIMARY KEY (component, version))"

// Statements gives the statements that make the tables in an empty database, in
// their order.
func (t Tables) Statements(d Dialect) []string {
	if d.dialect == nil {
		return nil
	}
	statements := []string{versionTable}
	for i := range t.Versions {
		statements = append(statements, t.version(d, i)...)
	}
	return statements
}

// version gives the statements that make version i+1 and record it.
func (t Tables) version(d Dialect, i int) []string {
	var statements []string
	for _, statement := range t.Versions[i] {
		statements = append(statements, d.SQL(statement))
	}
	return append(statements, "INSERT INTO bailinghub_schema (component, version) VALUES ('"+t.Component+"', "+strconv.Itoa(i+1)+")")
}

// Migrate makes the tables, or changes them to the last version. When many
// processes call it, one of them does the work and the others wait. Where the tables
// are of the last version already, it only reads. Where they are of a later version
// than this program knows, it returns newer.
func (db *DB) Migrate(ctx context.Context, t Tables, newer error) error {
	const doing = "bringing the tables to the current version"
	if err := db.Ready(ctx, doing); err != nil {
		return err
	}
	if version, err := t.current(ctx, db.Pool); err == nil && version == len(t.Versions) {
		return nil
	}
	return db.Try(ctx, doing, 2*RequestLimit, func(ctx context.Context) error {
		conn, err := db.Pool.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return db.migrate(ctx, conn, t, newer)
	})
}

// migrate does the work of Migrate on one connection.
func (db *DB) migrate(ctx context.Context, conn *sql.Conn, t Tables, newer error) error {
	err := executeAll(ctx, conn, db.begin)
	if err == nil {
		err = t.upgrade(ctx, conn, db.Dialect, newer)
	}
	if err == nil {
		return executeAll(ctx, conn, []string{db.commit})
	}
	if executeAll(context.WithoutCancel(ctx), conn, []string{db.rollback}) != nil {
		// The transaction may still be open, so that nobody else may get this
		// connection: ErrBadConn makes the pool close it.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// upgrade executes the statements of all versions that the database does not have.
func (t Tables) upgrade(ctx context.Context, conn *sql.Conn, d Dialect, newer error) error {
	if err := executeAll(ctx, conn, []string{versionTable}); err != nil {
		return err
	}
	version, err := t.current(ctx, conn)
	switch {
	case err != nil:
		return err
	case version > len(t.Versions):
		return newer
	}
	for ; version < len(t.Versions); version++ {
		if err := executeAll(ctx, conn, t.version(d, version)); err != nil {
			return err
		}
	}
	return nil
}

// current gives the version of the tables; 0 where none was recorded.
func (t Tables) current(ctx context.Context, in Querier) (int, error) {
	var version sql.NullInt64
	err := in.QueryRowContext(ctx, "SELECT MAX(version) FROM bailinghub_schema WHERE component = '"+t.Component+"'").Scan(&version)
	return int(version.Int64), err
}

func executeAll(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
