package await

import (
	"context"
	"reflect"
)

// Detach gives a context for work that goes on after its caller has gone. It
// has the values of ctx and not its end, and it hides the caller's hooks of
// net/http/httptrace: they are for the requests that the caller waits for, and
// may touch what the caller has put away by then.
func Detach(ctx context.Context) context.Context {
	return withoutHooks{context.WithoutCancel(ctx)}
}

type withoutHooks struct{ context.Context }

// Value hides what lies under a key of the packages that keep such hooks: one
// holds those of net/http, the other those of package net. Neither key can be
// named here, and another trace on top would call the hidden one as well.
func (c withoutHooks) Value(key any) any {
	if key != nil {
		switch reflect.TypeOf(key).PkgPath() {
		case "net/http/httptrace", "internal/nettrace":
			return nil
		}
	}
	return c.Context.Value(key)
}
