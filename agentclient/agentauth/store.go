package agentauth

import (
	"context"
	"errors"
	"strings"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

// Store is the part of a store of logins that this package uses: the part that inspections
// use, and methods that change connections. registry.Memory, registry.Dir and sqlstore.Store
// implement it; the methods of registry.Memory say what each promises.
type Store interface {
	registry.Store
	// Register adds a connection, or updates the one that has its key.
	Register(ctx context.Context, descriptor registry.Descriptor, options ...registry.RegisterOption) (registry.Connection, error)
	// Remove removes a connection and its login.
	Remove(ctx context.Context, key string) error
	// ByAlias gives the connection of an alias.
	ByAlias(ctx context.Context, alias string) (registry.Connection, error)
	// SetCurrent makes a connection the current one; "" leaves none.
	SetCurrent(ctx context.Context, key string) error
	// Current gives the current connection.
	Current(ctx context.Context) (registry.Connection, error)
	// AddCredentials saves the login of a connection that has none.
	AddCredentials(ctx context.Context, key string, credentials registry.Credentials) error
	// SaveCredentials saves a login in place of one that may be there, a damaged
	// one included.
	SaveCredentials(ctx context.Context, key string, credentials registry.Credentials) error
	// DeleteSession deletes a login if it belongs to this session.
	DeleteSession(ctx context.Context, key, sessionID string) error
	// DeleteCredentials deletes a login, a damaged one included.
	DeleteCredentials(ctx context.Context, key string) error
}

var (
	_ Store = (*registry.Memory)(nil)
	_ Store = (*registry.Dir)(nil)
)

// storeError makes the error of a store that failed. It shows the text of an error of package
// registry. Of any other error it shows only the sentinels that it matches, because its text
// may quote a secret.
func storeError(ctx context.Context, operation feedback.Operation, err error) error {
	if ctx.Err() != nil {
		return ended(ctx, operation).build()
	}
	f := failure{operation: operation, event: storeFailed}
	switch {
	case errors.Is(err, feedback.CodeInvalidRequest):
		f.event = badArgument
	case errors.Is(err, registry.ErrNotFound):
		f.event = noLogin
		f.message = "There is no connection of this key."
	case errors.Is(err, registry.ErrNotLoggedIn):
		f.event = noLogin
	case errors.Is(err, registry.ErrChanged):
		f.event = changed
	}
	if known, ok := errors.AsType[*registry.Error](err); ok {
		if f.event == storeFailed || f.event == badArgument {
			f.message = "The store of logins refused: " + strings.TrimPrefix(known.Error(), "registry: ") + "."
		}
		f.causes = append(f.causes, known)
	}
	for _, sentinel := range []error{registry.ErrNotFound, registry.ErrNotLoggedIn, registry.ErrDamaged, registry.ErrChanged} {
		if errors.Is(err, sentinel) {
			f.causes = append(f.causes, sentinel)
		}
	}
	return f.build()
}
