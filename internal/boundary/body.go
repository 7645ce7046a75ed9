package boundary

import (
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// errorBodyLimit is how many bytes the body of an answer other than 200
	// may have (contract, section 4).
	errorBodyLimit = 64 << 10
	// packedOverhead is how many bytes more than its limit a body may have
	// before it is unpacked. Packing what cannot be packed adds less than one
	// byte in a thousand, and the header of a gzip member has room for a name.
	packedOverhead = 64 << 10
	// drainTime is how long a body that nobody needs is read. Without reading it
	// the connection could not be used again, but a new connection takes no
	// longer than this.
	drainTime = 100 * time.Millisecond
	// maxIdleReads is how many reads in a row may give no byte.
	maxIdleReads = 100
)

// errTooLong says that a gzip body is so long that it must be over its limit when
// it is unpacked.
var errTooLong = errors.New("the packed body is over its limit")

// read puts the body of a response into the answer. It returns an error only
// where the connection was lost before the end of the response. A response that
// is complete and has an unusable body sets Unusable and is no error.
func (e *exchange) read(response *http.Response, answer *Answer) error {
	limit := int64(errorBodyLimit)
	switch {
	case answer.Status == http.StatusSwitchingProtocols:
		return nil // what follows a 101 is no HTTP and may never end
	case answer.Status == cmp.Or(e.request.Good, http.StatusOK):
		limit = e.request.Limit
	case e.request.Decisive == nil || !e.request.Decisive(answer.Status):
		drain(response.Body)
		return nil
	}
	var body []byte
	var err error
	switch encoding := strings.Join(response.Header.Values("Content-Encoding"), ","); {
	case encoding == "", strings.EqualFold(encoding, "identity"):
		body, err = readAtMost(response.Body, response.ContentLength, limit)
	case strings.EqualFold(encoding, "gzip"):
		packed := &packedBody{body: response.Body, left: limit + packedOverhead}
		body, err = e.client.transport.unpack(packed, limit)
		if err != nil && !errors.Is(err, io.ErrNoProgress) {
			answer.Unusable, err = true, packed.lost
		}
		answer.TooLong = packed.left < 0
	default:
		answer.Unusable = true
		drain(response.Body)
		return nil
	}
	switch {
	case err != nil:
		return err
	case int64(len(body)) > limit:
		answer.Unusable, answer.TooLong = true, true
	case !answer.Unusable:
		answer.Body = body
	}
	return nil
}

// packedBody is a gzip body before it is unpacked, with its limit. It notes
// whether the connection was lost: gzip reports an unexpected end both for that
// and for a complete response whose body is too short.
type packedBody struct {
	body io.Reader
	left int64 // bytes up to the limit; negative once that was passed
	lost error // the error of the lost connection; nil where it was not lost
}

func (b *packedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLong
	}
	if err != nil && err != io.EOF {
		b.lost = err
	}
	return n, err
}

// unpack unpacks a gzip body, to its end or one byte past the limit. net/http
// could unpack it too, but then a body that the server sent too short, or with
// something behind its end, could not be told from a lost connection.
func (t *Transport) unpack(packed *packedBody, limit int64) ([]byte, error) {
	unpacker, ok := t.unpackers.Get().(*gzip.Reader)
	if !ok {
		unpacker = new(gzip.Reader)
	}
	defer func() {
		packed.body = nil // the pooled unpacker keeps a reference to packed
		t.unpackers.Put(unpacker)
	}()
	if err := unpacker.Reset(packed); err != nil {
		return nil, err
	}
	return readAtMost(unpacker, -1, limit)
}

// readAtMost reads to the end, or one byte past the limit, whichever comes first.
// announced is the Content-Length; negative for none. readAtMost never allocates
// more than what was announced or twice what it has read, whichever is greater,
// so that a small body cannot take much memory.
func readAtMost(r io.Reader, announced, limit int64) ([]byte, error) {
	if announced < 0 {
		announced = 1023 // enough for most receipts
	}
	body := make([]byte, 0, min(announced, limit)+1)
	for idle := 0; ; idle++ {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if n > 0 {
			idle = 0
		}
		switch {
		case idle == maxIdleReads:
			return body, io.ErrNoProgress
		case err == io.EOF:
			return body, nil
		case err != nil:
			return body, err
		case int64(len(body)) > limit:
			return body, nil
		case len(body) == cap(body):
			body = append(make([]byte, 0, min(2*int64(cap(body)), limit+1)), body...)
		}
	}
}

// drain reads a little of a body that nobody needs, for drainTime at most.
func drain(body io.ReadCloser) {
	defer time.AfterFunc(drainTime, func() { body.Close() }).Stop()
	_, _ = readAtMost(body, -1, errorBodyLimit)
}
