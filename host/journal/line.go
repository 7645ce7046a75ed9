package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// A journal file is lines of JSON. The first names the format; each of the
// others is an entry as it was from then on, or the id of one that was
// withdrawn. Each begins with a checksum of the rest of it and of all lines
// before it, so that a line that is changed, missing, or in another place shows.
const (
	format    = "bailinghub.operation-journal.v1"
	sumPrefix = `{"sum":"`
	sumSuffix = `",`
	// sumLength is that of what stands before the content of a line.
	sumLength = len(sumPrefix) + 8 + len(sumSuffix)
	// maxLine is how long a line is at most: several times what the limits of an
	// entry and a report allow.
	maxLine = 1 << 20
)

// stateWithdrawn stands in a line that takes an entry out.
const stateWithdrawn State = "withdrawn"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed gives the line of a JSON object, and the checksum to go on from.
func sealed(before uint32, object []byte) (line []byte, sum uint32) {
	content := object[1:] // without its brace
	sum = crc32.Update(before, castagnoli, content)
	line = make([]byte, 0, sumLength+len(content)+1)
	line = appendSum(line, sum)
	line = append(line, content...)
	return append(line, '\n'), sum
}

// unsealed gives the content of a line, without its brace, where its checksum is
// right.
func unsealed(before uint32, line []byte) (content []byte, sum uint32, ok bool) {
	if len(line) <= sumLength || line[len(line)-1] != '\n' {
		return nil, 0, false
	}
	content = line[sumLength : len(line)-1]
	sum = crc32.Update(before, castagnoli, content)
	var want [sumLength]byte
	return content, sum, bytes.Equal(line[:sumLength], appendSum(want[:0], sum))
}

// appendSum gives what stands before the content of a line.
func appendSum(line []byte, sum uint32) []byte {
	line = append(line, sumPrefix...)
	line = hex.AppendEncode(line, binary.BigEndian.AppendUint32(nil, sum))
	return append(line, sumSuffix...)
}

func headerLine() (line []byte, sum uint32) { return sealed(0, []byte(`{"format":"`+format+`"}`)) }

func encodeEntry(e Entry) ([]byte, error) { return json.Marshal(e) }

func encodeWithdrawn(e Entry) ([]byte, error) {
	var w struct {
		CallID   string `json:"call_id"`
		Original struct {
			InvocationID string `json:"invocation_id"`
		} `json:"original"`
		State State `json:"state"`
	}
	w.CallID, w.Original.InvocationID, w.State = e.CallID, e.Original.InvocationID, stateWithdrawn
	return json.Marshal(w)
}

// head is what the index needs of a line.
type head struct {
	CallID   string `json:"call_id"`
	Original struct {
		InvocationID string `json:"invocation_id"`
	} `json:"original"`
	State     State     `json:"state"`
	UpdatedAt time.Time `json:"updated_at"`
}

// decodeHead reads the index part of a line whose checksum is right.
func decodeHead(line []byte) (h head, ok bool) {
	if err := jsonv2.Unmarshal(line, &h); err != nil {
		return head{}, false
	}
	switch h.State {
	case StatePrepared, StateSettled, StateGivenUp:
		ok = !h.UpdatedAt.IsZero()
	case stateWithdrawn:
		ok = true
	}
	return h, ok && checkCallID(h.CallID) == nil && checkInvocationID(h.Original.InvocationID) == nil
}

// fullLine is a line that holds an entry.
type fullLine struct {
	Sum string `json:"sum"`
	Entry
}

// decodeEntry reads a line that holds an entry: strict, in that every member is
// known, once, and in its letter case.
func decodeEntry(line []byte) (Entry, error) {
	var full fullLine
	if err := jsonv2.Unmarshal(line, &full, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Entry{}, err
	}
	return full.Entry, nil
}
