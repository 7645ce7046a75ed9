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

// requestIDHeader carries the id under which a HermesX server logs the request.
const requestIDHeader = "X-Request-Id"

// ErrRefused says that a request is not on the list of the server and was not
// sent.
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
	// Method is the HTTP method. Path follows the base and is escaped as on the
	// wire. Query is raw.
	Method, Path, Query string
	// Body is sent as JSON; nil for none.
	Body []byte
	// Bearer gives the credential and is called before every attempt; its error
	// ends the request. Nil for a request without a credential.
	Bearer func(context.Context) (string, error)
	// RequestID is sent as X-Request-Id, and that header of the answer is read;
	// "" for neither.
	RequestID string
	// Good is the status of a good answer; 0 means 200.
	Good int
	// Limit is how many bytes the body of a good answer may have.
	Limit int64
	// Decisive reports whether the body of an answer with another status is
	// needed. Where it is not, the body is dropped. Nil means that none is
	// needed.
	Decisive func(status int) bool
	// Again reports whether to send the request again after this answer; its
	// argument is nil after a lost connection. A nil Again means never.
	Again func(*Answer) bool
	// Retries is how many repeats the caller still allows. Each repeat takes one
	// off.
	Retries *int
	// Sending is called before an attempt is handed to the network; may be nil.
	Sending func()
	// Answering is called with the status of an answer before its body is read;
	// may be nil.
	Answering func(status int)
	// Repeating is called before the wait for a repeat begins; may be nil.
	Repeating func(after *Answer, wait time.Duration)
}

// Answer is a server's answer to a request.
type Answer struct {
	Status int
	// Body is the whole body; nil where it was dropped or is unusable.
	Body []byte
	// Unusable says that the body was over its limit, or in an encoding that
	// was not asked for or does not decode.
	Unusable bool
	// TooLong says that the body was over its limit.
	TooLong bool
	// RequestID is the X-Request-Id of the answer, where the request had one; ""
	// where it is missing or has not the form of a request id.
	RequestID string
	// RetryAfter is how long the server asked to wait; 0 where it did not ask.
	RetryAfter time.Duration
	// RateLimit is the server's rate limit; the zero value where the answer has
	// none.
	RateLimit RateLimit
}

// Do sends the request, and sends it again where Again and Retries allow. It
// gives the last answer. Where there is none, the error is that of the context,
// that of Bearer, [ErrRefused] or a [*LostError]. It is context.DeadlineExceeded
// after the time limit of a borrowed HTTP client.
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

// newRequest makes a request from the parts of its URL, which costs less than
// parsing the URL as a text.
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
