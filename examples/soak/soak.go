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
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
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
	CloseIdleConnections()
}

// book is a registry, with what changes it. [registry.Memory] is one.
type book interface {
	registry.Store
	Register(context.Context, registry.Descriptor, ...registry.RegisterOption) (registry.Connection, error)
	Remove(ctx context.Context, key string) error
	SaveCredentials(ctx context.Context, key string, credentials registry.Credentials) error
	DeleteCredentials(ctx context.Context, key string) error
}

// soak is one run.
type soak struct {
	config config
	clock  clock
	tally  *tally
	tokens *tokens
	store  book
	hubs   []*hub
	byHost map[string]*hub

	// transports share the store, as two processes do. The second one reuses
	// negotiations.
	transports []sdk

	end context.CancelCauseFunc // of the run
}

var errOver = errors.New("the time is over")

// run soaks, and gives the first breach, or another reason why it could not go
// on.
func run(ctx context.Context, c config) (*tally, error) {
	if c.settle == 0 {
		c.settle = 10 * time.Second
	}
	s := &soak{config: c, clock: newClock(), tally: newTally(c), store: registry.NewMemory(), byHost: map[string]*hub{}}
	s.tokens = &tokens{clock: s.clock, known: map[string]*token{}, logins: map[string]*login{}}
	before, err := measure()
	if err != nil {
		return nil, err
	}
	ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	err = s.build(ctx)
	if err == nil {
		s.work(ctx)
		err = breached(ctx)
		if err == nil && !errors.Is(context.Cause(ctx), errOver) {
			err = errors.New("it was stopped")
		}
	}
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
	for _, h := range s.hubs {
		h.close()
	}
	s.tally.took = s.clock.now().Sub(s.clock.start.Round(0))
	if err == nil {
		err = s.left(before)
	}
	return s.tally, err
}

