package databasetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

func TestConnections(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		ctx := t.Context()
		store := d.open(t, namespace(), sqlstore.WithKeys(key(1)))
		elsewhere := d.open(t, namespace(), sqlstore.WithKeys(key(1)))

		shop, err := store.Register(ctx, descriptor("shop"), registry.WithAlias("店铺 Shop"))
		must(t, err)
		instance, err := store.Register(ctx, descriptor("shop"), registry.WithInstance(registry.NewInstanceID()), registry.WithAlias("second"))
		must(t, err)
		for _, want := range []registry.Connection{shop, instance} {
			got, err := store.Connection(ctx, want.Key)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("Connection: %v\n%s", err, diff)
			}
			got, err = store.ByAlias(ctx, want.Alias)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("ByAlias: %v\n%s", err, diff)
			}
		}
		// Registering again changes what is given and nothing else.
		again, err := store.Register(ctx, descriptor("shop"))
		if diff := cmp.Diff(shop, again); diff != "" || err != nil {
			t.Errorf("registered again: %v\n%s", err, diff)
		}
		again, err = store.Register(ctx, descriptor("shop"), registry.WithAlias("renamed"))
		if err != nil || again.Alias != "renamed" || again.CreatedAt != shop.CreatedAt || again.Key != shop.Key {
			t.Errorf("renamed: %+v, %v", again, err)
		}
		for name, options := range map[string][]registry.RegisterOption{
			"an alias that is taken":   {registry.WithAlias("second")},
			"an instance that is":      {registry.WithInstance(instance.InstanceID)},
			"an alias that is not one": {registry.WithAlias(" second")},
		} {
			if _, err := store.Register(ctx, descriptor("other"), options...); !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, alias := range map[string]string{"taken": "second", "not one": " x"} {
			if err := store.Rename(ctx, shop.Key, alias); !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("renamed to what is %s: %v", name, err)
			}
		}
		must(t, store.Rename(ctx, instance.Key, "third"))
		if got, err := store.ByAlias(ctx, "third"); err != nil || got.Key != instance.Key || got.InstanceID != instance.InstanceID || got.CreatedAt != instance.CreatedAt {
			t.Errorf("renamed: %+v, %v", got, err)
		}
		must(t, store.Rename(ctx, instance.Key, ""))
		must(t, store.Rename(ctx, instance.Key, "second"))
		if _, err := store.ByAlias(ctx, "SECOND"); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("an alias in other letters: %v", err)
		}

		// The current connection.
		if _, err := store.Current(ctx); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("no current connection: %v", err)
		}
		for _, want := range []registry.Connection{shop, instance} {
			must(t, store.SetCurrent(ctx, want.Key))
			if got, err := store.Current(ctx); got.Key != want.Key || err != nil {
				t.Errorf("Current: %v, %v", got.Key, err)
			}
		}
		if _, err := elsewhere.Current(ctx); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("the current connection of another namespace: %v", err)
		}
		must(t, store.Remove(ctx, instance.Key))
		_, err = store.Register(ctx, descriptor("shop"), registry.WithInstance(instance.InstanceID))
		must(t, err)
		if _, err := store.Current(ctx); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("the current connection was removed, and registered again: %v", err)
		}
		must(t, store.SetCurrent(ctx, shop.Key))
		must(t, store.SetCurrent(ctx, ""))
		if _, err := store.Current(ctx); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("no current connection any more: %v", err)
		}
		unknown, err := descriptor("unknown").ConnectionKey()
		must(t, err)
		for name, err := range map[string]error{
			"SetCurrent":        store.SetCurrent(ctx, unknown),
			"Remove":            store.Remove(ctx, unknown),
			"Rename":            store.Rename(ctx, unknown, "x"),
			"DeleteCredentials": store.DeleteCredentials(ctx, unknown),
			"SaveCredentials":   store.SaveCredentials(ctx, unknown, registry.Credentials{}),
		} {
			if !errors.Is(err, registry.ErrNotFound) {
				t.Errorf("%s of a key that is not registered: %v", name, err)
			}
		}
	})
}

// A store of logins can be logged in to and out of.
var _ agentauth.Store = (*sqlstore.Store)(nil)

