package databasetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

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
