package screen_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

func TestWidth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":            0,
		"abc":         3,
		"商品":          4,
		"商品 3 件":      9,
		"，。（）":        8, // full-width punctuation
		"ｶﾅ":          2, // half-width letters
		"한글":          4,
		"e\u0301":     1, // a combining mark
		"…—é":         3,
		"✅🚀":          4,
		"葛\U000e0100": 2, // a variation selector
		"𠮷":           2,
	} {
		if got := screen.Width(text); got != want {
			t.Errorf("Width(%+q) = %d, want %d", text, got, want)
		}
	}
}

func TestPadAndCut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text     string
		width    int
		pad, cut string
	}{
		{"abc", 5, "abc  ", "abc"},
		{"abcdef", 5, "abcdef", "abcd…"},
		{"商品", 5, "商品 ", "商品"},
		{"商品件", 5, "商品件", "商品…"},
		{"商品件", 4, "商品件", "商…"}, // half a character does not fit
		{"", 2, "  ", ""},
	} {
		if got := screen.Pad(test.text, test.width); got != test.pad {
			t.Errorf("Pad(%q, %d) = %q, want %q", test.text, test.width, got, test.pad)
		}
		if got := screen.Cut(test.text, test.width); got != test.cut {
			t.Errorf("Cut(%q, %d) = %q, want %q", test.text, test.width, got, test.cut)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{"nothing", "", 5, []string{""}},
		{"words", "one two three four", 9, []string{"one two", "three", "four"}},
		{"exact", "one two", 7, []string{"one two"}},
		{"a long word", "go abcdefghij on", 4, []string{"go", "abcd", "efgh", "ij", "on"}},
		{"Chinese", "商品已更新库存", 6, []string{"商品已", "更新库", "存"}},
		{"no line begins with a comma", "商品已，库存", 6, []string{"商品", "已，库", "存"}},
		{"mixed", "商品 3 件 updated", 9, []string{"商品 3 件", "updated"}},
		{"spaces", "a   b", 5, []string{"a   b"}},
		{"spaces at a break", "aaa   bbb", 4, []string{"aaa", "bbb"}},
		{"wider than a line", "商", 1, []string{"商"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, screen.Wrap(test.text, test.width)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParagraph(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, got, want string
	}{
		{"one line", screen.Paragraph("- ", "  ", "one two", 20), "- one two\n"},
		{"more", screen.Paragraph("- ", "    ", "one two three", 12), "- one two\n    three\n"},
		{"nothing", screen.Paragraph("- ", "  ", "", 20), "-\n"},
		{"no room", screen.Paragraph("a label ", "", "one", 4), "a label o\nn\ne\n"},
		{"labelled", screen.Labelled("host may", 10, "look later and tell", 20), "host may  look later\n          and tell\n"},
		{"Chinese label", screen.Labelled("宿主", 6, "look later", 12), "宿主  look\n      later\n"},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("The operation 已批准，尚未执行 was approved.", 12)
	f.Add("e\u0301e\u0301e\u0301 商", 2)
	f.Fuzz(func(t *testing.T, text string, width int) {
		width = 2 + int(uint(width)%60)
		lines := screen.Wrap(text, width)
		for _, line := range lines {
			if screen.Width(line) > width {
				t.Errorf("%q is wider than %d", line, width)
			}
		}
		squeeze := strings.NewReplacer(" ", "")
		if got, want := squeeze.Replace(strings.Join(lines, "")), squeeze.Replace(text); got != want {
			t.Errorf("lost something: %q of %q", got, want)
		}
	})
}
