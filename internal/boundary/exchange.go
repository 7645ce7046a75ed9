package boundary

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

const (
	// errorBodyLimit is how many bytes the body of an answer other than 200
	// may have (contract, section 4).
	errorBodyLimit = 64 << 10
	// drainTime is for a body that decides nothing: to read it lets the
	// connection be used again, and is not worth more.
	drainTime = 100 * time.Millisecond
	// maxIdleReads is how often a body may give nothing in a row.
	maxIdleReads = 100
	// firstWait is before the first repeat, on average; it doubles with each.
	firstWait = 200 * time.Millisecond
	// longestWait is the longest Retry-After that is waited for (contract,
	// section 4).
	longestWait = 5 * time.Second
)

// exchange is one Request on its way: the round tripper beneath its HTTP
// client, and the policy of its repeats.
type exchange struct {
	client  *Client
	request *Request
	repeats int
	wait    time.Duration

	// The outcome of the last attempt: one of the two.
	answer *Answer
	err    error
}

// RoundTrip makes one attempt. What it gives to the layers above is a status
// and nothing else: a redirect without a Location ends there, and the last
// answer survives a policy that gives up.
//
// It has no CloseIdleConnections beside it on purpose: retryablehttp would
// call that after every failure.
func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	e.answer, e.err = e.attempt(r)
	if e.err != nil {
		return nil, e.err
	}
	return &http.Response{StatusCode: e.answer.Status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func (e *exchange) attempt(r *http.Request) (*Answer, error) {
	if !e.client.allowed(r) {
		return nil, ErrRefused
	}
	ctx := r.Context()
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {UserAgent}}
	if e.request.Body != nil {
		header["Content-Type"] = []string{"application/json"}
	}
	if e.request.RequestID != "" {
		header[requestIDHeader] = []string{e.request.RequestID}
	}
	if e.request.Bearer != nil {
		bearer, err := e.request.Bearer(ctx)
		if err != nil {
			return nil, err
		}
		header["Authorization"] = []string{"Bearer " + bearer}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limited := ctx
	if limit := e.client.transport.timeout; limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	r = r.WithContext(limited) // a copy, for this attempt alone
	r.Header = header
	if r.Body == nil {
		r.Body, r.TransferEncoding = unrepeatable{}, identity
	}

	if e.request.Sending != nil {
		e.request.Sending()
	}
	send := func(ctx context.Context) (*Answer, error) { return e.send(ctx, r) }
	var answer *Answer
	var err error
	if e.client.transport.own != nil {
		answer, err = send(limited)
	} else { // somebody else's may not know the context
		answer, err = await.Do(limited, send)
	}
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, limited.Err()
	default:
		return nil, NewLostError(err)
	}
}

// unrepeatable is an empty body that net/http does not know to be one. It would
// send a request without a body again by itself, on another connection, past
// the checks and the count of this package. Nothing of it is on the wire.
type unrepeatable struct{}

// identity keeps net/http from looking into that body in a goroutine of its own
// before it sends the request.
var identity = []string{"identity"}

func (unrepeatable) Read([]byte) (int, error) { return 0, io.EOF }
func (unrepeatable) Close() error             { return nil }

// WriteTo spares net/http the buffer of 32 KiB that it would read into.
func (unrepeatable) WriteTo(io.Writer) (int64, error) { return 0, nil }

// send gives an answer and how reading it ended.
func (e *exchange) send(ctx context.Context, r *http.Request) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	response, err := e.client.transport.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response == nil {
		return nil, errors.New("no response")
	}
	if e.request.Answering != nil {
		e.request.Answering(response.StatusCode)
	}
	answer := &Answer{Status: response.StatusCode, RetryAfter: RetryAfter(response.Header, time.Now())}
	if id := response.Header.Get(requestIDHeader); e.request.RequestID != "" && identifier.RequestID(id) {
		answer.RequestID = id
	}
	if response.Body == nil {
		return answer, nil
	}
	defer response.Body.Close()
	if e.client.transport.own == nil {
		defer context.AfterFunc(ctx, func() { response.Body.Close() })()
	}
	if err := e.read(response, answer); err != nil {
		return answer, err
	}
	return answer, ctx.Err() // a body may end because it was closed
}

func (e *exchange) read(response *http.Response, answer *Answer) error {
	limit := int64(errorBodyLimit)
	switch {
	case answer.Status == http.StatusSwitchingProtocols:
		return nil // there is no end to what may be read
	case answer.Status == http.StatusOK:
		limit = e.request.Limit
	case e.request.Decisive == nil || !e.request.Decisive(answer.Status):
		drain(response.Body)
		return nil
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		answer.Unusable = true
		drain(response.Body)
		return nil
	}
	body, err := readAtMost(response.Body, response.ContentLength, limit)
	switch {
	case notDecodable(err):
		answer.Unusable = true
	case err == nil && int64(len(body)) > limit:
		answer.Unusable, answer.TooLong = true, true
	case err != nil:
		return err
	default:
		answer.Body = body
	}
	return nil
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

// notDecodable reports that a compressed body is not what its encoding says.
func notDecodable(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)
}

func (e *exchange) retriesLeft() int {
	if e.request.Again == nil || e.request.Retries == nil {
		return 0
	}
	return *e.request.Retries
}

// checkRetry decides about a repeat and how long to wait for it. There is none
// after the end of the context, after an error that is not a lost connection,
// and where the wait would be too long or not end before the deadline.
func (e *exchange) checkRetry(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	if ctx.Err() != nil || e.retriesLeft() == 0 {
		return false, nil
	}
	if _, lost := errors.AsType[*LostError](e.err); e.err != nil && !lost {
		return false, nil
	}
	if !e.request.Again(e.answer) {
		return false, nil
	}
	var asked time.Duration
	if e.answer != nil {
		asked = e.answer.RetryAfter
	}
	var ok bool
	if e.wait, ok = RepeatWait(e.repeats, asked); !ok {
		return false, nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= e.wait {
		return false, nil
	}
	e.repeats++
	*e.request.Retries--
	if e.request.Repeating != nil {
		e.request.Repeating(e.answer, e.wait)
	}
	return true, nil
}

func (e *exchange) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return e.wait }

// RepeatWait gives how long to wait before a request is repeated that was
// repeated so often already, where the server asked for some time, or for none.
// It reports whether that is worth it (contract, section 4).
func RepeatWait(repeats int, asked time.Duration) (time.Duration, bool) {
	if asked > 0 {
		return asked + Jitter(firstWait)/2, asked <= longestWait
	}
	return Jitter(firstWait << repeats), true
}

// Jitter gives a time between half of d, which is positive, and one and a half.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
