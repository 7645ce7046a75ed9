// Package nilcheck reports whether an argument is nil.
package nilcheck

import "reflect"

// IsNil reports whether v is nil, or an interface that holds a nil pointer,
// function, map, slice or channel. A comparison with nil does not find the
// second: it would accept such a value, and the first call of it would panic.
func IsNil(v any) bool {
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan, reflect.UnsafePointer:
		return value.IsNil()
	default:
		return false
	}
}