// build makes the Hubs, the transports and the first logins.
func (s *soak) build(ctx context.Context) error {
	for kind := range hubKinds {
		h, err := s.newHub(kind)
		if err != nil {
			return err
		}
		s.hubs = append(s.hubs, h)
		s.byHost[h.proxy.address()] = h
	}
	store := registry.Store(s.store)
	if s.config.store != nil {
		store = s.config.store(store)
	}
	for _, reuse := range []time.Duration{0, 2 * time.Second} {
		transport, err := host.New(watchedStore{store, s.clock},
			agentclient.WithHTTPClient(&http.Client{Transport: s.newWire()}),
			agentclient.WithTimeout(inspectionLimit),
			agentclient.WithNegotiationReuse(reuse),
			agentclient.WithLogger(slog.New(slog.NewJSONHandler(logSink{s}, nil))))
		if err != nil {
			return err
		}
		tested := sdk(transport)
		if s.config.sdk != nil {
			tested = s.config.sdk(tested)
		}
		s.transports = append(s.transports, tested)
	}
	for _, h := range s.hubs {
		if err := h.newConnections(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newWire gives what one transport of the SDK sends through.
func (s *soak) newWire() http.RoundTripper {
	below, above := byHub{soak: s}, byHub{soak: s}
	for _, h := range s.hubs {
		below.to = append(below.to, sabotaged(s.config.wire, h, h.transport))
	}
	watched := &wire{soak: s, below: below}
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
	running.Go(func() { s.meter(ctx) })
	running.Wait()
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

// liveOn moves operations of a Hub on, begins new ones and drops old ones, and
// looks whether anybody else did anything there.
func (h *hub) liveOn(ctx context.Context, r *rand.Rand) {
	c := h.connections[r.IntN(len(h.connections))]
	open := c.operations()
	var err error
	switch o := choose(r, open); {
	case c.drop():
	case len(open) < perConnection:
		err = c.begin(ctx, r, h.twin(r))
	case o.stage == settled && r.IntN(4) == 0:
		c.give(o)
	case o.stage == unsent:
		err = o.submit(r)
	default:
		err = o.move(r)
	}
	if refusal, ok := errors.AsType[*hubtest.Refusal](err); ok && refusal.Status == http.StatusUnauthorized {
		err = nil // the session is over
	}
	if err != nil && ctx.Err() == nil {
		h.soak.breaks(programIsSensible, "an operation at %s could not be moved on: %v", h.name, err)
	}
	requests := h.Requests()
	if performed := h.BusinessOperations(); performed != h.performed || requests.Submit+requests.Resume > 0 {
		h.soak.breaks(nothingIsDone, "%s performed %d business operations, %d of them for this program; it got %d requests to submit and %d to resume",
			h.name, performed, h.performed, requests.Submit, requests.Resume)
	}
	if h.tls && requests.Other > 0 {
		h.soak.breaks(nothingIsDone, "%s got %d requests that an inspection has no use for", h.name, requests.Other)
	}
}

// usePlan lets an operation of nobody's have the outcome that was planned for
// one that the Hub refused.
func (h *hub) usePlan() {
	session := h.Login(hubtest.Grant{})
	if id, err := h.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool}); err == nil {
		h.RemoveRecord(id)
	}
}

func (h *hub) rebind(ctx context.Context, r *rand.Rand) {
	c := h.connections[r.IntN(len(h.connections))]
	for _, other := range h.connections {
		if other.needsLogin.Load() {
			c = other
		}
	}
	what, err := c.rebind(ctx, r)
	if err != nil && ctx.Err() == nil {
		h.soak.breaks(programIsSensible, "%s could not be rebound: %v", c, err)
		return
	}
	h.soak.tally.session(what)
	h.soak.tokens.forget()
}

// Operations have twins, of the same invocation id at another Hub, or are asked
// about under bindings that they do not belong to, never both: the id says which.
func mayHaveTwin(id string) bool { return id[0] >= '8' }

// twin gives the invocation id of an operation at another Hub now and then, one
// that this Hub never had; else "".
func (h *hub) twin(r *rand.Rand) string {
	other := h.soak.hubs[r.IntN(len(h.soak.hubs))]
	o := choose(r, other.connections[r.IntN(len(other.connections))].operations())
	if o == nil || !mayHaveTwin(o.original.InvocationID) || h.had[o.original.InvocationID] {
		return ""
	}
	return o.original.InvocationID
}

func choose(r *rand.Rand, from []*operation) *operation {
	if len(from) == 0 {
		return nil
	}
	return from[r.IntN(len(from))]
}

// question makes up something to ask.
func (s *soak) question(r *rand.Rand) *question {
	h := s.hubs[r.IntN(len(s.hubs))]
	c := h.connections[r.IntN(len(h.connections))]
	o := choose(r, c.operations())
	switch n := r.IntN(20); {
	case o == nil:
		return nil
	case n == 0: // under a former login
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.dead) == 0 {
			return nil
		}
		return &question{connection: c, original: c.dead[r.IntN(len(c.dead))]}
	case n == 1: // under the binding of another operation
		h := s.hubs[r.IntN(len(s.hubs))]
		other := choose(r, h.connections[r.IntN(len(h.connections))].operations())
		if other == nil || other.login == o.login || mayHaveTwin(other.original.InvocationID) {
			return nil
		}
		crossed := o.original
		crossed.InvocationID, crossed.Tool, crossed.AgentRunID = other.original.InvocationID, "", ""
		return &question{connection: c, original: crossed, crossed: true}
	}
	return &question{connection: c, original: o.original, operation: o}
}

// answered does what an answer asks of the program that sent the operation: to
// have a person log in again.
func (s *soak) answered(q *question, err error) {
	if !errors.Is(err, feedback.CodeAgentAuthorizationUnavailable) {
		return
	}
	c := q.connection
	bound := c.bound.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.login.id != q.session() || bound != q.session() || c.needsLogin.Swap(true) {
		return
	}
	if session, _ := c.hub.Session(q.session()); !session.Revoked {
		s.tally.session("logins asked for though the session lives")
	}
}

func (s *soak) single(t sdk) func(context.Context, *rand.Rand) {
	return func(ctx context.Context, r *rand.Rand) {
		q := s.question(r)
		if q == nil {
			return
		}
		limit := time.Duration(0)
		if r.IntN(20) == 0 {
			limit = time.Duration(1+r.IntN(100)) * time.Millisecond
		}
		c, cancel := s.newCall(ctx, "single", limit, q)
		defer cancel()
		if r.IntN(20) == 0 {
			defer time.AfterFunc(time.Duration(r.IntN(50))*time.Millisecond, cancel).Stop()
		}
		observed, err := t.InspectInvocation(c.ctx, q.original)
		s.judge(c, q, observed, err)
		s.answered(q, err)
	}
}

func (s *soak) batch(t sdk) func(context.Context, *rand.Rand) {
	return func(ctx context.Context, r *rand.Rand) {
		asked := map[host.Original][]*question{}
		var questions []*question
		var originals []host.Original
		for range 1 + r.IntN(60) {
			if q := s.question(r); q != nil {
				asked[q.original] = append(asked[q.original], q)
				questions, originals = append(questions, q), append(originals, q.original)
			}
		}
		c, cancel := s.newCall(ctx, "batch", 10*time.Second, questions...)
		defer cancel()
		stop := -1
		if r.IntN(10) == 0 {
			stop = r.IntN(20)
		}
		for observation := range t.InspectInvocations(c.ctx, originals, host.WithConcurrency(1+r.IntN(16))) {
			waiting := asked[observation.Original]
			if len(waiting) == 0 {
				s.breaks(answerIsOnce, "a batch answered %s through %s once more than it was asked", observation.Original.InvocationID, observation.Original.ConnectionKey)
				return
			}
			asked[observation.Original] = waiting[1:]
			s.judge(c, waiting[0], observation.Receipt, observation.Err)
			s.answered(waiting[0], observation.Err)
			if stop--; stop == 0 {
				return
			}
		}
		for _, waiting := range asked {
			if len(waiting) > 0 {
				s.breaks(answerIsOnce, "a batch of %d ended without an answer for %s through %s", len(originals), waiting[0].original.InvocationID, waiting[0].connection)
			}
		}
	}
}

func (s *soak) watch(t sdk) func(context.Context, *rand.Rand) {
	return func(ctx context.Context, r *rand.Rand) {
		q := s.question(r)
		if q == nil {
			return
		}
		c, cancel := s.newCall(ctx, "watch", time.Duration(200+r.IntN(4000))*time.Millisecond, q)
		defer cancel()
		var seen *receipt.Receipt
		var failed error
		for observed, err := range t.WatchInvocation(c.ctx, q.original,
			host.WithInterval(10*time.Millisecond, 200*time.Millisecond), host.WithPatience(2*time.Second)) {
			s.judge(c, q, observed, err)
			s.answered(q, err)
			switch {
			case failed != nil:
				s.breaks(answerIsOnce, "a watch went on after its error %v", failed)
			case err != nil:
				failed = err
			case observed == nil: // judged
			case seen != nil && seen.Settled():
				s.breaks(answerIsOnce, "a watch went on after a settled receipt:\n%s\n%s", text(seen), text(observed))
			case seen != nil && observed.ObservedAt.Before(seen.ObservedAt):
				s.breaks(answerIsOnce, "a watch yielded an older receipt as news:\n%s\n%s", text(seen), text(observed))
			case seen != nil && unchanged(seen, observed):
				s.breaks(answerIsOnce, "a watch yielded the same twice:\n%s\n%s", text(seen), text(observed))
			}
			if observed != nil {
				seen = observed
			}
		}
		if failed == nil && !seen.Settled() {
			s.breaks(answerIsOnce, "a watch through %s ended without an error or a settled receipt", q.connection)
		}
	}
}
