package agentclient

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/nilcheck"
)

// Option changes what a client does by default. The functions of this package
// whose names begin with With make one; a nil Option is an invalid request.
type Option interface{ isOption() }

// option is every Option. It is a boundary.Change too, which the packages that
// take options know.
type option func(*boundary.Settings) error

func (option) isOption() {}

// Apply implements [boundary.Change].
func (o option) Apply(s *boundary.Settings) error { return o(s) }

// WithHTTPClient borrows client for all requests: its transport, untouched, and
// its Timeout, for each single request. Its cookie jar and its CheckRedirect
// play no part: no cookie is sent and no redirect is followed.
//
// Nil, and no such option, mean a transport of the client's own: cloned from
// http.DefaultTransport, with up to 64 idle connections to the Hub, and with a
// proxy (from the environment, as usual) for an https Hub only. A client whose
// Transport is nil stands for http.DefaultTransport itself.
//
// The client's own transport finds out that an HTTP/2 connection has died
// without a sign, and uses no connection again after a request that ran out of
// time on it. For a borrowed one both are its owner's: without SendPingTimeout
// and PingTimeout in the [http.HTTP2Config] of the transport, every request to
// such a Hub runs out of time until the connection ends. A request that the
// transport would send for a second time, after it has once been written, is
// ended instead, and counts as a lost connection.
func WithHTTPClient(client *http.Client) Option {
	return option(func(s *boundary.Settings) error {
		if client != nil && client.Transport != nil && nilcheck.IsNil(client.Transport) {
			return invalid("WithHTTPClient: the transport of the client is a nil pointer.")
		}
		s.HTTPClient = client
		return nil
	})
}

// WithTimeout limits the whole of an inspection: token, negotiation, receipt,
// repeats and the waits between them. Zero means the default, 15 seconds; there
// is no way to wait without a limit. A negative limit is an invalid request.
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

// WithMaxRetries limits how many requests of one inspection are repeated, in
// all, after a lost connection or where the Hub cannot answer now. Zero means
// never. The default is also the most: 2. Anything else is an invalid request.
func WithMaxRetries(most int) Option {
	return option(func(s *boundary.Settings) error {
		if most < 0 || most > boundary.DefaultMaxRetries {
			return invalid("WithMaxRetries: the number must be 0, 1 or 2.")
		}
		s.MaxRetries = most
		return nil
	})
}

// WithLogger has one record written for each inspection and one for each
// repeat: invocation id, feedback code, HTTP status, duration, and nothing
// else. A call whose arguments are wrong is no inspection. Package host adds one
// of level DEBUG for each refresh of a session, and those of a session that is
// not saved: connection key and session id, and never a token. Nil, and no such
// option, mean no records.
func WithLogger(logger *slog.Logger) Option {
	return option(func(s *boundary.Settings) error {
		s.Logger = logger
		return nil
	})
}

// WithNegotiationReuse lets a good negotiation count for this long instead of
// for one inspection, which saves one request of two. Any failure ends it at
// once. Zero, and no such option, mean that every inspection negotiates, as the
// Hub's contract has it. A negative time is an invalid request.
func WithNegotiationReuse(limit time.Duration) Option {
	return option(func(s *boundary.Settings) error {
		if limit < 0 {
			return invalid("WithNegotiationReuse: the time must not be negative.")
		}
		s.NegotiationReuse = limit
		return nil
	})
}
