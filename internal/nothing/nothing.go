// Package nothing tells whether a caller gave anything at all.
package nothing

import "reflect"

// Is reports whether v is nil, or an interface around a nil pointer.
func Is(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}
