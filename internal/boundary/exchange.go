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
	if e.request.Body != nil {
		// Each attempt has the whole body. There is no GetBody, so no layer below
		// can send it again.
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
	r = r.WithContext(watched) // a copy, for this attempt alone
	r.Header = header
	if r.Body == nil {
		r.Body = http.NoBody // for transports that read it without asking
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

// send gives an answer and how reading it ended.
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
	return answer, ctx.Err() // a body may end because it was closed
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
