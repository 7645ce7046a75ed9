// Package sqljournal keeps the journal of operations in a database that the host
// already runs, for many replicas of it: each open operation is asked about by
// one of them at a time, and what its settlement brings is written exactly once.
//
//	journal, err := sqljournal.Open(ctx, db, sqlstore.PostgreSQL)
//	if err != nil {
//		return err
//	}
//	if err := journal.Migrate(ctx); err != nil { // the table, once
//		return err
//	}
//	go journal.Keep(ctx, transport, sqljournal.OnSettled(func(ctx context.Context, tx *sql.Tx, entry journal.Entry) error {
//		return noteForTheUser(ctx, tx, entry)
//	}))
//
// A [Journal] is a journal.Journal; it uses database/sql alone, and works beside
// the store of package registry/sqlstore in one database.
//
// # Who asks, and when
//
// Each open entry has a time, by the database's own clock, at which it is next
// asked about. [Journal.Claim] gives entries whose time has come to one replica
// and puts their time off for as long as the claim lasts, so that another
// replica takes them over where this one ends. [Claim.Record] notes the report
// and sets the next time: what the report asks for, doubled while nothing new is
// learned. [Journal.Keep] does both, again and again.
package sqljournal
