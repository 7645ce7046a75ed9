package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

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

// single inspects one original, at times with little patience.
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

// batch inspects many, at times not to the end.
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

// watch watches one for a while.
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

func choose(r *rand.Rand, from []*operation) *operation {
	if len(from) == 0 {
		return nil
	}
	return from[r.IntN(len(from))]
}
