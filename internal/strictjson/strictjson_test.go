package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

// refused are texts that are not one strict JSON object, whoever reads them.
var refused = []struct {
	name, text string
	want       strictjson.Fault
}{
	{"empty", "", strictjson.NotJSON},
	{"white space", " \n", strictjson.NotJSON},
	{"web page", "<!doctype html>", strictjson.NotJSON},
	{"array", "[]", strictjson.NotObject},
	{"string", `"{}"`, strictjson.NotObject},
	{"number", "1", strictjson.NotObject},
	{"true", "true", strictjson.NotObject},
	{"null", "null", strictjson.NotObject},
	{"two objects", "{} {}", strictjson.NotJSON},
	{"object and comma", "{},", strictjson.NotJSON},
	{"object and brace", "{}}", strictjson.NotJSON},
	{"object and NUL", "{}\x00", strictjson.NotJSON},
	{"object and no-break space", "{}\u00a0", strictjson.NotJSON},
	{"form feed before", "\f{}", strictjson.NotJSON},
	{"byte order mark", "\ufeff{}", strictjson.NotJSON},
	{"byte order mark after", "{}\ufeff", strictjson.NotJSON},
	{"byte order mark within", "{\ufeff}", strictjson.NotJSON},
	{"not closed", `{"a":1`, strictjson.NotJSON},
	{"closed by a bracket", `{"a":1]`, strictjson.NotJSON},
	{"trailing comma", `{"a":1,}`, strictjson.NotJSON},
	{"leading comma", `{,"a":1}`, strictjson.NotJSON},
	{"no colon", `{"a" 1}`, strictjson.NotJSON},
	{"no value", `{"a":}`, strictjson.NotJSON},
	{"no comma", `{"a":1"b":2}`, strictjson.NotJSON},
	{"name is a number", `{1:1}`, strictjson.NotJSON},
	{"name is an object", `{{}:1}`, strictjson.NotJSON},
	{"name without quotes", `{a:1}`, strictjson.NotJSON},
	{"single quotes", `{'a':1}`, strictjson.NotJSON},
	{"comment", `{/**/}`, strictjson.NotJSON},
	{"leading zero", `{"x":01}`, strictjson.NotJSON},
	{"plus sign", `{"x":+1}`, strictjson.NotJSON},
	{"hexadecimal", `{"x":0x1}`, strictjson.NotJSON},
	{"no digit after the point", `{"x":1.}`, strictjson.NotJSON},
	{"NaN", `{"x":NaN}`, strictjson.NotJSON},
	{"cut within true", `{"x":tru`, strictjson.NotJSON},
	{"capital true", `{"x":True}`, strictjson.NotJSON},
	{"raw newline in a string", "{\"x\":\"\n\"}", strictjson.NotJSON},
	{"unknown escape", `{"x":"\x41"}`, strictjson.NotJSON},
	{"short escape", `{"x":"\u004"}`, strictjson.NotJSON},
	{"escaped quote only", `{"x":"\"}`, strictjson.NotJSON},
	{"invalid UTF-8 in a string", "{\"x\":\"\xff\"}", strictjson.NotUTF8},
	{"invalid UTF-8 in a name", "{\"\xff\":1}", strictjson.NotUTF8},
	{"invalid UTF-8 after", "{}\xff", strictjson.NotUTF8},
	{"encoded surrogate", "{\"x\":\"\xed\xa0\x80\"}", strictjson.NotUTF8},
	{"overlong NUL", "{\"x\":\"\xc0\x80\"}", strictjson.NotUTF8},
	{"cut character", "{\"x\":\"\xe4\xb8\"}", strictjson.NotUTF8},
	{"invalid UTF-8 beside a lone surrogate", "{\"x\":\"\\ud800\xff\"}", strictjson.NotUTF8},
	{"invalid UTF-8 beside a lone surrogate in capitals", "{\"\\uDBFF\":\"\xc3\"}", strictjson.NotUTF8},
	{"encoded surrogate beside an escaped one", "{\"x\":\"\xed\xa0\x80\",\"y\":\"\\udc00\"}", strictjson.NotUTF8},
	{"invalid UTF-8 beside what looks like a surrogate", "{\"x\":\"\\\\ud800\xff\"}", strictjson.NotUTF8},
	{"UTF-16", "{\x00}\x00\xff", strictjson.NotUTF8},
	{"name twice", `{"a":1,"a":1}`, strictjson.DuplicateName},
	{"name twice, apart", `{"a":1,"b":2,"a":3}`, strictjson.DuplicateName},
	{"empty name twice", `{"":1,"":2}`, strictjson.DuplicateName},
	{"name twice by an escape", `{"name":1,"n\u0061me":2}`, strictjson.DuplicateName},
	{"name twice by two escapes", `{"\u006Eame":1,"\u006eame":2}`, strictjson.DuplicateName},
	{"name twice by a surrogate pair", `{"😀":1,"\ud83d\ude00":2}`, strictjson.DuplicateName},
	{"name twice with one lone surrogate", `{"\ud800":1,"\ud800":2}`, strictjson.DuplicateName},
	{"two lone surrogates read alike", `{"\ud800":1,"\udfff":2}`, strictjson.DuplicateName},
	{"lone surrogate and U+FFFD read alike", `{"\ud800":1,"\ufffd":2}`, strictjson.DuplicateName},
	{"name twice one level down", `{"x":{"a":1,"a":2}}`, strictjson.DuplicateName},
	{"name twice in an array", `{"x":[0,{"a":1,"a":2}]}`, strictjson.DuplicateName},
	{"name twice far down", `{"x":` + nested(500, `{"a":1,"b":{},"\u0061":2}`) + `}`, strictjson.DuplicateName},
	{"name twice among very many", `{"x":{` + names(2000) + `"n1234":0}}`, strictjson.DuplicateName},
}

