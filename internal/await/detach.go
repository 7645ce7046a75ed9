package await

import (
	"context"
	"reflect"
)

// Detach gives a context for work that continues after its caller has returned.
// It has the values of ctx and does not end with it. It hides the hooks of
// net/http/httptrace that the caller put into ctx: they would otherwise be called
// for requests that the caller does not wait for, and may use what the caller
// has already closed.
func Detach(ctx context.Context) context.Context {
	return withoutHooks{context.WithoutCancel(ctx)}
}

type withoutHooks struct{ context.Context }

// Value hides the hooks by the package that the type of their key belongs to,
// one for the hooks of net/http and one for those of package net. Both types are
// unexported, so they cannot be named here. Adding an empty trace instead would
// not hide the caller's: httptrace calls the hooks of both.
func (c withoutHooks) Value(key any) any {
	if key != nil {
		switch reflect.TypeOf(key).PkgPath() {
		case "net/http/httptrace", "internal/nettrace":
			return nil
		}
	}
	return c.Context.Value(key)
}
