package hermesx

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"
)

// The two lists, as cursors call them.
const (
	receiptsList = "receipts"
	auditList    = "audit"
)

// maxCursor is how many bytes a cursor may have. A row of the run of equal times
// that the reading stopped in takes 34 of them.
const maxCursor = 2 << 20

// A digest stands for the id of a row, or for the filters of a query: it keeps a
// cursor short, and the words of a server out of it.
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

// A position is how far the reading of a list has come: every row that is newer
// than at was given, and of those that are as old, the ones in given.
type position struct {
	// list and filters are what is read.
	list    string
	filters digest
	// at is zero where nothing was given yet.
	at    time.Time
	given map[digest]bool
	// offset is where to ask on for rows. It is a hint: rows that came in since
	// have pushed others on.
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
