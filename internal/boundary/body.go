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
	// drainTime is for a body that decides nothing: to read it lets the
	// connection be used again, and is not worth more.
	drainTime = 100 * time.Millisecond
	// maxIdleReads is how often a body may give nothing in a row.
	maxIdleReads = 100
)

// errTooLong says that a packed body is longer than it could be within its
// limit.
var errTooLong = errors.New("the packed body is over its limit")

// read puts the body of a response into the answer. Its error is that of a
// connection that was lost before the end of the response; a response that came
// to its end and has an unusable body is no error.
func (e *exchange) read(response *http.Response, answer *Answer) error {
	limit := int64(errorBodyLimit)
	switch {
	case answer.Status == http.StatusSwitchingProtocols:
		return nil // there is no end to what may be read
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

// packedBody is the body of a response as it came, within its limit. It tells a
// response that broke off from one that came to its end: to whoever unpacks it,
// both are an unexpected end.
type packedBody struct {
	body io.Reader
	left int64 // negative once the limit was passed
	lost error // how the response broke off; nil where it did not
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

// unpack gives what a gzip body unpacks to, read to its end or one byte past
// the limit. net/http is not left to do it, because nobody could tell then
// whether a body that ends short, or goes on after its end, was sent like that.
func (t *Transport) unpack(packed *packedBody, limit int64) ([]byte, error) {
	unpacker, ok := t.unpackers.Get().(*gzip.Reader)
	if !ok {
		unpacker = new(gzip.Reader)
	}
	defer func() {
		packed.body = nil // the unpacker keeps hold of it
		t.unpackers.Put(unpacker)
	}()
	if err := unpacker.Reset(packed); err != nil {
		return nil, err
	}
	return readAtMost(unpacker, -1, limit)
}

// readAtMost reads to the end, or one byte past the limit, whichever comes
// first. It never has more memory than was announced, or twice what it read.
func readAtMost(r io.Reader, announced, limit int64) ([]byte, error) {
	if announced < 0 { // it was not
		announced = 1023 // most receipts
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

// drain reads a little of a body that decides nothing.
func drain(body io.ReadCloser) {
	defer time.AfterFunc(drainTime, func() { body.Close() }).Stop()
	_, _ = readAtMost(body, -1, errorBodyLimit)
}
