package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

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

// rebind does something to one of the connections, first to those that need a
// login.
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
