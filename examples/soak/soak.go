package main

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// inspectionLimit is the time limit of the SDK here: shorter than its default,
// so that what is swallowed holds nobody up for long.
const inspectionLimit = 4 * time.Second

// config is what a run is told.
type config struct {
	duration time.Duration
	seed     uint64
	folder   bool
	progress func(*tally, time.Duration) // called now and then; may be nil

	// What a test puts in the place of the real thing, to see that it is
	// noticed; nil for nothing. The wire is between a proxy and the look at
	// its requests, above is between that and the SDK.
	wire, above func(*hub, http.RoundTripper) http.RoundTripper
	store       func(registry.Store) registry.Store
	sdk         func(sdk) sdk
	settle      time.Duration // how long to wait for what ends by itself
}

// sdk is what is tested: a host.Transport.
type sdk interface {
	Capture(ctx context.Context, connectionKey, invocationID string) (host.Original, error)
	InspectInvocation(context.Context, host.Original) (*receipt.Receipt, error)
	InspectInvocations(context.Context, []host.Original, ...host.BatchOption) iter.Seq[host.Observation]
	WatchInvocation(context.Context, host.Original, ...host.WatchOption) iter.Seq2[*receipt.Receipt, error]
	Close(ctx context.Context) error
}

// book is a registry, with what changes it: a [registry.Memory] or
// [registry.Dir].
type book interface {
	registry.Store
	Register(context.Context, registry.Descriptor, ...registry.RegisterOption) (registry.Connection, error)
	Remove(ctx context.Context, key string) error
	SaveCredentials(ctx context.Context, key string, credentials registry.Credentials) error
	DeleteCredentials(ctx context.Context, key string) error
}

// soak is one run.
type soak struct {
	config  config
	clock   clock
	tally   *tally
	tokens  *tokens
	store   book // of this program itself, which never fails
	hubs    []*hub
	byHost  map[string]*hub
	outages *outages // of the transports' store

	// transports share the store, as two processes do. The second one reuses
	// negotiations.
	transports []sdk

	breach atomic.Pointer[breach]  // the first one
	end    context.CancelCauseFunc // of the run
}

var errOver = errors.New("the time is over")

// run soaks, and gives the first breach, or another reason why it could not go
// on.
func run(ctx context.Context, c config) (*tally, error) {
	if c.settle == 0 {
		c.settle = 10 * time.Second
	}
	s := &soak{config: c, clock: newClock(), tally: newTally(c), byHost: map[string]*hub{}}
	s.outages = s.newOutages()
	s.tokens = &tokens{clock: s.clock, known: map[string]*token{}, logins: map[string]*login{}}
	before, err := measure()
	if err != nil {
		return nil, err
	}
	ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	remove, err := s.build(ctx)
	defer remove()
	if err == nil {
		s.work(ctx)
		if !errors.Is(context.Cause(ctx), errOver) {
			err = errors.New("it was stopped")
		}
	}
	for _, t := range s.transports {
		s.closeTransport(t)
	}
	for _, h := range s.hubs {
		h.close()
	}
	s.tally.took = s.clock.now().Sub(s.clock.start.Round(0))
	if err == nil {
		err = s.left(before)
	}
	if b := s.breach.Load(); b != nil { // it may be why something else went wrong
		err = b
	}
	return s.tally, err
}

