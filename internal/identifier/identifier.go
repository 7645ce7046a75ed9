// Package identifier checks the forms of the identifiers that hosts, Hub and
// registry exchange. Each function checks the whole string and trims nothing.
package identifier

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// InvocationID reports whether s is 64 lower-case hexadecimal digits.
func InvocationID(s string) bool { return len(s) == 64 && lowerHex(s) }

// UUID reports whether s is a UUID of version 1 to 5 and variant 8, 9, a or b,
// in either letter case. Run ids and session ids are UUIDs; they are compared
// byte by byte.
func UUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		case 14:
			if c < '1' || c > '5' {
				return false
			}
		case 19:
			if c != '8' && c != '9' && c|0x20 != 'a' && c|0x20 != 'b' {
				return false
			}
		default:
			if !digit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return false
			}
		}
	}
	return true
}

// Workspace reports whether s names a workspace, which the Hub calls a route:
// the form of [ClientAppID], but never "auto".
func Workspace(s string) bool { return s != "auto" && ClientAppID(s) }

// ClientAppID reports whether s is 2 to 64 lower-case letters, digits, "-" and
// "_", of which the first is a letter or a digit.
func ClientAppID(s string) bool {
	if len(s) < 2 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !lower(c) && !digit(c) && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return true
}

// Tool reports whether s is 1 to 64 letters, digits and "_", of which the
// first is not a digit.
func Tool(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !lower(c|0x20) && c != '_' && (i == 0 || !digit(c)) {
			return false
		}
	}
	return true
}

// ConnectionKey reports whether s is "conn_" and 32 lower-case hexadecimal
// digits.
func ConnectionKey(s string) bool { return prefixed(s, "conn_") }

// InstanceID reports whether s is "instance_" and 32 lower-case hexadecimal
// digits.
func InstanceID(s string) bool { return prefixed(s, "instance_") }

// RequestID reports whether s is 1 to 64 letters, digits, "-" and "_": the form
// of request id that a HermesX server keeps in its log.
func RequestID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !lower(c|0x20) && !digit(c) && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// MaxAlias is the greatest length of an alias in UTF-16 units.
const MaxAlias = 128

// Alias reports whether s may be an alias in a registry that is read: valid
// UTF-8, 1 to [MaxAlias] UTF-16 units, no C0 control or DEL, no space at either
// end.
func Alias(s string) bool {
	if s == "" || len(s) > 3*MaxAlias || !utf8.ValidString(s) || UTF16Len(s) > MaxAlias {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return !SpaceAtEnd(s)
}

// NewAlias reports whether s may be an alias in a registry that is written: an
// [Alias] that has no C1 or bidirectional control and not the form of a
// connection key.
func NewAlias(s string) bool {
	return Alias(s) && !ConnectionKey(s) && strings.IndexFunc(s, hidden) < 0
}

// MaxToken is the greatest length of a token.
const MaxToken = 8192

// BearerToken reports whether s can stand in an Authorization header as it is:
// 1 to [MaxToken] visible ASCII characters.
func BearerToken(s string) bool {
	if s == "" || len(s) > MaxToken {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// UTF16Len is the length of s in UTF-16 units. A byte that is not UTF-8 counts
// as one.
func UTF16Len(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// SpaceAtEnd reports whether s begins or ends with a character that JavaScript's
// trim removes: a space, a line end or a byte order mark.
func SpaceAtEnd(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	return space(first) || space(last)
}

func space(r rune) bool {
	// U+0085 is a space to Go, but not to JavaScript.
	return r == '\ufeff' || r != '\u0085' && unicode.IsSpace(r)
}

// hidden reports whether r is a C1 control or a mark that changes the direction
// of text.
func hidden(r rune) bool {
	return r >= 0x80 && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r)
}

func prefixed(s, prefix string) bool {
	digits, ok := strings.CutPrefix(s, prefix)
	return ok && len(digits) == 32 && lowerHex(digits)
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; !digit(c) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
