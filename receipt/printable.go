package receipt

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable gives text in a form that is safe on a terminal and in a line of a
// log. A character that could move the cursor, break the line, reorder the text
// around it or stay invisible is replaced by an escape of the Go language, such
// as \n, \x1b, \u202e or \U000e0041. Letters, marks, digits, punctuation,
// symbols and spaces of any language stay as they are.
//
// Escaped are: controls (C0, DEL, C1), line and paragraph separators, format
// characters (bidirectional marks, zero-width characters, the byte order mark,
// tags), invisible letters, private-use and unassigned characters, and bytes
// that are not UTF-8. A variation selector stays only behind a symbol or Chinese
// character whose form it selects, and a combining mark only behind a character
// that it can combine with.
//
// A backslash is doubled. Without that, the text \x1b of six bytes would look
// like an escape. A second call doubles the backslashes again, so call Printable
// once, where the text is printed.
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
	// blank are letters and symbols without a visible form: the empty Braille
	// pattern, a Khitan filler and a musical null notehead.
	blank = "\u2800\U00016fe4\U0001d159"
)

// plain reports whether r can be printed as it is behind before, the character
// that was printed last.
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

// emojiText reports whether r is one of the characters that Unicode does not
// count as symbols although a variation selector turns them into emoji.
func emojiText(r rune) bool { return strings.ContainsRune("#*0123456789‼⁉ℹ〰", r) }
