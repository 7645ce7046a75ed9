// Package await calls code that may ignore its context, such as a store of the
// host, and returns in time all the same.
package await

import (
	"context"
	"runtime"
)

// Do calls f in a new goroutine. It returns what f returns or, when ctx ends
// first, the error of ctx. In that case f goes on in its goroutine until it
// returns by itself, and Do drops what it returns.
//
// Do repeats a panic of f in its caller, with the same value, and runtime.Goexit
// likewise. When Do has returned because ctx ended, there is nobody left to panic
// in, and a later panic of f is dropped.
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
