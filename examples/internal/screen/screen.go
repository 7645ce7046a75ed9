// Package screen lays text out in the columns of a terminal, where a Chinese
// character takes two of them and a combining mark none.
//
// It takes texts that receipt.Printable has made safe, or that the program has
// written itself.
package screen

import (
	"slices"
	"strings"
	"unicode"
)

// Columns is how wide lines may be that are not wrapped, such as commands to
// copy.
const Columns = 100

// Plain is how wide the examples write where there is no terminal: into a file
// or a pipe.
const Plain = 80

// narrowest is the least that they write for. In a narrower window the terminal
// breaks the lines.
const narrowest = 40

// Width gives how many columns text takes.
func Width(text string) int {
	width := 0
	for _, r := range text {
		width += runeWidth(r)
	}
	return width
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Variation_Selector):
		return 0
	case wide(r):
		return 2
	}
	return 1
}

// wides are the wide and full-width characters of Unicode's East Asian Width,
// in blocks: exact for all letters, near enough for symbols.
var wides = [...][2]rune{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x2329, 0x232a}, {0x23e9, 0x23ec}, {0x23f0, 0x23f0}, {0x23f3, 0x23f3},
	{0x25fd, 0x25fe}, {0x2614, 0x2615}, {0x2648, 0x2653}, {0x26a1, 0x26a1}, {0x26bd, 0x26be}, {0x26d4, 0x26d4},
	{0x2705, 0x2705}, {0x270a, 0x270b}, {0x2728, 0x2728}, {0x274c, 0x274c}, {0x274e, 0x274e}, {0x2753, 0x2755},
	{0x2757, 0x2757}, {0x2795, 0x2797}, {0x2b1b, 0x2b1c}, {0x2b50, 0x2b50}, {0x2b55, 0x2b55},
	{0x2e80, 0x303e}, {0x3041, 0x4dbf}, {0x4e00, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3}, {0xf900, 0xfaff},
	{0xfe10, 0xfe19}, {0xfe30, 0xfe6f}, {0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x16fe0, 0x18cff}, {0x1aff0, 0x1b2ff},
	{0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f265},
	{0x1f300, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca},
	{0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc},
	{0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f},
	{0x1f680, 0x1f6c5}, {0x1f6eb, 0x1f6fc}, {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff},
	{0x20000, 0x3fffd},
}

func wide(r rune) bool {
	_, found := slices.BinarySearchFunc(wides[:], r, func(block [2]rune, r rune) int {
		switch {
		case block[1] < r:
			return -1
		case block[0] > r:
			return 1
		}
		return 0
	})
	return found
}

// Pad fills text up to width with spaces. A longer text stays as it is.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-Width(text)))
}

// Cut shortens text to width, with a mark at the end where something is gone.
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	head, _ := split(text, width-1)
	return head + "…"
}

// split gives as much of text as fits into width, and the rest.
func split(text string, width int) (head, rest string) {
	used := 0
	for i, r := range text {
		if used += runeWidth(r); used > width {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// Wrap breaks text into lines of at most width columns: at spaces, between
// Chinese characters, and inside a word only where it fits into no line.
func Wrap(text string, width int) []string {
	if Width(text) <= width {
		return []string{strings.TrimRight(text, " ")}
	}
	var lines []string
	line, gap := "", ""
	for text != "" {
		var piece string
		if piece, text = next(text); strings.TrimLeft(piece, " ") == "" {
			gap = piece
			continue
		}
		if Width(line+gap+piece) > width && line != "" {
			lines = append(lines, line)
			line, gap = "", ""
		}
		line, gap = line+gap+piece, ""
		for Width(line) > width {
			head, rest := split(line, width)
			if head == "" {
				break // a character wider than a line
			}
			lines, line = append(lines, head), rest
		}
	}
	return append(lines, line)
}

// Paragraph gives text as lines of at most width columns, each with its line
// end. The first one begins with first, the others with rest.
func Paragraph(first, rest, text string, width int) string {
	var lines strings.Builder
	prefix := first
	for _, line := range Wrap(text, max(1, width-max(Width(first), Width(rest)))) {
		lines.WriteString(strings.TrimRight(prefix+line, " ") + "\n")
		prefix = rest
	}
	return lines.String()
}

// Labelled is a Paragraph with a label before it, which takes so many columns.
func Labelled(label string, columns int, text string, width int) string {
	return Paragraph(Pad(label, columns), strings.Repeat(" ", columns), text, width)
}

// next takes the next piece off text that no line may break: spaces, a word,
// or a wide character with the punctuation that belongs to it.
func next(text string) (piece, rest string) {
	kind := func(r rune) int {
		switch {
		case r == ' ':
			return 0
		case wide(r):
			return 2
		}
		return 1
	}
	first := -1
	for i, r := range text {
		switch {
		case first < 0:
			first = kind(r)
		case runeWidth(r) == 0, first == 2 && closing(r):
		case kind(r) != first, first == 2:
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// closing reports whether r does not stand at the beginning of a line.
func closing(r rune) bool {
	return strings.ContainsRune("，。、；：？！）》」』】〉〕”’…,.;:?!)]}", r)
}
