package sqldb

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Dialect is the SQL of one kind of database. The zero Dialect is not valid.
type Dialect struct{ *dialect }

// The databases that this package knows.
var (
	PostgreSQL = Dialect{&postgreSQL}
	MySQL      = Dialect{&mySQL}
	SQLite     = Dialect{&sqlite}
)

// dialect is what differs between the databases.
type dialect struct {
	name string
	// placeholder gives the text of the n-th parameter of a statement, counted
	// from 1.
	placeholder func(n int) string
	// words replaces the words in braces in a statement; see [Dialect.SQL].
	words *strings.Replacer
	// begin starts a section on one connection in which only one process can be.
	// commit ends it. rollback ends it and undoes its changes, as far as the
	// database can undo changes of tables.
	begin            []string
	commit, rollback string
	// final reports whether a statement that failed with err would fail again,
	// because it is wrong or something that it needs does not exist.
	final func(err error) bool
	// noTable reports that a statement failed because a table is missing.
	noTable func(err error) bool
}

// String is the name of the dialect.
func (d Dialect) String() string {
	if d.dialect == nil {
		return "no dialect"
	}
	return d.name
}

var postgreSQL = dialect{
	name:        "PostgreSQL",
	placeholder: func(n int) string { return "$" + strconv.Itoa(n) },
	words: strings.NewReplacer(
		"{now}", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
		"{skip locked}", "FOR UPDATE SKIP LOCKED",
		"{or nothing}", "ON CONFLICT DO NOTHING",
		"{replacing connection_key}", "ON CONFLICT (namespace) DO UPDATE SET connection_key = excluded.connection_key",
		"{bytes}", "bytea", "{text}", "text", "{word}", `COLLATE "C"`,
		"{counter}", "bigserial PRIMARY KEY", "{table}", "",
	),
	// 1650551148 is "bail" in ASCII. A lock that lasts as long as the transaction
	// also works behind PgBouncer, which may give the next transaction another
	// session of the server.
	begin:    []string{"BEGIN", "SELECT pg_advisory_xact_lock(1650551148)"},
	commit:   "COMMIT",
	rollback: "ROLLBACK",
	final:    finalByState(sqlState),
	noTable:  func(err error) bool { return sqlState(err) == "42P01" },
}

var mySQL = dialect{
	name:        "MySQL",
	placeholder: func(int) string { return "?" },
	words: strings.NewReplacer(
		// Not UNIX_TIMESTAMP of a local time: where clocks are set back, that is an
		// hour wrong for an hour, in the time zone that most servers have.
		"{now}", "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)",
		"{skip locked}", "FOR UPDATE SKIP LOCKED",
		"{or nothing}", "ON DUPLICATE KEY UPDATE namespace = namespace",
		"{replacing connection_key}", "ON DUPLICATE KEY UPDATE connection_key = VALUES(connection_key)",
		"{bytes}", "mediumblob", "{text}", "mediumtext", "{word}", "",
		"{counter}", "bigint AUTO_INCREMENT PRIMARY KEY", "{table}", "ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
	),
	begin:    []string{"DO GET_LOCK('bailinghub_schema', 60)"},
	commit:   "DO RELEASE_LOCK('bailinghub_schema')",
	rollback: "DO RELEASE_LOCK('bailinghub_schema')",
	final:    finalByState(mySQLState),
	noTable:  func(err error) bool { return mySQLState(err) == "42S02" },
}

var sqlite = dialect{
	name:        "SQLite",
	placeholder: func(int) string { return "?" },
	words: strings.NewReplacer(
		"{now}", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
		"{skip locked}", "", // SQLite lets one transaction at a time write
		"{or nothing}", "ON CONFLICT DO NOTHING",
		"{replacing connection_key}", "ON CONFLICT (namespace) DO UPDATE SET connection_key = excluded.connection_key",
		"{bytes}", "BLOB", "{text}", "TEXT", "{word}", "",
		"{counter}", "INTEGER PRIMARY KEY AUTOINCREMENT", "{table}", "",
	),
	begin:    []string{"BEGIN IMMEDIATE"},
	commit:   "COMMIT",
	rollback: "ROLLBACK",
	final:    finalBySQLite,
	noTable:  func(err error) bool { return strings.Contains(err.Error(), "no such table") },
}

// SQL translates query into a statement of the database. In query each parameter
// is a question mark, and a word in braces stands for an expression of the dialect:
// {now}, for example, for the time of the database's own clock, in milliseconds
// since 1970, at the moment when the database evaluates it, or, in MySQL, when it
// begins the statement.
func (d Dialect) SQL(query string) string {
	query = d.words.Replace(query)
	var out strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(d.placeholder(n))
		query = after
	}
}

// finalByState decides by the class of the SQL state (ISO 9075). Final are: a
// feature that is not supported, data that does not fit, a violated constraint, a
// refused login, a missing database, wrong SQL, a missing right, and the state
// 25006 of a transaction that accepts no writes.
func finalByState(state func(error) string) func(error) bool {
	return func(err error) bool {
		code := state(err)
		if len(code) != 5 {
			return false
		}
		switch code[:2] {
		case "0A", "22", "23", "28", "3D", "3F", "42":
			return true
		}
		return code == "25006"
	}
}

// sqlState asks the error for its SQL state by a method that the errors of pgx and
// lib/pq have.
func sqlState(err error) string {
	if coded, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return coded.SQLState()
	}
	return ""
}

// mySQLError is how go-sql-driver/mysql writes an error of the server.
var mySQLError = regexp.MustCompile(`Error (\d+) \((\w{5})\): `)

// mySQLState reads the SQL state from the text of the error, because this module
// does not import the driver and cannot name its type.
// ER_OPTION_PREVENTS_STATEMENT (1290) and
// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION (1792) come from a server or a
// transaction that accepts no writes.
func mySQLState(err error) string {
	found := mySQLError.FindStringSubmatch(err.Error())
	switch {
	case found == nil:
		return ""
	case found[1] == "1290", found[1] == "1792":
		return "25006"
	}
	return found[2]
}

// finalBySQLite decides by the primary result code. Every code is final except
// those of a database that is busy, locked, out of memory, interrupted, failing to
// read or write, full, or cannot be opened now.
func finalBySQLite(err error) bool {
	coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	if !ok {
		return false
	}
	switch coded.Code() & 0xff {
	case 5, 6, 7, 9, 10, 13, 14: // BUSY, LOCKED, NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN
		return false
	}
	return true
}
