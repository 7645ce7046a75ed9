package boundary

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

const (
	// firstWait is the average wait before the first repeat; it doubles with
	// each repeat.
	firstWait = 200 * time.Millisecond
	// longestWait is the longest Retry-After that Do waits for. After a longer
	// one it gives the answer to its caller (contract, section 4).
	longestWait = 5 * time.Second
)

// exchange is the state of one call of Do: the round tripper beneath its HTTP
// client, and the policy that decides about repeats.
type exchange struct {
	client  *Client
	request *Request
	repeats int
	wait    time.Duration

	// The outcome of the last attempt: an answer or an error.
	answer *Answer
	err    error
}

// RoundTrip makes one attempt and keeps its outcome in e. To the layers above it
// gives a response with the status only. Without a Location they cannot follow a
// redirect, and when retryablehttp gives up and drops its response, e still has
// the answer.
//
// exchange has no method CloseIdleConnections, because retryablehttp would call
// it after every failure and close the connections of other callers.
func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	e.answer, e.err = e.attempt(r)
	if e.err != nil {
		return nil, e.err
	}
	return &http.Response{StatusCode: e.answer.Status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func (e *exchange) attempt(r *http.Request) (*Answer, error) {
	if e.request.Body != nil {
		// Each attempt gets the whole body. Without GetBody no layer below can
		// send the body a second time.
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(e.request.Body))
		r.ContentLength = int64(len(e.request.Body))
	}
	if !e.client.allowed(r) {
		return nil, ErrRefused
	}
	ctx := r.Context()
	header := http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {UserAgent}}
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
	watched, passage := watchPassage(limited, header)
	defer passage.end(nil)
	r = r.WithContext(watched) // a copy, because this attempt changes it
	r.Header = header
	if r.Body == nil {
		r.Body = http.NoBody // some transports read a nil Body and panic
	}

	if e.request.Sending != nil {
		e.request.Sending()
	}
	answer, err := e.client.transport.exchange(watched, passage, func(ctx context.Context, through http.RoundTripper) (*Answer, error) {
		return e.send(ctx, through, r)
	})
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, limited.Err()
	case context.Cause(watched) == errSentBefore:
		time.Sleep(leaveTime)
		return nil, NewLostError(errSentBefore)
	default:
		return nil, NewLostError(err)
	}
}

// send makes the request through a round tripper and reads the answer. Where the
// connection is lost while the body is read, it gives both an answer and an error.
func (e *exchange) send(ctx context.Context, through http.RoundTripper, r *http.Request) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	response, err := through.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response == nil {
		return nil, errors.New("no response")
	}
	if e.request.Answering != nil {
		e.request.Answering(response.StatusCode)
	}
	answer := &Answer{Status: response.StatusCode, RetryAfter: RetryAfter(response.Header, time.Now()), RateLimit: rateLimit(response.Header)}
	if id := response.Header.Get(requestIDHeader); e.request.RequestID != "" && identifier.RequestID(id) {
		answer.RequestID = id
	}
	if response.Body == nil {
		return answer, nil
	}
	defer response.Body.Close()
	if e.client.transport.isBorrowed() {
		defer context.AfterFunc(ctx, func() { response.Body.Close() })()
	}
	if err := e.read(response, answer); err != nil {
		return answer, err
	}
	return answer, ctx.Err() // closing a body at the end of ctx may look like its end
}

func (e *exchange) retriesLeft() int {
	if e.request.Again == nil || e.request.Retries == nil {
		return 0
	}
	return *e.request.Retries
}

// checkRetry decides whether to send the request again, and after which wait. It
// does not repeat after the end of the context, after an error other than a lost
// connection, or where the wait would be too long or would not end before the
// deadline.
func (e *exchange) checkRetry(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	if ctx.Err() != nil || e.retriesLeft() == 0 {
		return false, nil
	}
	if _, lost := errors.AsType[*LostError](e.err); e.err != nil && !lost {
		return false, nil
	}
	if WillRefuseAgain(e.err) || !e.request.Again(e.answer) {
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

// RepeatWait gives how long to wait before the next repeat of a request. repeats
// is how often it was repeated before, and asked is how long the server asked to
// wait, or 0. ok is false where that is too long to wait (contract, section 4).
func RepeatWait(repeats int, asked time.Duration) (wait time.Duration, ok bool) {
	if asked > 0 {
		return asked + Jitter(firstWait)/2, asked <= longestWait
	}
	return Jitter(firstWait << repeats), true
}

// Jitter gives a random time between 0.5 d and 1.5 d. d must be positive.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
