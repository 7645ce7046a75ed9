package registry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bailinghub/bailinghub-go/registry"
)

// keeper is what a host needs of a registry to log people in and out.
type keeper interface {
	registry.LoginReader
	Register(context.Context, registry.Descriptor, ...registry.RegisterOption) (registry.Connection, error)
	List(context.Context) ([]registry.Connection, error)
	ByAlias(ctx context.Context, alias string) (registry.Connection, error)
	Current(context.Context) (registry.Connection, error)
	SetCurrent(ctx context.Context, key string) error
	Rename(ctx context.Context, key, alias string) error
	Remove(ctx context.Context, key string) error
	SaveCredentials(ctx context.Context, key string, credentials registry.Credentials) error
	DeleteCredentials(ctx context.Context, key string) error
}

func TestMemoryKeepsLogins(t *testing.T) {
	t.Parallel()
	testKeeper(t, registry.NewMemory())
}

// testKeeper goes through what becomes of the logins of one person: a second one
// beside the first, the choice between them, a name for each, a newer one in
// place of an older, and the end of both.
func testKeeper(t *testing.T, store keeper) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	first, err := store.Register(ctx, shop(), registry.WithAlias("shop"))
	must(err)
	must(store.SaveCredentials(ctx, first.Key, credentials()))
	must(store.SetCurrent(ctx, first.Key))

	// A second login of the same client app at the same workspace.
	second, err := store.Register(ctx, shop(), registry.WithInstance(registry.NewInstanceID()))
	must(err)
	login := credentials()
	login.SessionID = "22222222-2222-4222-8222-222222222222"
	must(store.SaveCredentials(ctx, second.Key, login))
	must(store.SetCurrent(ctx, second.Key))
	stored := func(of registry.Connection, want registry.Credentials) {
		t.Helper()
		connection, got, err := store.ConnectionCredentials(ctx, of.Key)
		if err != nil || connection.Key != of.Key || connection.Alias != of.Alias || connection.InstanceID != of.InstanceID || !got.Equal(want) {
			t.Errorf("ConnectionCredentials: %+v, the login or not, %v; want %+v", connection, err, of)
		}
	}
	stored(first, credentials())
	stored(second, login)
	if current, err := store.Current(ctx); err != nil || current != second {
		t.Errorf("Current: %+v, %v; want the second", current, err)
	}

	// Names.
	must(store.Rename(ctx, second.Key, "deli"))
	if found, err := store.ByAlias(ctx, "deli"); err != nil || found.Key != second.Key || found.CreatedAt != second.CreatedAt || found.UpdatedAt.Before(second.UpdatedAt) {
		t.Errorf("ByAlias of a new name: %+v, %v", found, err)
	}
	for name, alias := range map[string]string{"another's": "shop", "no alias": " deli", "a key": first.Key} {
		err := store.Rename(ctx, second.Key, alias)
		wantInvalid(t, err, "alias", "")
		if found, err := store.ByAlias(ctx, "deli"); err != nil || found.Key != second.Key {
			t.Errorf("after a name that is %s: %+v, %v", name, found, err)
		}
	}
	must(store.Rename(ctx, first.Key, ""))
	must(store.Rename(ctx, second.Key, "shop"))
	before, err := store.Connection(ctx, second.Key)
	must(err)
	must(store.Rename(ctx, second.Key, "shop"))
	if after, err := store.Connection(ctx, second.Key); err != nil || after != before || after.Alias != "shop" {
		t.Errorf("the same name once more: %+v, %v; want %+v", after, err, before)
	}
	first.Alias, second.Alias = "", "shop"
	stored(first, credentials())
	stored(second, login)
	unknown := "conn_00000000000000000000000000000000"
	if err := store.Rename(ctx, unknown, "x"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("Rename of nothing: %v, want ErrNotFound", err)
	}
	wantInvalid(t, store.Rename(ctx, "shop", "x"), "key", "")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := store.Rename(ended, first.Key, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("Rename with a context that has ended: %v", err)
	}

	// A newer login in place of an older one, which is the one that goes.
	replacing := login
	replacing.SessionID = "33333333-3333-4333-8333-333333333333"
	must(store.SaveCredentials(ctx, second.Key, replacing))
	stored(second, replacing)
	stored(first, credentials())

	// The end.
	must(store.DeleteCredentials(ctx, second.Key))
	connection, got, err := store.ConnectionCredentials(ctx, second.Key)
	if !errors.Is(err, registry.ErrNotLoggedIn) || connection != (registry.Connection{}) || got != (registry.Credentials{}) {
		t.Errorf("ConnectionCredentials after a logout: %+v, a login or not, %v; want ErrNotLoggedIn alone", connection, err)
	}
	must(store.Remove(ctx, second.Key))
	if _, err := store.Current(ctx); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("Current after its removal: %v, want ErrNotFound", err)
	}
	if _, _, err := store.ConnectionCredentials(ctx, second.Key); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("ConnectionCredentials after a removal: %v, want ErrNotFound", err)
	}
	_, _, err = store.ConnectionCredentials(ctx, "shop")
	wantInvalid(t, err, "key", "")
	stored(first, credentials())
	if list, err := store.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("List: %v, %v; want the first", list, err)
	}
}
