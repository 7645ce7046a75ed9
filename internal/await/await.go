// Package await calls code of the caller's that may ignore its context.
package await

import (
	"context"
	"runtime"
)

// Do calls f in a goroutine of its own and returns what it returns, or the
// error of ctx as soon as that is done, whichever comes first. A call that
// outlives its context ends by itself; what it returns is dropped.
//
// A panic of f is raised again in the caller, with the same value; so is
// runtime.Goexit. After the context has ended there is no caller any more to
// raise it in, and it is dropped with the rest.
func Do[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type outcome struct {
		value    T
		err      error
		returned bool
		panicked any
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if !o.returned {
				o.panicked = recover()
			}
			done <- o
		}()
		o.value, o.err = f(ctx)
		o.returned = true
	}()
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case o := <-done:
		switch {
		case o.returned:
			return o.value, o.err
		case o.panicked != nil:
			panic(o.panicked)
		default:
			runtime.Goexit()
			return none, nil
		}
	}
}