// accepted are texts that are one strict JSON object.
var accepted = []struct{ name, text string }{
	{"empty object", "{}"},
	{"white space around", "\r\n\t {} \t\r\n"},
	{"white space within", "{ \"x\"\t:\n[ 1\r, 2 ] , \"y\" : { } }"},
	{"same name at different levels", `{"a":{"a":{"a":[{"a":1},{"a":2}]}}}`},
	{"names that differ by case", `{"a":1,"A":2}`},
	{"names that differ by a space", `{"a":1,"a ":2}`},
	{"names that look alike composed and decomposed", "{\"\u00e9\":1,\"e\u0301\":2}"},
	{"lone surrogates", `{"x":"\ud800 \udc00\ud800","\udbff":1}`},
	{"lone surrogates in capitals", `{"x":"\uD800 \uDC00\uD800"}`},
	{"one lone surrogate in what nobody reads", `{"y":[{"\uDfFf":"\uDbFf"}]}`},
	{"every kind of value", `{"x":[null,true,false,-0,1.5e-7,"",{},[]]}`},
	{"a number too large for anything", `{"x":1e999999}`},
	{"NUL escape", `{"x":"\u0000"}`},
	{"deep", `{"x":` + nested(9000, "1") + `}`},
	{"very many names", `{"x":{` + names(2000) + `"end":0}}`},
}

func nested(levels int, value string) string {
	return strings.Repeat(`[{"d":`, levels/2) + value + strings.Repeat(`}]`, levels/2)
}

