package hermesx

import (
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/internal/inspection"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

// flaw says why an answer was refused. It continues a sentence, as [strictjson.Fault] does, and
// quotes nothing.
type flaw string

func (f flaw) Error() string { return string(f) }

// A record is an object that is read member by member.
type record interface {
	// name names the record in a flaw, such as "a receipt".
	name() string
	// member gives where to put the value of a member (see [put]), or nil for a member
	// that is dropped. bit is the bit of a required member.
	member(name string) (into any, bit uint)
	// required has the bits of all required members.
	required() uint
}

// memberReader reads the members of one record.
type memberReader struct {
	record
	have uint
}

func (r *memberReader) read(name []byte, d *jsontext.Decoder) error {
	into, bit := r.member(string(name))
	if into == nil {
		return nil
	}
	r.have |= bit
	ok, err := put(d, into)
	if err == nil && !ok {
		// It is safe to show the name: it is one that this package knows.
		err = flaw("has " + r.name() + " whose " + string(name) + " is not as it should be")
	}
	return err
}

// end returns an error where a required member is missing.
func (r *memberReader) end() error {
	if r.have&r.required() != r.required() {
		return flaw("has " + r.name() + " that lacks a member")
	}
	return nil
}

// decode reads data, which must be one record.
func decode(data []byte, into record) error {
	r := memberReader{record: into}
	if err := strictjson.Object(data, r.read); err != nil {
		return err
	}
	return r.end()
}

// put reads the next value into the variable that member gave for it. ok is false for null, for a
// number that is not written as digits, and for a value of another type.
func put(d *jsontext.Decoder, into any) (ok bool, err error) {
	switch into := into.(type) {
	case *string:
		*into, ok, err = strictjson.String(d)
	case func(text []byte) bool:
		var text []byte
		if text, ok, err = strictjson.Text(d); ok && err == nil {
			ok = into(text)
		}
	case *int64:
		*into, ok, err = strictjson.Integer(d)
	case *int:
		var n int64
		n, ok, err = strictjson.Integer(d)
		*into, ok = int(n), ok && n <= math.MaxInt
	case *time.Duration:
		var ms int64
		ms, ok, err = strictjson.Integer(d)
		*into, ok = time.Duration(ms)*time.Millisecond, ok && ms <= int64(math.MaxInt64/time.Millisecond)
	case func(*jsontext.Decoder) (bool, error):
		return into(d)
	}
	return ok, err
}

// arrayOf gives a reader of an array of records, or of null, which is how the
// server writes an empty one.
func arrayOf[T any, R interface {
	*T
	record
}](rows *[]*T) func(*jsontext.Decoder) (bool, error) {
	return func(d *jsontext.Decoder) (bool, error) {
		switch d.PeekKind() {
		case jsontext.KindNull:
			return true, d.SkipValue()
		case jsontext.KindBeginArray:
		default:
			return false, d.SkipValue()
		}
		if _, err := d.ReadToken(); err != nil {
			return false, err
		}
		for d.PeekKind() != jsontext.KindEndArray {
			row := new(T)
			r := memberReader{record: R(row)}
			if kind := d.PeekKind(); kind != jsontext.KindBeginObject {
				return false, d.SkipValue()
			}
			if err := strictjson.Members(d, r.read); err != nil {
				return false, err
			}
			if err := r.end(); err != nil {
				return false, err
			}
			*rows = append(*rows, row)
		}
		_, err := d.ReadToken()
		return true, err
	}
}

// parseTime reads a time of RFC 3339 with up to nine fraction digits.
func parseTime(text string) (t time.Time, ok bool) {
	// time.Parse also accepts a comma, an hour of one digit and small letters.
	const shape = "0000-00-00T00:00:00"
	if len(text) <= len(shape) {
		return t, false
	}
	for i := range len(shape) {
		if digit := '0' <= text[i] && text[i] <= '9'; digit != (shape[i] == '0') || !digit && text[i] != shape[i] {
			return t, false
		}
	}
	rest := text[len(shape):]
	if fraction, isFraction := strings.CutPrefix(rest, "."); isFraction {
		rest = strings.TrimLeft(fraction, "0123456789")
		if len(fraction)-len(rest) > 9 {
			return t, false
		}
	}
	if rest != "Z" && (len(rest) != len("+00:00") || rest[0] != '+' && rest[0] != '-' || rest[3] != ':') {
		return t, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// timeReader gives a reader of a time that keeps its text as well.
func timeReader(at *time.Time, written *string) func(text []byte) bool {
	return func(text []byte) (ok bool) {
		*written = string(text)
		*at, ok = parseTime(*written)
		return ok
	}
}

// writeTime gives a time as the server wrote it. Where at is another time than that, it gives at
// in the server's form.
func writeTime(at time.Time, written string) (string, error) {
	if was, ok := parseTime(written); ok && was.Equal(at) && offset(was) == offset(at) {
		return written, nil
	}
	text, err := at.MarshalText()
	if err != nil {
		return "", inspection.Invalid("CreatedAt cannot be marshalled: RFC 3339 has no such year or offset.")
	}
	return string(text), nil
}

func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}