// A new login overwrites none, and a login is deleted while it is of the session
// that has ended, whatever became of its tokens.
func TestSessions(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		ctx := t.Context()
		store := d.open(t, namespace(), sqlstore.WithKeys(key(1)))
		shop, err := store.Register(ctx, descriptor("shop"))
		must(t, err)
		first, second := loginOf(shop, 1), loginOf(shop, 2)
		second.SessionID = "22222222-2222-4222-8222-222222222222"
		stored := func(want string) {
			t.Helper()
			login, err := store.Credentials(ctx, shop.Key)
			if login.SessionID != want || (want == "") != errors.Is(err, registry.ErrNotLoggedIn) {
				t.Errorf("the login is of session %q (%v), want %q", login.SessionID, err, want)
			}
		}
		expect := func(err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
		}
		expect(store.DeleteSession(ctx, shop.Key, first.SessionID), nil)
		expect(store.AddCredentials(ctx, shop.Key, first), nil)
		stored(first.SessionID)
		expect(store.AddCredentials(ctx, shop.Key, second), registry.ErrChanged)
		expect(store.DeleteSession(ctx, shop.Key, second.SessionID), registry.ErrChanged)
		stored(first.SessionID)
		must(t, store.SaveCredentials(ctx, shop.Key, loginOf(shop, 3))) // renewed
		expect(store.DeleteSession(ctx, shop.Key, first.SessionID), nil)
		stored("")
		expect(store.AddCredentials(ctx, shop.Key, loginOf(registry.Connection{}, 1)), feedback.CodeInvalidRequest)

		// Of many at once, one.
		var group sync.WaitGroup
		var added atomic.Int32
		for i := range 8 {
			group.Go(func() {
				login := loginOf(shop, i)
				login.SessionID = fmt.Sprintf("33333333-3333-4333-8333-%012d", i)
				switch err := store.AddCredentials(ctx, shop.Key, login); {
				case err == nil:
					added.Add(1)
				case !errors.Is(err, registry.ErrChanged):
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := added.Load(); n != 1 {
			t.Errorf("%d logins were added", n)
		}
		unknown, err := descriptor("unknown").ConnectionKey()
		must(t, err)
		expect(store.AddCredentials(ctx, unknown, first), registry.ErrNotFound)
		expect(store.DeleteSession(ctx, unknown, first.SessionID), registry.ErrNotFound)
	})
}

// More than a folder can have, in pages and at once.
func TestPages(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		ctx := t.Context()
		const many = registry.MaxConnections + 50
		store := d.open(t, namespace(), sqlstore.WithKeys(key(1)))
		var want []string
		for i := range many {
			c, err := store.Register(ctx, descriptor(fmt.Sprint("workspace-", i)))
			must(t, err)
			want = append(want, c.Key)
		}
		slices.Sort(want)
		var got []string
		for after := ""; ; {
			page, err := store.Page(ctx, after, 100)
			must(t, err)
			for _, c := range page {
				got = append(got, c.Key)
			}
			if len(page) < 100 {
				break
			}
			after = page[len(page)-1].Key
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the pages (-want +got):\n%s", diff)
		}
		all, err := store.List(ctx)
		if len(all) != many || err != nil {
			t.Errorf("List: %d, %v", len(all), err)
		}
		for _, limit := range []int{0, sqlstore.MaxPage + 1} {
			if _, err := store.Page(ctx, "", limit); !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("a page of %d: %v", limit, err)
			}
		}
	})
}

// Many processes register the same at once: one entry, and nobody fails.
func TestRegisterAtOnce(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		own := namespace()
		const many = 8
		results := make(chan error, many)
		var group sync.WaitGroup
		for range many {
			store := d.open(t, own, sqlstore.WithKeys(key(1)))
			group.Go(func() {
				_, err := store.Register(context.Background(), descriptor("shop"), registry.WithAlias("shop"))
				results <- err
			})
		}
		group.Wait()
		close(results)
		for err := range results {
			if err != nil {
				t.Error(err)
			}
		}
		if all, err := d.open(t, own, sqlstore.WithKeys(key(1))).List(t.Context()); len(all) != 1 || err != nil {
			t.Errorf("List: %v, %v", all, err)
		}
	})
}
