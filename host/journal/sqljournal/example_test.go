package sqljournal_test

import (
	"context"
	"database/sql"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/host/journal/sqljournal"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// Every replica of a host keeps the journal that all of them share.
func ExampleJournal_Keep() {
	keep := func(ctx context.Context, db *sql.DB, transport *host.Transport) error {
		operations, err := sqljournal.Open(ctx, db, sqlstore.PostgreSQL)
		if err != nil {
			return err
		}
		if err := operations.Migrate(ctx); err != nil { // its own table: the store's Migrate does not make it
			return err
		}
		err = operations.Keep(ctx, transport, sqljournal.OnSettled(func(ctx context.Context, tx *sql.Tx, entry journal.Entry) error {
			return noteForTheUser(ctx, tx, entry.Report)
		}))
		return err
	}
	_ = keep
}

// noteForTheUser stands for what a host writes in the same transaction.
func noteForTheUser(context.Context, *sql.Tx, host.Report) error { return nil }
