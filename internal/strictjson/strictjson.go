package strictjson

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Fault says why a text was refused. It continues a sentence, as in
// "the body " + fault.
type Fault string

const (
	// NotUTF8: there are bytes that are not valid UTF-8.
	NotUTF8 Fault = "is not valid UTF-8"
	// NotJSON: it is not exactly one JSON text without a byte order mark, or
	// it is nested too deeply.
	NotJSON Fault = "is not exactly one JSON document"
	// NotObject: it is a JSON value other than an object.
	NotObject Fault = "is not a JSON object"
	// DuplicateName: an object at some level has a member name twice.
	DuplicateName Fault = "has an object with a member name twice"
	// UnknownName: [Unmarshal] met a member that the struct does not have.
	UnknownName Fault = "has an unknown member"
	// NullMember: [Unmarshal] met null in place of a value.
	NullMember Fault = "has a member that is null"
	// WrongType: [Unmarshal] met a value that its Go type cannot hold.
	WrongType Fault = "has a member of a wrong type"
)

func (f Fault) Error() string { return string(f) }

// Object calls member for every member of data, which must be one JSON object.
// The name is unescaped and valid until member reads from d. Member reads the
// value that comes next, or leaves it unread: Object then skips it and checks it
// by the same rules.
//
// Object stops at an error of member and returns it as it is. The caller must not
// use what member has read unless Object returns nil.
func Object(data []byte, member func(name []byte, d *jsontext.Decoder) error) error {
	w := walk{member: member}
	// This takes a decoder from the pool of the json module; a new one for each
	// body would cost more.
	err := unmarshal(data, &w)
	if w.err != nil {
		err = w.err
	}
	return fault(data, err)
}

// unmarshal does what json.Unmarshal does, but accepts lone surrogate escapes. It
// still refuses invalid UTF-8.
func unmarshal(data []byte, into any, options ...json.Options) error {
	// The option of the decoder that accepts lone surrogates accepts invalid UTF-8
	// too, so UTF-8 is checked here first. Most texts have no surrogate escape and
	// need neither the option nor the check.
	if mayHaveSurrogates(data) {
		if !utf8.Valid(data) {
			return NotUTF8
		}
		options = append(options, jsontext.AllowInvalidUTF8(true))
	}
	return json.Unmarshal(data, into, options...)
}

// mayHaveSurrogates reports whether data may have a surrogate escape: whether a u
// is followed by a d in either letter case.
func mayHaveSurrogates(data []byte) bool {
	for {
		i := bytes.IndexByte(data, 'u') + 1
		if i == 0 || i == len(data) {
			return false
		}
		if data[i]|0x20 == 'd' {
			return true
		}
		data = data[i:]
	}
}

type walk struct {
	member func([]byte, *jsontext.Decoder) error
	err    error
}

func (w *walk) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == jsontext.KindBeginObject {
		w.err = Members(d, w.member)
	} else if w.err = d.SkipValue(); w.err == nil {
		w.err = NotObject
	}
	return w.err
}

// fault turns an error of the decoder into the [Fault] that it means, and gives
// any other error as it is.
func fault(data []byte, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return DuplicateName
	}
	if _, ok := errors.AsType[*jsontext.SyntacticError](err); !ok {
		return err
	}
	if !utf8.Valid(data) {
		return NotUTF8
	}
	return NotJSON
}

// Members does what [Object] does, for the next value of d. The caller has checked
// that this is an object.
func Members(d *jsontext.Decoder, member func(name []byte, d *jsontext.Decoder) error) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	depth := d.StackDepth()
	for d.PeekKind() != jsontext.KindEndObject {
		quoted, err := d.ReadValue()
		if err != nil {
			return err
		}
		name, _ := unquote(quoted)
		if err := member(name, d); err != nil {
			return err
		}
		if _, read := d.StackIndex(depth); read%2 != 0 {
			if err := d.SkipValue(); err != nil {
				return err
			}
		}
	}
	_, err := d.ReadToken()
	return err
}

// Text reads the next value and gives the text of a string, valid until the
// next read. For any other value ok is false.
func Text(d *jsontext.Decoder) (text []byte, ok bool, err error) {
	value, err := d.ReadValue()
	if err != nil {
		return nil, false, err
	}
	text, ok = unquote(value)
	return text, ok, nil
}

// String does what [Text] does and gives a copy that stays valid.
func String(d *jsontext.Decoder) (text string, ok bool, err error) {
	b, ok, err := Text(d)
	return string(b), ok, err
}

// unquote gives what a JSON string means. It shares memory with value where the
// string has no escape.
func unquote(value jsontext.Value) (text []byte, ok bool) {
	if value.Kind() != jsontext.KindString {
		return nil, false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1], true
	}
	return unescape(value[1 : len(value)-1]), true
}

// Integer reads the next value and gives a number from 0 to 2^63-1 that is
// written as digits only. For any other value, also for -0, 5.0 and 5e0, ok is
// false.
func Integer(d *jsontext.Decoder) (n int64, ok bool, err error) {
	value, err := d.ReadValue()
	if err != nil || len(value) > len("9223372036854775807") {
		return 0, false, err
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false, nil
		}
		n = 10*n + int64(c-'0')
	}
	// A number of nineteen digits is less than 2^64, so one that is too large for
	// int64 has become negative.
	if n < 0 {
		return 0, false, nil
	}
	return n, true, nil
}

// Bool reads the next value and gives true or false. For any other value ok is
// false.
func Bool(d *jsontext.Decoder) (b, ok bool, err error) {
	value, err := d.ReadValue()
	if err != nil {
		return false, false, err
	}
	kind := value.Kind()
	return kind == jsontext.KindTrue, kind == jsontext.KindTrue || kind == jsontext.KindFalse, nil
}

// Unknown says what [Unmarshal] does with members that the struct does not
// have.
type Unknown bool

const (
	// DropUnknown drops them, after checking them by the same rules.
	DropUnknown Unknown = false
	// RefuseUnknown refuses an object with such a member, at every level that is
	// read into a struct.
	RefuseUnknown Unknown = true
)

// Unmarshal reads data, which must be one JSON object, into the struct that into
// points to. A missing member leaves its field as it is, so that a pointer field
// tells whether the member was there. Null is refused for every field.
//
// When Unmarshal returns an error, some fields may have been set. Integers must be
// written as digits, with a minus sign where the field is signed.
func Unmarshal(data []byte, into any, unknown Unknown) error {
	err := unmarshal(data, into, json.RejectUnknownMembers(bool(unknown)), json.WithUnmarshalers(refuseNull))
	for _, known := range []error{NotObject, NullMember, json.ErrUnknownName} {
		if errors.Is(err, known) {
			err = known
		}
	}
	if err == json.ErrUnknownName {
		return UnknownName
	}
	err = fault(data, err)
	if _, ok := err.(Fault); err == nil || ok {
		return err
	}
	return WrongType
}

// refuseNull is called for every value before it is decoded, and refuses null. It
// leaves all decoding to the unmarshalers behind it.
var refuseNull = json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ any) error {
	switch kind := d.PeekKind(); {
	case d.StackDepth() == 0 && kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid:
		return NotObject
	case kind == jsontext.KindNull:
		return NullMember
	}
	return skip
})
