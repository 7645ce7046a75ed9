// Package sqljournal keeps the journal of operations in a database that the host already
// runs, for many replicas of the host: one replica at a time inspects an open operation, and
// what the host writes when it is settled is written exactly once.
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
// Each open entry has a time, by the database's own clock, when it is due to be inspected.
// [Journal.Claim] gives due entries to one replica, and postpones them for the time of the
// claim: should that replica end, another one gets them after that. [Claim.Record] records
// the report and sets when the entry is due again: after as long as the report asks for,
// doubled with each report that says nothing new. [Journal.Keep] does both again and again.
package sqljournal
