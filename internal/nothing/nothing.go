// Package nothing reports whether an argument is nil.
package nothing

import "reflect"

// Is reports whether v is nil, or an interface around a nil of any kind that
// can be one: a pointer, a function, a map, a slice, a channel.
func Is(v any) bool {
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan, reflect.UnsafePointer:
		return value.IsNil()
	default:
		return false
	}
}
