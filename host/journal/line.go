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

// A journal file consists of lines of JSON. The first line names the format. Every other
// line is an entry after a change, or the id of an entry that was withdrawn. Each line begins
// with a checksum over the rest of the line and all lines before it. So a line that was
// changed, removed or moved is noticed.
const (
	format    = "bailinghub.operation-journal.v1"
	sumPrefix = `{"sum":"`
	sumSuffix = `",`
	// sumLength is the length of the checksum member that begins a line.
	sumLength = len(sumPrefix) + 8 + len(sumSuffix)
	// maxLine is the greatest length of a line: several times as much as the limits of
	// an entry and a report allow.
	maxLine = 1 << 20
)

// stateWithdrawn is the state in a line that removes an entry.
const stateWithdrawn State = "withdrawn"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed gives the line for a JSON object, and its checksum, which the next line continues.
func sealed(before uint32, object []byte) (line []byte, sum uint32) {
	content := object[1:] // without its brace
	sum = crc32.Update(before, castagnoli, content)
	line = make([]byte, 0, sumLength+len(content)+1)
	line = appendSum(line, sum)
	line = append(line, content...)
	return append(line, '\n'), sum
}

// unsealed gives the content of a line without its opening brace. ok is false where the
// checksum is wrong.
func unsealed(before uint32, line []byte) (content []byte, sum uint32, ok bool) {
	if len(line) <= sumLength || line[len(line)-1] != '\n' {
		return nil, 0, false
	}
	content = line[sumLength : len(line)-1]
	sum = crc32.Update(before, castagnoli, content)
	var want [sumLength]byte
	return content, sum, bytes.Equal(line[:sumLength], appendSum(want[:0], sum))
}

// appendSum appends the checksum member that begins a line.
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

// head has the members of a line that the index needs.
type head struct {
	CallID   string `json:"call_id"`
	Original struct {
		InvocationID string `json:"invocation_id"`
	} `json:"original"`
	State     State     `json:"state"`
	UpdatedAt time.Time `json:"updated_at"`
}

// decodeHead reads the head of a line whose checksum is right.
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

// fullLine is a line with an entry.
type fullLine struct {
	Sum string `json:"sum"`
	Entry
}

// decodeEntry reads a line with an entry. It refuses a member that is unknown, is there twice
// or has another letter case.
func decodeEntry(line []byte) (Entry, error) {
	var full fullLine
	if err := jsonv2.Unmarshal(line, &full, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Entry{}, err
	}
	return full.Entry, nil
}
