package receipt

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable gives text in a form that is safe on a terminal and in a line of a
// log: what could move the cursor, break the line, reorder what stands around
// it or hide in it becomes visible as an escape of the Go language, such as
// \n, \x1b, \u202e or \U000e0041. Letters, marks, digits, punctuation, symbols
// and spaces of any language stay as they are.
//
// Escaped are: controls (C0, DEL, C1), line and paragraph separators, format
// characters (bidirectional marks, zero-width characters, the byte order mark,
// tags), invisible letters, private-use and unassigned characters, and bytes
// that are not UTF-8. A variation selector stays only where it picks the look
// of the symbol or Chinese character before it, and a combining mark only
// where there is a character for it in the text.
//
// A backslash is doubled, so that what looks like an escape is one. Printable
// of a printable text therefore doubles its backslashes again: call it once,
// where the text is printed.
func Printable(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	before := noBase
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		char := rest[:size]
		rest = rest[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(char[0]), 16))
			before = noBase
		case r != '\\' && plain(r, before):
			b.WriteString(char)
			before = r
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			before = noBase
		}
	}
	return b.String()
}

const (
	noBase = ' '
	// blank are letters and symbols that show nothing: the empty Braille
	// pattern, a Khitan filler and a musical null notehead.
	blank = "\u2800\U00016fe4\U0001d159"
)

// plain reports whether r can be printed as it is after the character before,
// which was.
func plain(r, before rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return ' ' <= r && r <= '~'
	case r == '\ufe0e' || r == '\ufe0f':
		return unicode.Is(unicode.So, before) || unicode.Is(unicode.Sm, before) || emojiText(before)
	case unicode.Is(unicode.Variation_Selector, r):
		return r >= '\U000e0100' && unicode.Is(unicode.Han, before)
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), strings.ContainsRune(blank, r):
		return false
	case unicode.IsMark(r):
		return !unicode.Is(unicode.Zs, before)
	}
	return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r)
}

// emojiText reports whether r is one of the characters that are no symbols and
// have a look as an emoji all the same.
func emojiText(r rune) bool { return strings.ContainsRune("#*0123456789‼⁉ℹ〰", r) }
