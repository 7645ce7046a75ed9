package strictjson

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Fault says why a text was refused. It continues a sentence that begins with
// what was read, as in "the body " + fault.
type Fault string

const (
	// NotUTF8: there are bytes that are not valid UTF-8.
	NotUTF8 Fault = "is not valid UTF-8"
	// NotJSON: it is not exactly one JSON text without a byte order mark, or
	// it is nested too deeply.
	NotJSON Fault = "is not exactly one JSON document"
	// NotObject: it is JSON, and not an object.
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

// Object calls member for every member of the one object that data is. The
// name is unescaped and valid until member reads from d. Member reads the one
// value that is next, or leaves it unread: it is skipped then, as strictly as
// it would be read.
//
// An error of member ends the walk and is returned as it is. Whatever member
// learned counts only when Object returns nil.
func Object(data []byte, member func(name []byte, d *jsontext.Decoder) error) error {
	w := walk{member: member}
	// A decoder comes from a pool this way.
	err := unmarshal(data, &w)
	if w.err != nil {
		err = w.err
	}
	return fault(data, err)
}

// unmarshal is json.Unmarshal that lets lone surrogates pass, and no other
// invalid UTF-8.
func unmarshal(data []byte, into any, options ...json.Options) error {
	// One option of the decoder lets both pass, or none. Most texts have no
	// surrogate, and need not be looked at twice.
	if mayHaveSurrogates(data) {
		if !utf8.Valid(data) {
			return NotUTF8
		}
		options = append(options, jsontext.AllowInvalidUTF8(true))
	}
	return json.Unmarshal(data, into, options...)
}

// mayHaveSurrogates reports whether a surrogate escape can be in data: a u and
// a d stand together, in whichever letter case the d is.
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

// fault gives the fault that an error of the decoder of data stands for, and
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

// Members does what [Object] does for an object that is the next value of d.
// The caller has seen that it is one.
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

// String does what [Text] does and gives a string to keep.
func String(d *jsontext.Decoder) (text string, ok bool, err error) {
	b, ok, err := Text(d)
	return string(b), ok, err
}

// unquote shares memory with value where it can.
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
	// Nineteen digits are less than 2^64: too large for int64 shows as a sign.
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
	// DropUnknown drops them, as strictly read as the others.
	DropUnknown Unknown = false
	// RefuseUnknown refuses the object, at any level that a struct stands for.
	RefuseUnknown Unknown = true
)

// Unmarshal fills the struct that into points to from the one object that data
// is. A member that is missing leaves its field as it is, so a pointer field
// tells whether it was there; null is refused for every field.
//
// The struct is half filled when Unmarshal returns an error. Integers are
// written as digits, with a minus sign where the field has one.
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

// refuseNull looks at every value before it is decoded. It reads nothing.
var refuseNull = json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ any) error {
	switch kind := d.PeekKind(); {
	case d.StackDepth() == 0 && kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid:
		return NotObject
	case kind == jsontext.KindNull:
		return NullMember
	}
	return skip
})
