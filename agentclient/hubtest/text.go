package hubtest

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// utf16Text is a string as the Hub holds it: UTF-16 code units, among which a
// surrogate can stand alone. encoding/json would lose it.
type utf16Text []uint16

func text(s string) utf16Text { return utf16.Encode([]rune(s)) }

func (t utf16Text) String() string { return string(utf16.Decode(t)) }

// cut shortens a text to n code units, also in the middle of a character.
func (t utf16Text) cut(n int) utf16Text { return t[:min(n, len(t))] }

// safe is a text as the Hub shows it: control characters are spaces, there is no
// space at the ends, and it has at most n code units.
func (t utf16Text) safe(n int) utf16Text {
	shown := slices.Clone(t)
	for i, u := range shown {
		if u < ' ' && u != '\t' && u != '\n' && u != '\r' || u == 0x7f {
			shown[i] = ' '
		}
	}
	space := func(u uint16) bool { return isSpace(rune(u)) }
	for len(shown) > 0 && space(shown[0]) {
		shown = shown[1:]
	}
	for len(shown) > 0 && space(shown[len(shown)-1]) {
		shown = shown[:len(shown)-1]
	}
	return shown.cut(n)
}

// parseText reads a JSON string; ok is false for anything else.
func parseText(raw json.RawMessage) (t utf16Text, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	t = utf16Text{}
	for s := raw[1 : len(raw)-1]; len(s) > 0; {
		if s[0] != '\\' {
			r, n := utf8.DecodeRune(s)
			t = utf16.AppendRune(t, r)
			s = s[n:]
			continue
		}
		switch c := s[1]; c {
		case 'u':
			unit, _ := strconv.ParseUint(string(s[2:6]), 16, 16)
			t = append(t, uint16(unit))
			s = s[6:]
			continue
		case 'b':
			t = append(t, '\b')
		case 'f':
			t = append(t, '\f')
		case 'n':
			t = append(t, '\n')
		case 'r':
			t = append(t, '\r')
		case 't':
			t = append(t, '\t')
		default:
			t = append(t, uint16(c))
		}
		s = s[2:]
	}
	return t, true
}

// MarshalJSON writes the text as the Hub does: nothing escaped but what must
// be, and a surrogate that stands alone.
func (t utf16Text) MarshalJSON() ([]byte, error) {
	const hex = "0123456789abcdef"
	b := append(make([]byte, 0, len(t)+2), '"')
	for i := 0; i < len(t); i++ {
		u := t[i]
		switch {
		case u == '"' || u == '\\':
			b = append(b, '\\', byte(u))
		case u == '\b':
			b = append(b, '\\', 'b')
		case u == '\f':
			b = append(b, '\\', 'f')
		case u == '\n':
			b = append(b, '\\', 'n')
		case u == '\r':
			b = append(b, '\\', 'r')
		case u == '\t':
			b = append(b, '\\', 't')
		case i+1 < len(t) && utf16.DecodeRune(rune(u), rune(t[i+1])) != utf8.RuneError:
			b = utf8.AppendRune(b, utf16.DecodeRune(rune(u), rune(t[i+1])))
			i++
		case u < ' ' || utf16.IsSurrogate(rune(u)):
			b = append(b, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
		default:
			b = utf8.AppendRune(b, rune(u))
		}
	}
	return append(b, '"'), nil
}
