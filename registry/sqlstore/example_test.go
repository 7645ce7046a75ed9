package sqlstore_test

import (
	"context"
	"database/sql"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// A replica of a host opens the store that all of them share.
func Example() {
	start := func(ctx context.Context, db *sql.DB, key []byte) error {
		store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL, sqlstore.WithKeys(key)) // 32 random bytes from your secrets
		if err != nil {
			return err
		}
		if err := store.Migrate(ctx); err != nil { // the tables, once; ten replicas may begin at once
			return err
		}
		transport, err := host.New(store)
		if err != nil {
			return err
		}
		return serve(ctx, transport)
	}
	_ = start
}

// serve stands for what a host does.
func serve(context.Context, *host.Transport) error { return nil }
