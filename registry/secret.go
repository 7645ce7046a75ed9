package registry

import (
	"fmt"
	"io"
	"log/slog"
	"unique"
)

// redacted is printed in place of a secret.
const redacted = "[redacted]"

// Secret is a text that is not printed by accident: fmt with any verb, slog,
// encoding/json, encoding/xml and templates print "[redacted]" instead, also where it
// is a field of another struct. Only [Secret.Reveal] gives the text.
//
// The zero value is the empty secret. Secrets compare by value, with == too,
// and are safe for concurrent use.
type Secret struct {
	// fmt prints an unexported field, and an operand that its verb does not fit,
	// without calling any method. A string would be shown then; of a handle it
	// prints an address.
	text unique.Handle[string]
}

// NewSecret makes a secret of text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{unique.Make(text)}
}

// Reveal gives the text. Do not pass it to anything that logs.
func (s Secret) Reveal() string {
	if s == (Secret{}) {
		return ""
	}
	return s.text.Value()
}

// Equal reports whether both are the same text.
func (s Secret) Equal(other Secret) bool { return s == other }

// Format prints "[redacted]" for every verb and flag.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }

// String gives "[redacted]".
func (s Secret) String() string { return redacted }

// GoString gives "[redacted]".
func (s Secret) GoString() string { return redacted }

// LogValue gives "[redacted]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText gives "[redacted]", for all encodings. A Secret cannot be unmarshalled.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
