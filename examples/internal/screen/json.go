package screen

import (
	"unicode/utf16"

	"github.com/bailinghub/bailinghub-go/receipt"
)

// JSON gives the same JSON with an escape for everything that receipt.Printable
// would not print as it is, because a terminal would obey it.
func JSON(text []byte) []byte {
	const hex = "0123456789abcdef"
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if char := string(r); r == '\\' || receipt.Printable(char) == char {
			out = append(out, char...)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = append(out, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
		}
	}
	return out
}
