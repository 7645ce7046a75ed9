package strictjson

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unescape gives what a JSON string means. s is what stands between its quotes,
// and the decoder has checked it before. It reads lone surrogates as
// jsontext.AppendUnquote does, but does not check the string a second time, which
// makes it faster for texts with many escapes.
func unescape(s []byte) []byte {
	b := make([]byte, 0, len(s))
	for len(s) > 0 {
		run := 0
		for run < len(s) && s[run] != '\\' {
			run++
		}
		if run > 0 {
			b = append(b, s[:run]...)
			s = s[run:]
			continue
		}
		c := s[1]
		s = s[2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := unit(s)
			s = s[4:]
			if utf16.IsSurrogate(r) {
				var next rune
				if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
					next = unit(s[2:])
				}
				if r = utf16.DecodeRune(r, next); r != utf8.RuneError {
					s = s[6:]
				}
			}
			b = utf8.AppendRune(b, r)
			continue
		}
		b = append(b, c)
	}
	return b
}

// unit reads the four hexadecimal digits of a UTF-16 code unit.
func unit(s []byte) (r rune) {
	for _, c := range s[:4] {
		r = r<<4 | rune(c&0xf)
		if c > '9' {
			r += 9
		}
	}
	return r
}
