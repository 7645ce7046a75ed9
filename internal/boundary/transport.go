package boundary

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/await"
)

const (
	idleConnsPerHost       = 64
	maxResponseHeaderBytes = 256 << 10
	idleConnTimeout        = 90 * time.Second // that of http.DefaultTransport

	// A connection over HTTP/2 that brings nothing for silence is asked for a
	// sign of life, and closed without one after patience. Both together are
	// about half of the default time limit: an inspection that meets a dead
	// connection has the time to ask again over another one.
	silence  = 5 * time.Second
	patience = 3 * time.Second
)

// Transport is what requests go through: the caller's HTTP client, borrowed, or
// one of our own.
type Transport struct {
	borrowed http.RoundTripper // nil for one of our own
	timeout  time.Duration
	perHost  int // the most connections to a host; 0 for no limit

	unpackers sync.Pool // of *gzip.Reader

	mu      sync.Mutex
	own     *pool   // what the next request goes through
	retired []*pool // what no request goes through any more
	spare   *Transport
	lent    map[*Transport]bool // limited ones that somebody uses; spare is one that nobody does
}

// pool is an HTTP transport of our own, with its connections.
type pool struct {
	*http.Transport
	users int  // requests under way; guarded by the mu of its Transport
	left  bool // nobody used it when this was looked at last; so guarded, too
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
		return &Transport{borrowed: base, timeout: client.Timeout}
	}
	own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		own = standard.Clone()
	}
	own.MaxIdleConns = 0
	own.MaxIdleConnsPerHost = idleConnsPerHost
	own.MaxResponseHeaderBytes = maxResponseHeaderBytes
	if own.IdleConnTimeout == 0 { // a retired connection would never end
		own.IdleConnTimeout = idleConnTimeout
	}
	if own.HTTP2 == nil {
		own.HTTP2 = &http.HTTP2Config{}
	}
	own.HTTP2.SendPingTimeout, own.HTTP2.PingTimeout = silence, patience
	if proxy := own.Proxy; proxy != nil {
		own.Proxy = secureProxy(proxy)
	}
	own.OnProxyConnectResponse = checkProxy(own.OnProxyConnectResponse)
	return &Transport{own: &pool{Transport: own}}
}

// Limited gives a transport of the same kind with at most n connections to a
// host, for one who makes no more than n requests at once, and what hands it
// back. Its idle connections are kept for the next one who asks for as many. A
// borrowed transport is not limited.
func (t *Transport) Limited(n int) (limited *Transport, done func()) {
	if t.borrowed != nil {
		return t, func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	limited = t.spare
	if limited != nil && limited.perHost == n {
		t.spare = nil
	} else {
		own := t.own.Clone()
		own.MaxConnsPerHost, own.MaxIdleConnsPerHost = n, n
		limited = &Transport{own: &pool{Transport: own}, perHost: n, timeout: t.timeout}
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

// exchange runs one attempt, from the request to the end of the answer. After
// one that ran out of time its connections are not used again.
func (t *Transport) exchange(ctx context.Context, seen *passage, send func(context.Context, http.RoundTripper) (*Answer, error)) (*Answer, error) {
	if t.borrowed != nil { // it may not know the context
		return await.Do(ctx, func(ctx context.Context) (*Answer, error) { return send(ctx, t.borrowed) })
	}
	own, dead := t.take(), false
	defer func() { t.giveBack(own, dead) }()
	answer, err := send(ctx, own)
	dead = err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && seen.mayBeDead()
	return answer, err
}

func (t *Transport) take() *pool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own.users++
	return t.own
}

// giveBack ends a request. Where its connection may be dead, the requests after
// it go through new ones. Those that are under way on the old ones go on: what
// one caller had no time to wait for may still come for the others.
func (t *Transport) giveBack(used *pool, dead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used.users--
	if dead && used == t.own {
		t.own = &pool{Transport: used.Clone()}
		t.retired = append(t.retired, used)
	}
	// A request that was given up may be on its way out of its connection, so
	// that a pool is closed once more after its last one.
	t.retired = slices.DeleteFunc(t.retired, func(old *pool) bool {
		old.CloseIdleConnections()
		last := old.left
		old.left = old.users == 0
		return last
	})
}

func (t *Transport) isBorrowed() bool { return t.borrowed != nil }

// CloseIdleConnections closes those of our own transport. A borrowed one is
// its owner's business.
func (t *Transport) CloseIdleConnections() {
	if t == nil || t.borrowed != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own.CloseIdleConnections()
	for _, old := range t.retired {
		old.CloseIdleConnections()
	}
	t.spare.CloseIdleConnections()
	for limited := range t.lent {
		limited.CloseIdleConnections()
	}
}
