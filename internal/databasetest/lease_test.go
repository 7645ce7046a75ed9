package databasetest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// A save that fails because the database takes no writes for a moment, which
// keeps the lease from being given back too: the store that holds the rotation
// saves it as soon as the database takes writes again, and no other process gets
// at the refresh token that is used up before that.
func TestLeaseThatCouldNotBeGivenBack(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var f faults
		var logged bytes.Buffer
		ours := namespace()
		first, err := sqlstore.Open(t.Context(), d.faulty(t, &f), d.dialect, ours, sqlstore.WithKeys(key(1)), sqlstore.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		must(t, err)
		second := d.open(t, ours, sqlstore.WithKeys(key(1)))
		c := loggedIn(t, first, "shop")

		err = first.UpdateCredentials(t.Context(), c.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
			f.reset(func(_ int, statement string) (error, bool) {
				if strings.HasPrefix(statement, "UPDATE") {
					return d.refusesWrites(), false
				}
				return nil, true
			})
			return loginOf(c, 2), nil
		})
		if err == nil {
			t.Fatal("a save without a database went well")
		}
		f.reset(nil)

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err = second.UpdateCredentials(ctx, c.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			t.Error("another process is given the used refresh token")
			return c, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another process: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second) // a quarter of what a lease lasts
		defer cancel()
		must(t, first.UpdateCredentials(ctx, c.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
			return loginOf(c, 2), nil
		}))
		must(t, second.UpdateCredentials(ctx, c.Key, func(_ context.Context, stored registry.Credentials) (registry.Credentials, error) {
			if !stored.Equal(loginOf(c, 2)) {
				t.Error("the rotation is not stored")
			}
			return stored, nil
		}))
		if logged.Len() != 0 {
			t.Errorf("it is logged: %s", logged.String())
		}
	})
}

// A lease that is taken although the answer was lost was taken over from
// nobody, so that nobody is warned of a lost session.
func TestLeaseWhoseAnswerIsLost(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var f faults
		var logged bytes.Buffer
		store, err := sqlstore.Open(t.Context(), d.faulty(t, &f), d.dialect, namespace(), sqlstore.WithKeys(key(1)), sqlstore.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		must(t, err)
		c := loggedIn(t, store, "shop")
		lost := false
		f.reset(func(_ int, statement string) (error, bool) {
			if !lost && strings.HasPrefix(statement, "UPDATE bailinghub_connections SET lease_holder") {
				lost = true
				return errors.New("unexpected EOF"), true
			}
			return nil, true
		})
		must(t, store.UpdateCredentials(t.Context(), c.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
			return loginOf(c, 2), nil
		}))
		f.reset(nil)
		if !lost || logged.Len() != 0 {
			t.Errorf("lost %v, logged: %s", lost, logged.String())
		}
	})
}

// A lease that a process left behind is taken over when its time is over, and
// that is logged, because a session may be lost.
func TestLeaseOfAProcessThatEnded(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var logged bytes.Buffer
		store := d.open(t, namespace(), sqlstore.WithKeys(key(1)), sqlstore.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		c := loggedIn(t, store, "shop")
		_, err := d.db.Exec("UPDATE bailinghub_connections SET lease_holder = 5, lease_until = 1 WHERE connection_key = '" + c.Key + "'")
		must(t, err)
		must(t, store.UpdateCredentials(t.Context(), c.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
			return loginOf(c, 2), nil
		}))
		if text := logged.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, c.Key) || strings.Contains(text, "synthetic-") {
			t.Errorf("logged: %s", text)
		}
	})
}