func names(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"n` + string(rune('0'+i/1000%10)) + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + `":0,`)
	}
	return b.String()
}

func TestObjectRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			readers := map[string]func([]byte, *jsontext.Decoder) error{
				"skipping": func([]byte, *jsontext.Decoder) error { return nil },
				"reading":  func(_ []byte, d *jsontext.Decoder) error { _, _, err := strictjson.Text(d); return err },
				"walking": func(_ []byte, d *jsontext.Decoder) error {
					if d.PeekKind() != jsontext.KindBeginObject {
						return nil
					}
					return strictjson.Members(d, func([]byte, *jsontext.Decoder) error { return nil })
				},
			}
			for name, read := range readers {
				if err := strictjson.Object([]byte(test.text), read); err != test.want {
					t.Errorf("%s: got %v, want %v", name, err, test.want)
				}
			}
			var into struct{ Unused string }
			if err := strictjson.Unmarshal([]byte(test.text), &into, strictjson.DropUnknown); err != test.want {
				t.Errorf("Unmarshal: got %v, want %v", err, test.want)
			}
		})
	}
}

func TestObjectAccepts(t *testing.T) {
	t.Parallel()
	for _, test := range accepted {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := strictjson.Object([]byte(test.text), func([]byte, *jsontext.Decoder) error { return nil }); err != nil {
				t.Errorf("Object: %v", err)
			}
			var into struct{ Unused string }
			if err := strictjson.Unmarshal([]byte(test.text), &into, strictjson.DropUnknown); err != nil {
				t.Errorf("Unmarshal: %v", err)
			}
		})
	}
}

// A body that is one long bracket must be cheap to refuse.
func TestDepthBombs(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for name, text := range map[string]string{
		"arrays":           strings.Repeat("[", size),
		"objects":          strings.Repeat(`{"a":`, size/5),
		"arrays within":    `{"x":` + strings.Repeat("[", size),
		"objects within":   `{"x":` + strings.Repeat(`{"a":`, size/5),
		"closed again":     `{"x":` + strings.Repeat("[", size/2) + strings.Repeat("]", size/2) + `}`,
		"long names":       `{"x":` + strings.Repeat(`{"`+strings.Repeat("n", 90)+`":`, size/100),
		"long names again": strings.Repeat(`{"`+strings.Repeat("~", 90)+`":`, size/100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, read := range []func([]byte, *jsontext.Decoder) error{
				func([]byte, *jsontext.Decoder) error { return nil },
				func(_ []byte, d *jsontext.Decoder) error { _, _, err := strictjson.Text(d); return err },
			} {
				err := strictjson.Object([]byte(text), read)
				if err != strictjson.NotJSON && err != strictjson.NotObject {
					t.Errorf("got %v, want it refused", err)
				}
			}
		})
	}
}

type seen struct {
	Name  string
	Value any
}

func TestReaders(t *testing.T) {
	t.Parallel()
	text := func(d *jsontext.Decoder) (any, bool, error) { return strictjson.String(d) }
	integer := func(d *jsontext.Decoder) (any, bool, error) { return strictjson.Integer(d) }
	boolean := func(d *jsontext.Decoder) (any, bool, error) { return strictjson.Bool(d) }
	tests := []struct {
		name  string
		read  func(*jsontext.Decoder) (any, bool, error)
		value string
		want  any // nil: not ok
	}{
		{"text", text, `"abc"`, "abc"},
		{"empty text", text, `""`, ""},
		{"Chinese text", text, `"订单"`, "订单"},
		{"escaped text", text, `"a\n\t\"\\\/\u8ba2\ud83d\ude00"`, "a\n\t\"\\/订😀"},
		{"half a pair", text, `"a\ud83d"`, "a\ufffd"},
		{"other half", text, `"\ude00b"`, "\ufffdb"},
		{"halves in the wrong order", text, `"\ude00\ud83d"`, "\ufffd\ufffd"},
		{"half and a pair", text, `"\ud83d\ud83d\ude00"`, "\ufffd😀"},
		{"half and a letter", text, `"\ud83dA\ud83d\n"`, "\ufffdA\ufffd\n"},
		{"half and Chinese", text, `"\ud83d订"`, "\ufffd订"},
		{"text null", text, `null`, nil},
		{"text number", text, `1`, nil},
		{"text array", text, `["a"]`, nil},
		{"text object", text, `{"a":"b"}`, nil},
		{"zero", integer, `0`, int64(0)},
		{"integer", integer, `1234567890`, int64(1234567890)},
		{"largest", integer, `9223372036854775807`, int64(9223372036854775807)},
		{"one more", integer, `9223372036854775808`, nil},
		{"2^64", integer, `18446744073709551616`, nil},
		{"nineteen nines", integer, `9999999999999999999`, nil},
		{"2^64 plus 5", integer, `18446744073709551621`, nil},
		{"forty digits", integer, strings.Repeat("1", 40), nil},
		{"negative", integer, `-1`, nil},
		{"negative zero", integer, `-0`, nil},
		{"fraction of zero", integer, `5.0`, nil},
		{"exponent of zero", integer, `5e0`, nil},
		{"capital exponent", integer, `5E1`, nil},
		{"integer null", integer, `null`, nil},
		{"integer as text", integer, `"5"`, nil},
		{"integer true", integer, `true`, nil},
		{"integer array", integer, `[5]`, nil},
		{"true", boolean, `true`, true},
		{"false", boolean, `false`, false},
		{"boolean null", boolean, `null`, nil},
		{"boolean as text", boolean, `"true"`, nil},
		{"boolean one", boolean, `1`, nil},
		{"boolean object", boolean, `{}`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []seen
			body := `{"before":[{"x":1}],"a name as a value":"x","x":` + test.value + `,"n\u0061me":null,"x ":"last"}`
			err := strictjson.Object([]byte(body), func(name []byte, d *jsontext.Decoder) error {
				switch string(name) {
				case "x":
					v, ok, err := test.read(d)
					if !ok {
						v = nil
					}
					got = append(got, seen{"x", v})
					return err
				case "name", "x ":
					got = append(got, seen{Name: string(name)})
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			want := []seen{{"x", test.want}, {Name: "name"}, {Name: "x "}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func TestReadersPassSyntaxErrorsOn(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*jsontext.Decoder) error{
		"Text":    func(d *jsontext.Decoder) error { _, _, err := strictjson.Text(d); return err },
		"String":  func(d *jsontext.Decoder) error { _, _, err := strictjson.String(d); return err },
		"Integer": func(d *jsontext.Decoder) error { _, _, err := strictjson.Integer(d); return err },
		"Bool":    func(d *jsontext.Decoder) error { _, _, err := strictjson.Bool(d); return err },
		"Members": func(d *jsontext.Decoder) error {
			return strictjson.Members(d, func([]byte, *jsontext.Decoder) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for body, want := range map[string]strictjson.Fault{
				`{"x":}`:                           strictjson.NotJSON,
				`{"x":{"a":{"b":1,"b":2}}}`:        strictjson.DuplicateName,
				`{"x":{"a":{"b":1},"a":{"b":2}}}`:  strictjson.DuplicateName,
				`{"x":{"a":[1,{"b":2}}],"c":null}`: strictjson.NotJSON,
			} {
				err := strictjson.Object([]byte(body), func(_ []byte, d *jsontext.Decoder) error { return read(d) })
				if err != want {
					t.Errorf("%s: got %v, want %v", body, err, want)
				}
			}
		})
	}
}

func TestObjectReturnsTheCallersError(t *testing.T) {
	t.Parallel()
	for _, mine := range []error{errors.New("mine"), errors.ErrUnsupported, strictjson.WrongType} {
		calls := 0
		err := strictjson.Object([]byte(`{"a":1,"b":{"a":1,"a":2}}`), func([]byte, *jsontext.Decoder) error {
			calls++
			return mine
		})
		if err != mine || calls != 1 {
			t.Errorf("got %v after %d calls, want %v after one", err, calls, mine)
		}
	}
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	type entry struct {
		Key   string  `json:"key"`
		Alias *string `json:"alias"`
	}
	type file struct {
		Version *int64  `json:"version"`
		Open    *bool   `json:"open"`
		Entries []entry `json:"entries"`
		Note    string  `json:"note"`
	}
	full := file{Version: new(int64(2)), Open: new(false), Entries: []entry{{Key: "a", Alias: new("x\ufffd")}, {Key: "b"}}}
	const fullText = `{"version":2,"open":false,"entries":[{"key":"a","alias":"x\ud800"},{"key":"b"}]}`
	tests := []struct {
		name    string
		text    string
		unknown strictjson.Unknown
		want    file
		err     error
	}{
		{"full", fullText, strictjson.RefuseUnknown, full, nil},
		{"empty", `{}`, strictjson.RefuseUnknown, file{}, nil},
		{"unknown dropped", `{"version":2,"more":{"a":null}}`, strictjson.DropUnknown, file{Version: new(int64(2))}, nil},
		{"unknown refused", `{"version":2,"more":1}`, strictjson.RefuseUnknown, file{}, strictjson.UnknownName},
		{"unknown refused further down", `{"entries":[{"key":"a","more":1}]}`, strictjson.RefuseUnknown, file{}, strictjson.UnknownName},
		{"name in another case is unknown", `{"Version":2}`, strictjson.RefuseUnknown, file{}, strictjson.UnknownName},
		{"name in another case is dropped", `{"VERSION":2}`, strictjson.DropUnknown, file{}, nil},
		{"name of a Go field is unknown", `{"Note":"x"}`, strictjson.RefuseUnknown, file{}, strictjson.UnknownName},
		{"duplicate in what is dropped", `{"more":{"a":1,"a":2}}`, strictjson.DropUnknown, file{}, strictjson.DuplicateName},
		{"null pointer", `{"version":null}`, strictjson.DropUnknown, file{}, strictjson.NullMember},
		{"null string", `{"note":null}`, strictjson.DropUnknown, file{}, strictjson.NullMember},
		{"null slice", `{"entries":null}`, strictjson.DropUnknown, file{}, strictjson.NullMember},
		{"null element", `{"entries":[null]}`, strictjson.DropUnknown, file{}, strictjson.NullMember},
		{"null further down", `{"entries":[{"key":null}]}`, strictjson.DropUnknown, file{}, strictjson.NullMember},
		{"integer with a fraction", `{"version":2.0}`, strictjson.DropUnknown, file{}, strictjson.WrongType},
		{"integer with an exponent", `{"version":2e0}`, strictjson.DropUnknown, file{}, strictjson.WrongType},
		{"integer as text", `{"version":"2"}`, strictjson.DropUnknown, file{}, strictjson.WrongType},
		{"integer too large", `{"version":9223372036854775808}`, strictjson.DropUnknown, file{}, strictjson.WrongType},
		{"text as number", `{"note":2}`, strictjson.DropUnknown, file{}, strictjson.WrongType},
		{"object for an array", `{"entries":{}}`, strictjson.DropUnknown, file{}, strictjson.WrongType},
		{"text for an object", `{"entries":["a"]}`, strictjson.DropUnknown, file{}, strictjson.WrongType},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got file
			err := strictjson.Unmarshal([]byte(test.text), &got, test.unknown)
			if err != test.err {
				t.Fatalf("got %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// An error that quoted what was read could put a token into a log.
func TestFaultsQuoteNothing(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a"
	for _, text := range []string{
		`{"` + canary + `":1,"` + canary + `":2}`, `{"` + canary + `":tru}`, `{"x":"` + canary, canary,
		`{"x":"` + canary + "\xff\"}", `{"note":"` + canary + `"}`, `{"` + canary + `":null}`, `["` + canary + `"]`,
	} {
		var into struct {
			Note int `json:"note"`
		}
		for _, err := range []error{
			strictjson.Object([]byte(text), func(_ []byte, d *jsontext.Decoder) error { return nil }),
			strictjson.Unmarshal([]byte(text), &into, strictjson.RefuseUnknown),
		} {
			if err == nil {
				continue
			}
			if _, ok := err.(strictjson.Fault); !ok || strings.Contains(err.Error(), canary) {
				t.Errorf("%q gives %T %q", text, err, err)
			}
		}
	}
}

// FuzzString: a string reads as jsontext and encoding/json read it.
func FuzzString(f *testing.F) {
	for _, seed := range []string{
		``, `a`, `\"\\\/\b\f\n\r\t`, `\u0041\u00e9\u8ba2\uABcd\uFfFf\u0000`, `\ud83d\ude00`, `\ud83d`, `\ude00`, `\ud83d\ud83d\ude00`, `\ude00\ud83d`,
		`\ud83dA`, `\ud83d\n`, `\ud83d\u0041`, `\ud83d\\ude00`, `订\ud83d订\ude00😀`, `\ud83d\ude0`, `\`, "\xff", "\x00", `\ud83d\`, `\ud83d\u`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, inner string) {
		body := `{"x":"` + inner + `"}`
		var got string
		var ok bool
		err := strictjson.Object([]byte(body), func(name []byte, d *jsontext.Decoder) (err error) {
			if string(name) == "x" {
				got, ok, err = strictjson.String(d)
			}
			return err
		})
		if err != nil || !ok {
			return
		}
		var plain struct {
			X string `json:"x"`
		}
		if err := strictjson.Unmarshal([]byte(body), &plain, strictjson.DropUnknown); err != nil || plain.X != got {
			t.Errorf("%q reads as %q, jsontext says %q, %v", inner, got, plain.X, err)
		}
		var loose map[string]any
		if err := json.Unmarshal([]byte(body), &loose); err != nil || loose["x"] != got {
			t.Errorf("%q reads as %q, encoding/json says %q, %v", inner, got, loose["x"], err)
		}
	})
}
