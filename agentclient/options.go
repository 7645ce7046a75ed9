package agentclient

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/nilcheck"
)

// Option changes a default of a client. The functions of this package whose names begin
// with With make one. A nil Option is an invalid request.
type Option interface{ isOption() }

// option is the type of every Option. It also implements boundary.Change, by which the
// packages that accept options apply it.
type option func(*boundary.Settings) error

func (option) isOption() {}

// Apply implements [boundary.Change].
func (o option) Apply(s *boundary.Settings) error { return o(s) }

// WithHTTPClient borrows client for all requests. It uses the transport of client as it
// is, and its Timeout for each single request. It does not use its cookie jar and its
// CheckRedirect: no cookie is sent and no redirect is followed.
//
// Without this option, or with nil, the agent client has a transport of its own: a
// clone of http.DefaultTransport, with up to 64 idle connections to the Hub, and with a
// proxy (from the environment, as usual) for an https Hub only. A client whose
// Transport is nil stands for http.DefaultTransport itself.
//
// The agent client's own transport notices a dead HTTP/2 connection by a ping, and
// does not use a connection again after a request ran out of time on it. For a borrowed
// transport its owner has to take care of both: without SendPingTimeout and PingTimeout
// in its [http.HTTP2Config], every request to the Hub of a dead connection runs out of
// time until the system closes the connection. Where a transport is about to send a
// request a second time by itself, the agent client ends that request and treats it as
// a lost connection.
func WithHTTPClient(client *http.Client) Option {
	return option(func(s *boundary.Settings) error {
		if client != nil && client.Transport != nil && nilcheck.IsNil(client.Transport) {
			return invalid("WithHTTPClient: the transport of the client is a nil pointer.")
		}
		s.HTTPClient = client
		return nil
	})
}

// WithTimeout sets the time limit of a whole inspection: token, negotiation, receipt,
// repeats and the waits between them. Zero means the default of 15 seconds; an
// inspection without a limit is not possible. A negative limit is an invalid request.
func WithTimeout(limit time.Duration) Option {
	return option(func(s *boundary.Settings) error {
		switch {
		case limit < 0:
			return invalid("WithTimeout: the limit must not be negative.")
		case limit == 0:
			limit = boundary.DefaultTimeout
		}
		s.Timeout = limit
		return nil
	})
}

// WithMaxRetries limits how many requests one inspection repeats in all, after a lost
// connection or where the Hub cannot answer now. It is 0, 1 or 2; the default is 2.
// Anything else is an invalid request.
func WithMaxRetries(most int) Option {
	return option(func(s *boundary.Settings) error {
		if most < 0 || most > boundary.DefaultMaxRetries {
			return invalid("WithMaxRetries: the number must be 0, 1 or 2.")
		}
		s.MaxRetries = most
		return nil
	})
}

// WithLogger writes one record for each inspection and one for each repeat. A record
// has the invocation id, the feedback code, the HTTP status and a duration, and nothing
// else. A call with wrong arguments is not an inspection and writes none. Package host
// also writes a record of level DEBUG for each refresh of a session, and records about
// a session that is not saved. These have the connection key and the session id, never
// a token. Without this option, or with nil, nothing is logged.
func WithLogger(logger *slog.Logger) Option {
	return option(func(s *boundary.Settings) error {
		s.Logger = logger
		return nil
	})
}

// WithNegotiationReuse lets inspections use a good negotiation for this long, which
// saves each of them one request of two. After any failure the next inspection
// negotiates again. Without this option, or with zero, every inspection negotiates, as
// the contract of the Hub says. A negative time is an invalid request.
func WithNegotiationReuse(limit time.Duration) Option {
	return option(func(s *boundary.Settings) error {
		if limit < 0 {
			return invalid("WithNegotiationReuse: the time must not be negative.")
		}
		s.NegotiationReuse = limit
		return nil
	})
}
