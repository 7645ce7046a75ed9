package boundary

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// UserAgent names this SDK and its version to the server.
const UserAgent = "bailinghub-go/0.1.0"

// requestIDHeader names a request to a server that keeps a log of them.
const requestIDHeader = "X-Request-Id"

// ErrRefused says that a request was not on the list and did not leave.
var ErrRefused = errors.New("the request is not one that this SDK sends")

// Client sends to one server and to no other. It is safe for concurrent use.
type Client struct {
	transport *Transport
	base      *url.URL
	path      string // of the base, as it goes on the wire
	allow     Allow
}

// NewClient gives a client of the server at base, a URL in normal form.
func NewClient(transport *Transport, base string, allow Allow) (*Client, error) {
	parsed, err := url.Parse(base)
	if err != nil {
		return nil, ErrRefused // the parser's error quotes the URL
	}
	return &Client{transport: transport, base: parsed, path: parsed.EscapedPath(), allow: allow}, nil
}

// Request is one question to the server.
type Request struct {
	// Method, Path relative to the base and as it goes on the wire, and Query,
	// raw.
	Method, Path, Query string
	// Body is sent as JSON; nil for none.
	Body []byte
	// Bearer gives the credential and is asked before every attempt; its error
	// ends the exchange. Nil for a request without one.
	Bearer func(context.Context) (string, error)
	// RequestID is sent as X-Request-Id, and asked back; "" for neither.
	RequestID string
	// Good is the status of the answer that was asked for; 0 means 200.
	Good int
	// Limit is how many bytes the body of a good answer may have.
	Limit int64
	// Decisive tells whether the body of any other answer decides
	// anything. Where not, it is dropped; nil for never.
	Decisive func(status int) bool
	// Again tells whether to ask once more after this answer, or after a lost
	// connection (nil). Nil for never.
	Again func(*Answer) bool
	// Retries is what is left of the caller's repeats; each takes one off.
	Retries *int
	// Sending is called before an attempt is handed to the network; may be nil.
	Sending func()
	// Answering is called with the status of an answer before its body is read;
	// may be nil.
	Answering func(status int)
	// Repeating is called before a repeat is waited for; may be nil.
	Repeating func(after *Answer, wait time.Duration)
}

// Answer is what the server said.
type Answer struct {
	Status int
	// Body is the whole body; nil where it was dropped or is unusable.
	Body []byte
	// Unusable says that the body was over its limit, or in an encoding that
	// was not asked for or does not decode.
	Unusable bool
	// TooLong says that it was over its limit.
	TooLong bool
	// RequestID is what the server calls the request, where it was asked; ""
	// where it says nothing, or something that is no request id.
	RequestID string
	// RetryAfter is how long the server asked to wait; 0 for nothing.
	RetryAfter time.Duration
	// RateLimit is what the server says of its rate limit; the zero value where
	// it says nothing.
	RateLimit RateLimit
}

// Do sends the request and gives the last answer. Without one it gives the
// error of the context, the one of Bearer, [ErrRefused] or a [*LostError]. The
// time limit of a borrowed HTTP client is context.DeadlineExceeded.
func (c *Client) Do(ctx context.Context, request Request) (*Answer, error) {
	r, err := c.newRequest(ctx, &request)
	if err != nil {
		return nil, ErrRefused
	}
	e := &exchange{client: c, request: &request}
	retry := retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: e, CheckRedirect: useLastResponse},
		RetryMax:     e.retriesLeft(),
		CheckRetry:   e.checkRetry,
		Backoff:      e.backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	_, err = retry.Do(&retryablehttp.Request{Request: r})
	switch {
	case err == nil:
		return e.answer, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, e.err
	}
}

func useLastResponse(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newRequest puts a request together from parts, which costs less than to parse
// a URL.
func (c *Client) newRequest(ctx context.Context, request *Request) (*http.Request, error) {
	path, err := url.PathUnescape(request.Path)
	if err != nil {
		return nil, ErrRefused // its error quotes the path
	}
	target := *c.base
	target.Path, target.RawPath, target.RawQuery = c.base.Path+path, c.path+request.Path, request.Query
	r := &http.Request{
		Method: request.Method, URL: &target, Host: target.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return r.WithContext(ctx), nil
}
