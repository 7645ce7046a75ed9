package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
)

// Tables are those of one package, version by version: the statements of each.
// A version that was published is never changed; what comes later is a version
// of its own. Each statement may be executed again where the database cannot
// undo it (MySQL).
type Tables struct {
	// Component is what the versions are recorded under.
	Component string
	Versions  [][]string
}

// versionTable says which versions a database has.
const versionTable = "CREATE TABLE IF NOT EXISTS bailinghub_schema (component varchar(32) NOT NULL, version integer NOT NULL, PRIMARY KEY (component, version))"

// Statements gives what makes the tables in an empty database, in its order.
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

// version gives the statements of a version, and its record.
func (t Tables) version(d Dialect, i int) []string {
	var statements []string
	for _, statement := range t.Versions[i] {
		statements = append(statements, d.SQL(statement))
	}
	return append(statements, "INSERT INTO bailinghub_schema (component, version) VALUES ('"+t.Component+"', "+strconv.Itoa(i+1)+")")
}

// Migrate makes the tables, or brings them to the last version. Of many
// processes one does it, and the others wait; where there is nothing to do it
// only reads. Tables of a later version are the error newer.
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
		err = t.bring(ctx, conn, db.Dialect, newer)
	}
	if err == nil {
		return executeAll(ctx, conn, []string{db.commit})
	}
	if executeAll(context.WithoutCancel(ctx), conn, []string{db.rollback}) != nil {
		// What is left open on this connection is of no use to anybody else.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

func (t Tables) bring(ctx context.Context, conn *sql.Conn, d Dialect, newer error) error {
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

// current is the version of the tables; 0 where none was recorded.
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
