package databasetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

func TestStore(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		t.Run("sealed", func(t *testing.T) {
			registrytest.TestStore(t, func(t testing.TB) registrytest.Fixture {
				own := namespace()
				return registrytest.Of(d.open(t, own, sqlstore.WithKeys(key(1))), d.open(t, own, sqlstore.WithKeys(key(1))))
			})
		})
		t.Run("plain", func(t *testing.T) {
			registrytest.TestStore(t, func(t testing.TB) registrytest.Fixture {
				name := fmt.Sprint("plain-", namespaces.Add(1))
				own := sqlstore.WithNamespace(name)
				f := registrytest.Of(d.open(t, own, sqlstore.WithPlainTokens()), d.open(t, own, sqlstore.WithPlainTokens()))
				f.Address = d.address(name)
				f.Plant = func(ctx context.Context, key string, credentials registry.Credentials) error {
					text, err := registry.EncodeCredentials(credentials)
					if err != nil {
						return err
					}
					return d.setLogin(ctx, name, key, append([]byte{0}, text...))
				}
				return f
			})
		})
	})
}

// setLogin writes what a row holds, past all checks.
func (d *database) setLogin(ctx context.Context, namespace, key string, login []byte) error {
	statement := "UPDATE bailinghub_connections SET login = ? WHERE namespace = ? AND connection_key = ?"
	if d.dialect == sqlstore.PostgreSQL {
		statement = "UPDATE bailinghub_connections SET login = $1 WHERE namespace = $2 AND connection_key = $3"
	}
	result, err := d.db.ExecContext(ctx, statement, login, namespace, key)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, fmt.Errorf("%d rows changed", n))
	}
	return nil
}
