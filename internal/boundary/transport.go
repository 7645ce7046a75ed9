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

	// After receiving nothing for silence, an HTTP/2 connection is sent a ping.
	// It is closed where the answer does not come within patience. Together they
	// take about half of the default time limit, so that an inspection on a dead
	// connection has time left to ask again on another one.
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
	own     *pool               // for the next request
	retired []*pool             // for no new request, because a connection of it may be dead
	spare   *Transport          // a limited transport that nobody uses; nil for none
	lent    map[*Transport]bool // the limited transports that are in use
}

// pool is an HTTP transport of our own, with its connections. Both counts are
// guarded by the mu of its Transport.
type pool struct {
	*http.Transport
	users  int  // requests under way
	unused bool // users was 0 when giveBack last checked a retired pool
}

// NewTransport borrows the HTTP client of the settings, which means: it uses the
// client's transport and its time limit for one request, and neither its cookie
// jar nor its redirect policy. Without a client it clones the default transport,
// with room for 64 idle connections to a host and no proxy for plain http.
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
	if own.IdleConnTimeout == 0 { // an idle connection of a retired pool would stay open for ever
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

// Limited gives a transport of the same kind with at most n connections to a host,
// for a caller that makes at most n requests at once. The caller calls done after
// its last request. The idle connections are kept for the next caller that asks
// for the same n. A borrowed transport is given as it is, without a limit.
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

// exchange makes one attempt, from the request to the end of the answer. After an
// attempt that ran out of time, no new request uses a connection that may be dead.
func (t *Transport) exchange(ctx context.Context, seen *passage, send func(context.Context, http.RoundTripper) (*Answer, error)) (*Answer, error) {
	if t.borrowed != nil { // it may ignore the context
		return await.Do(ctx, func(ctx context.Context) (*Answer, error) { return send(ctx, t.borrowed) })
	}
	own, dead := t.take(), false
	defer func() { t.giveBack(own, dead) }()
	answer, err := send(ctx, own)
	dead = err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && seen.mayBeDead()
	return answer, err
}

// take gives the pool for one request.
func (t *Transport) take() *pool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own.users++
	return t.own
}

// giveBack ends the use of a pool by one request. Where its connection may be dead,
// later requests get a new pool. Requests that are under way in the old pool go
// on: only one of them has run out of time, and the others may still be answered.
func (t *Transport) giveBack(used *pool, dead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used.users--
	if dead && used == t.own {
		t.own = &pool{Transport: used.Clone()}
		t.retired = append(t.retired, used)
	}
	// net/http may still be taking the last request off its connection, which
	// then is not idle yet. So the idle connections of a retired pool are closed
	// once more at the next call, before the pool is forgotten.
	t.retired = slices.DeleteFunc(t.retired, func(old *pool) bool {
		old.CloseIdleConnections()
		last := old.unused
		old.unused = old.users == 0
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
