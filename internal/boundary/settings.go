package boundary

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// The numbers of design rules 5 and 7.
const (
	DefaultTimeout    = 15 * time.Second
	DefaultMaxRetries = 2

	idleConnsPerHost       = 64
	maxResponseHeaderBytes = 256 << 10
)

// Settings are what the options of a client decide.
type Settings struct {
	// HTTPClient is the caller's; nil for a transport of our own.
	HTTPClient *http.Client
	// Timeout is for a whole inspection.
	Timeout time.Duration
	// MaxRetries is for a whole inspection.
	MaxRetries int
	// Logger gets one record for each inspection and each retry; nil for none.
	Logger *slog.Logger
	// NegotiationReuse is how long a negotiation counts; 0 for one inspection.
	NegotiationReuse time.Duration
	// Shared is the transport of a facade above, which keeps the time limit
	// and logs inspections itself; nil for a client that stands alone.
	Shared *Transport
	// Prompt says that the token source of a facade above never outlives its
	// context, so that it needs no goroutine of its own.
	Prompt bool
}

// ErrNilOption says that a list of options has a nil in it.
var ErrNilOption = errors.New("an option is nil")

// Apply gives the defaults, changed by the options.
func Apply[Option ~func(*Settings) error](opts []Option) (Settings, error) {
	s := Settings{Timeout: DefaultTimeout, MaxRetries: DefaultMaxRetries}
	for _, option := range opts {
		if option == nil {
			return Settings{}, ErrNilOption
		}
		if err := option(&s); err != nil {
			return Settings{}, err
		}
	}
	return s, nil
}

// Transport is what requests go through: the caller's HTTP client, borrowed, or
// one of our own.
type Transport struct {
	base    http.RoundTripper
	timeout time.Duration
	own     *http.Transport

	mu    sync.Mutex
	spare *Transport          // a limited one that nobody uses
	lent  map[*Transport]bool // those that somebody does
}

// NewTransport borrows the HTTP client of the settings: its transport and its
// time limit for one request. Its cookie jar and its redirect policy play no
// part. Without one, the transport is cloned from the default one, with room
// for 64 idle connections to a host and no proxy for plain http.
func NewTransport(s Settings) *Transport {
	if client := s.HTTPClient; client != nil {
		base := client.Transport
		if base == nil {
			base = http.DefaultTransport
		}
		return &Transport{base: base, timeout: client.Timeout}
	}
	own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		own = standard.Clone()
	}
	own.MaxIdleConns = 0
	own.MaxIdleConnsPerHost = idleConnsPerHost
	own.MaxResponseHeaderBytes = maxResponseHeaderBytes
	if proxy := own.Proxy; proxy != nil {
		own.Proxy = secureProxy(proxy)
	}
	return &Transport{base: own, own: own}
}

// Limited gives a transport of the same kind with at most n connections to a
// host, for one who makes no more than n requests at once, and what hands it
// back. Its idle connections are kept for the next one who asks for as many. A
// borrowed transport is not limited.
func (t *Transport) Limited(n int) (limited *Transport, done func()) {
	if t.own == nil {
		return t, func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	limited = t.spare
	if limited != nil && limited.own.MaxConnsPerHost == n {
		t.spare = nil
	} else {
		own := t.own.Clone()
		own.MaxConnsPerHost, own.MaxIdleConnsPerHost = n, n
		limited = &Transport{base: own, own: own, timeout: t.timeout}
	}
	if t.lent == nil {
		t.lent = map[*Transport]bool{}
	}
	t.lent[limited] = true
	return limited, func() { t.handBack(limited) }
}

func (t *Transport) handBack(limited *Transport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lent, limited)
	t.spare.CloseIdleConnections()
	t.spare = limited
}

// CloseIdleConnections closes those of our own transport. A borrowed one is
// its owner's business.
func (t *Transport) CloseIdleConnections() {
	if t == nil || t.own == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own.CloseIdleConnections()
	t.spare.CloseIdleConnections()
	for limited := range t.lent {
		limited.CloseIdleConnections()
	}
}
