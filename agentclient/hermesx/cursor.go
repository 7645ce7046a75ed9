package hermesx

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"
)

// The names of the two lists in a cursor.
const (
	receiptsList = "receipts"
	auditList    = "audit"
)

// maxCursor is how many bytes a cursor may have. It has 34 bytes for each row that was given and
// has the time at which the reading stopped.
const maxCursor = 2 << 20

// A digest is a hash of the id of a row or of the filters of a query. It keeps a cursor short,
// and keeps texts of a server out of it.
type digest [16]byte

func digestOf(text string) (d digest) {
	sum := sha256.Sum256([]byte(text))
	copy(d[:], sum[:])
	return d
}

func (d digest) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, d[:]), nil
}

func (d *digest) UnmarshalText(text []byte) error {
	var decoded [18]byte // room for what is too long
	n, err := base64.RawURLEncoding.Decode(decoded[:], text[:min(len(text), 24)])
	if err != nil || n != len(d) {
		return flaw("is no digest")
	}
	copy(d[:], decoded[:])
	return nil
}

// A position says how far the reading of a list has come. All rows newer than at were given, and
// of the rows with the time at those in given.
type position struct {
	// list and filters identify the list that is read.
	list    string
	filters digest
	// at is zero where no row was given yet.
	at    time.Time
	given map[digest]bool
	// offset is where the next rows are expected. It is a hint, because rows that were
	// added since have moved the others.
	offset int
}

// writtenPosition is the JSON in a cursor.
type writtenPosition struct {
	List    string   `json:"list"`
	Filters digest   `json:"filters"`
	At      string   `json:"at"`
	Given   []digest `json:"given"`
	Offset  int      `json:"offset"`
}

// cursor writes the position as the text that a query takes.
func (p position) cursor() string {
	if p.at.IsZero() {
		return ""
	}
	written := writtenPosition{List: p.list, Filters: p.filters, At: p.at.UTC().Format(time.RFC3339Nano), Offset: p.offset, Given: []digest{}}
	for row := range p.given {
		written.Given = append(written.Given, row)
	}
	slices.SortFunc(written.Given, func(a, b digest) int { return bytes.Compare(a[:], b[:]) })
	text, err := json.Marshal(written)
	if err != nil {
		return "" // none of its values can fail
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor reads what cursor wrote for the same list and the same filters,
// and nothing else. "" is the beginning of the list.
func parseCursor(text, list, filters string) (p position, ok bool) {
	p = position{list: list, filters: digestOf(filters), given: map[digest]bool{}}
	if text == "" {
		return p, true
	}
	if len(text) > maxCursor {
		return p, false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return p, false
	}
	var written writtenPosition
	if json.Unmarshal(decoded, &written) != nil || written.List != list || written.Filters != p.filters || written.Offset < 0 || written.Offset > longestList {
		return p, false
	}
	if p.at, ok = parseTime(written.At); !ok {
		return p, false
	}
	for _, row := range written.Given {
		p.given[row] = true
	}
	p.offset = written.Offset
	return p, p.cursor() == text
}
