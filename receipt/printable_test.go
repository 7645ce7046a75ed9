package receipt_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bailinghub/bailinghub-go/receipt"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"empty", "", ""},
		{"newline, return and tab", "a\nb\rc\td", `a\nb\rc\td`},
		{"bell and backspace", "\a\b\v\f\x00", `\a\b\v\f\x00`},
		{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"title of the terminal", "\x1b]0;x\a", `\x1b]0;x\a`},
		{"delete", "a\x7f", `a\x7f`},
		{"C1 control sequence", "\u009b31m\u0085", `\u009b31m\u0085`},
		{"C1 as a byte", "\x9b31m", `\x9b31m`},
		{"invalid UTF-8", "a\xff\xc3(\xe4\xb8", `a\xff\xc3(\xe4\xb8`},
		{"encoded surrogate", "\xed\xa0\xbd", `\xed\xa0\xbd`},
		{"bidirectional override", "\u202egpj.exe\u202c", `\u202egpj.exe\u202c`},
		{"bidirectional marks", "\u200e\u200f\u061c", `\u200e\u200f\u061c`},
		{"bidirectional isolates", "\u2066x\u2069\u2067\u2068", `\u2066x\u2069\u2067\u2068`},
		{"zero-width", "pass\u200bword\u200c\u200d\u2060\ufeff", `pass\u200bword\u200c\u200d\u2060\ufeff`},
		{"soft hyphen", "co\u00adop", `co\u00adop`},
		{"separators", "a\u2028b\u2029c", `a\u2028b\u2029c`},
		{"tags", "\U000e0001\U000e0041\U000e007f", `\U000e0001\U000e0041\U000e007f`},
		{"invisible operators and annotations", "\u2061\u2064\ufff9\ufffb", `\u2061\u2064\ufff9\ufffb`},
		{"invisible letters", "\u115f\u1160\u3164\uffa0\u17b4\u034f", `\u115f\u1160\u3164\uffa0\u17b4\u034f`},
		{"Mongolian selectors", "ᠠ\u180b\u180e\u180f", `ᠠ\u180b\u180e\u180f`},
		{"private use", "\ue000\U000f0000\U0010fffd", `\ue000\U000f0000\U0010fffd`},
		{"unassigned", "\u0378\uffff\ufdd0\U0010ffff", `\u0378\uffff\ufdd0\U0010ffff`},
		{"hidden selectors", "a\ufe00\ufe01\U000e0100b", `a\ufe00\ufe01\U000e0100b`},
		{"selector after a letter", "a\ufe0f", `a\ufe0f`},
		{"one selector after an emoji, two after another", "❤\ufe0f❤\ufe0f\ufe0f", "❤\ufe0f❤\ufe0f" + `\ufe0f`},
		{"mark on nothing", "\u0301a\u0301 \u0338\n\u0338", `\u0301a` + "\u0301 " + `\u0338\n\u0338`},
		{"mark on an escape", "a\n\u0301a\xff\u0301❤\t\ufe0f", `a\n\u0301a\xff\u0301❤\t\ufe0f`},
		{"what looks like an escape", `a\nb \u202e C:\new`, `a\\nb \\u202e C:\\new`},
		{"replacement character", "a\ufffd", "a\ufffd"},
		{"joined family", "👨\u200d👩", `👨\u200d👩`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := receipt.Printable(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPrintableKeepsOrdinaryText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"ASCII":                strings.Map(func(r rune) rune { return map[bool]rune{true: -1, false: r}[r == '\\'] }, asciiPrintable()),
		"Chinese":              "商品已上架,库存 12 件。《说明》——“完成”…¥",
		"ideographic space":    "标题　正文",
		"no-break space":       "10\u00a0000\u202f€",
		"emoji":                "😀 🎉 👍🏽 ❤\ufe0f ☎\ufe0e 1\ufe0f\u20e3 ©\ufe0f ↔\ufe0f ℹ\ufe0f 🇨🇳",
		"variant of a Chinese": "葛\U000e0100城",
		"Arabic":               "تم تنفيذ العملية، ١٢٣",
		"Hebrew":               "הפעולה בוצעה",
		"Hindi":                "ऑपरेशन पूरा हुआ",
		"Thai":                 "ดำเนินการแล้ว",
		"Vietnamese in parts":  "Vie\u0323\u0302t",
		"Korean":               "작업이 완료되었습니다",
		"Japanese":             "操作は完了しました。ｶﾞ",
		"Russian and Greek":    "Готово, Ολοκληρώθηκε",
		"mathematics":          "∑ x² ≤ √2 ± ½",
		"box drawing":          "┌─┐ ▓ █",
		"JSON":                 `{"sku":"A-1","ok":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := receipt.Printable(text)
			if got != text {
				t.Errorf("got %q, want %q", got, text)
			}
			if again := receipt.Printable(got); again != got {
				t.Errorf("printed twice: %q", again)
			}
		})
	}
}

func asciiPrintable() string {
	var b strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}

// Every character of the planes that have any, alone and after others; of the
// empty and the private planes the first and the last.
func TestPrintableOfEveryCharacter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0x40000 && r&0xffff >= 0x200 && r&0xffff < 0xfff0 || r >= 0xd800 && r <= 0xdfff {
			continue
		}
		for _, before := range []string{"", "a", "❤", "字"} {
			if before != "" && !unicode.In(r, unicode.M, unicode.Variation_Selector) {
				continue // only these depend on what is before them
			}
			got := receipt.Printable(before + string(r))
			if problem := notPrintable(got); problem != "" {
				t.Fatalf("%U after %q gives %q: %s", r, before, got, problem)
			}
			if got == before {
				t.Fatalf("%U after %q is gone", r, before)
			}
		}
	}
}

// notPrintable says, without the help of the package, what must not be in a
// text that is safe to print; "" where there is nothing.
func notPrintable(text string) string {
	if !utf8.ValidString(text) {
		return "invalid UTF-8"
	}
	for _, r := range text {
		switch {
		case unicode.IsControl(r):
			return "a control"
		case unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs):
			return "a format character, a separator or private use"
		case unicode.In(r, unicode.Bidi_Control, unicode.Join_Control, unicode.Other_Default_Ignorable_Code_Point):
			return "an invisible character"
		case unicode.Is(unicode.Variation_Selector, r) && r != '\ufe0e' && r != '\ufe0f' && r < '\U000e0100':
			return "a variation selector"
		case !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Zs):
			return "an unassigned character"
		}
	}
	return ""
}

// Two texts never look the same: every escape can be taken back.
func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"", "a\nb", `a\nb`, "\xff", `\xff`, "❤\ufe0f\ufe0f", "字\U000e0100", " \u0301", "\\\u0301", "\u202e\U000e0041"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := receipt.Printable(text)
		if problem := notPrintable(got); problem != "" {
			t.Fatalf("%q gives %q: %s", text, got, problem)
		}
		back, err := unescape(got)
		if err != nil || back != text {
			t.Fatalf("%q gives %q, which reads as %q, %v", text, got, back, err)
		}
	})
}