// build makes the Hubs, the transports and the first logins, and gives what is to
// be done in the end.
func (s *soak) build(ctx context.Context) (remove func(), err error) {
	remove = func() {}
	var keys []string
	for kind := range hubKinds {
		h, err := s.newHub(kind)
		if err != nil {
			return remove, err
		}
		s.hubs = append(s.hubs, h)
		s.byHost[h.proxy.address()] = h
		if err := h.connect(); err != nil {
			return remove, err
		}
		for _, c := range h.connections {
			keys = append(keys, c.key)
		}
	}
	open, remove, err := s.config.registry(keys)
	if err != nil {
		return func() {}, err
	}
	if s.store, err = open(); err != nil {
		return remove, err
	}
	for number, reuse := range []time.Duration{0, 2 * time.Second} {
		own, err := open()
		if err != nil {
			return remove, err
		}
		store := registry.Store(frailStore{own, s.outages, number})
		if s.config.store != nil {
			store = s.config.store(store)
		}
		transport, err := host.New(watchedStore{store, s},
			agentclient.WithHTTPClient(&http.Client{Transport: s.newWire(number)}),
			agentclient.WithTimeout(inspectionLimit),
			agentclient.WithNegotiationReuse(reuse),
			agentclient.WithLogger(slog.New(slog.NewJSONHandler(logSink{s}, nil))))
		if err != nil {
			return remove, err
		}
		tested := sdk(transport)
		if s.config.sdk != nil {
			tested = s.config.sdk(tested)
		}
		s.transports = append(s.transports, tested)
	}
	for _, h := range s.hubs {
		for _, c := range h.connections {
			if err := c.register(ctx); err != nil {
				return remove, err
			}
			if err := c.replace(ctx); err != nil {
				return remove, err
			}
		}
	}
	return remove, nil
}

// newWire gives what one transport of the SDK sends through.
func (s *soak) newWire(transport int) http.RoundTripper {
	below, above := byHub{soak: s}, byHub{soak: s}
	for _, h := range s.hubs {
		below.to = append(below.to, sabotaged(s.config.wire, h, h.transport))
	}
	watched := &wire{soak: s, transport: transport, below: below}
	for _, h := range s.hubs {
		above.to = append(above.to, sabotaged(s.config.above, h, watched))
	}
	return above
}

func sabotaged(with func(*hub, http.RoundTripper) http.RoundTripper, h *hub, t http.RoundTripper) http.RoundTripper {
	if with == nil {
		return t
	}
	return with(h, t)
}

// byHub sends each request to the transport of its Hub.
type byHub struct {
	soak *soak
	to   []http.RoundTripper // in the order of soak.hubs
}

func (b byHub) RoundTrip(r *http.Request) (*http.Response, error) {
	for i, h := range b.soak.hubs {
		if h == b.soak.hubAt(r) {
			return b.to[i].RoundTrip(r)
		}
	}
	b.soak.breaks(tokenStaysHome, "a request went to %s, which is no Hub of this run", r.URL.Host)
	return nil, errors.New("no such Hub")
}

// hubAt gives the Hub that a request goes to; nil for none.
func (s *soak) hubAt(r *http.Request) *hub {
	h := s.byHost[r.URL.Host]
	if h == nil || r.URL.Scheme+"://"+r.URL.Host != h.url {
		return nil
	}
	return h
}

// work runs everything until the time is over, or something broke.
func (s *soak) work(ctx context.Context) {
	over := time.AfterFunc(s.config.duration, func() { s.end(errOver) })
	defer over.Stop()
	var running sync.WaitGroup
	loop := func(name string, number int, every time.Duration, do func(context.Context, *rand.Rand)) {
		r := random(s.config.seed, name, strconv.Itoa(number))
		running.Go(func() {
			for s.pause(ctx, every/2+time.Duration(r.Int64N(int64(every)))) {
				do(ctx, r)
			}
		})
	}
	for i, h := range s.hubs {
		loop("operations", i, 4*time.Millisecond, h.liveOn)
		loop("connections", i, 250*time.Millisecond, h.rebind)
	}
	for i := range 12 {
		loop("single", i, 10*time.Millisecond, s.single(s.transports[i%2]))
	}
	for i := range 4 {
		loop("batch", i, 50*time.Millisecond, s.batch(s.transports[i%2]))
	}
	for i := range 4 {
		loop("watch", i, 20*time.Millisecond, s.watch(s.transports[i%2]))
	}
	loop("store", 0, 1500*time.Millisecond, s.outages.strike)
	running.Go(func() { s.meter(ctx) })
	running.Wait()
}

// closeTransport ends a transport. The store is well by now: nothing may be
// left that is not saved.
func (s *soak) closeTransport(t sdk) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.settle)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		s.breaks(sessionIsKept, "%v", err)
	}
}

// pause waits, and reports whether the run goes on.
func (s *soak) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
