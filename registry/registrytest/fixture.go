package registrytest

import (
	"context"

	"github.com/bailinghub/bailinghub-go/registry"
)

// Fixture is one store, empty at first, as the suite needs to see it. All
// fields but Other, Address and Plant are required. The functions are what the host
// itself, or its login, does to the store; they may go through either handle.
type Fixture struct {
	// Store is the store.
	Store registry.Store
	// Other is a second handle on the same store, as another process has it:
	// a second connection to the database, the folder opened again. Leave it
	// nil only where there can be no other process.
	Other registry.Store
	// Address is how another process opens the store: a URL, a path. With it
	// the suite starts some, by way of [Child], and checks that exclusion
	// reaches across them. Leave it empty only where there can be no other
	// process.
	Address string
	// Register adds a connection. One that is there already stays, with its
	// login.
	Register func(context.Context, registry.Descriptor) (registry.Connection, error)
	// Login saves credentials under a key, in place of those that are there.
	// It refuses those that [registry.Connection.Check] does.
	Login func(ctx context.Context, key string, credentials registry.Credentials) error
	// Logout deletes the credentials of a key; the connection stays.
	Logout func(ctx context.Context, key string) error
	// Remove takes a connection away, and its credentials with it.
	Remove func(ctx context.Context, key string) error
	// Plant puts credentials under a key past all checks, straight into the
	// row or the file, as another program or a restored backup might: they are
	// well formed, and of another connection. Leave it nil only where nothing
	// but the store itself can write to its storage. Then it is not checked
	// that the store refuses such credentials with [registry.ErrDamaged].
	Plant func(ctx context.Context, key string, credentials registry.Credentials) error
}

// Registry is what the stores of package registry can do besides.
type Registry interface {
	registry.Store
	Register(context.Context, registry.Descriptor, ...registry.RegisterOption) (registry.Connection, error)
	SaveCredentials(ctx context.Context, key string, credentials registry.Credentials) error
	DeleteCredentials(ctx context.Context, key string) error
	Remove(ctx context.Context, key string) error
}

// Of makes a fixture of a registry and, where it is not nil, a second handle
// on it. It leaves Address empty and Plant nil, which is right for
// [registry.Memory].
func Of(store Registry, other registry.Store) Fixture {
	return Fixture{
		Store: store,
		Other: other,
		Register: func(ctx context.Context, d registry.Descriptor) (registry.Connection, error) {
			return store.Register(ctx, d)
		},
		Login:  store.SaveCredentials,
		Logout: store.DeleteCredentials,
		Remove: store.Remove,
	}
}
