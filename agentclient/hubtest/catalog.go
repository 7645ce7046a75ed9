package hubtest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
)

// A Client is an agent host program that the Hub knows. The zero value is
// enabled and may use every route.
type Client struct {
	// Disabled clients cannot authenticate: 401.
	Disabled bool
	// NoAuthorizeURL: the client was never set up completely: 401.
	NoAuthorizeURL bool
	// Routes that the client may use; nil allows every one.
	Routes []string
}

// A Route is what the SDK calls a workspace: a named set of tools in front of
// one business system. The zero value is enabled and has no tools.
type Route struct {
	// Disabled routes are 404 route_unavailable, as missing ones are.
	Disabled bool
	// AgentDirectDisabled: agents may not use it directly: 403.
	AgentDirectDisabled bool
	// AudienceRefused: it is not offered to the audience of agents: 403.
	AudienceRefused bool
	// Provider is the state of the tool provider behind the route.
	Provider Provider
	// Tools by name.
	Tools map[string]Tool
}

// Provider is the state of the tool provider behind a route.
type Provider int

const (
	// ProviderReady serves the tools of the route.
	ProviderReady Provider = iota
	// ProviderDisabled is switched off: 500 agent_tool_internal_error.
	ProviderDisabled
	// ProviderMissing is gone: 500 agent_tool_internal_error.
	ProviderMissing
	// ProviderSpecEmpty has no description of its tools: 500 agent_tool_internal_error.
	ProviderSpecEmpty
	// ProviderSpecInvalid describes no tool that can be read: 409 capability_changed.
	ProviderSpecInvalid
)

// A Tool is one operation of a business system. The zero value writes and
// needs no approval.
type Tool struct {
	// ReadOnly tools change nothing: the Hub keeps no journal of them.
	ReadOnly bool
	// NeedsApproval: an invocation waits until it was approved and resumed.
	NeedsApproval bool
	// Run is the business system. While it runs, the operation is in flight.
	// Its context ends when the Hub is closed. Nil answers 200 {"ok":true}.
	// [Hub.Plan] comes before it.
	Run func(ctx context.Context, op Operation) Outcome
}

// An Operation is what reaches the business system.
type Operation struct {
	InvocationID string
	Route, Tool  string
	Arguments    json.RawMessage
}

// EditClient lets edit change the client of that id, which is made when the
// Hub does not know it. Edit must not call the Hub.
func (h *Hub) EditClient(id string, edit func(*Client)) {
	h.change(func() {
		c := Client{}
		if old := h.clients[id]; old != nil {
			c = *old
		}
		edit(&c)
		c.Routes = slices.Clone(c.Routes)
		h.clients[id] = &c
	})
}

// RemoveClient makes the Hub forget a client.
func (h *Hub) RemoveClient(id string) {
	h.change(func() { delete(h.clients, id) })
}

// EditRoute lets edit change the route of that name, which is made when the
// Hub does not know it. Tools is never nil in edit. Edit must not call the Hub.
func (h *Hub) EditRoute(name string, edit func(*Route)) {
	h.change(func() {
		r := Route{}
		if old := h.routes[name]; old != nil {
			r = *old
		}
		if r.Tools == nil {
			r.Tools = map[string]Tool{}
		}
		edit(&r)
		r.Tools = maps.Clone(r.Tools)
		h.routes[name] = &r
	})
}

// RemoveRoute makes the Hub forget a route.
func (h *Hub) RemoveRoute(name string) {
	h.change(func() { delete(h.routes, name) })
}

// authorize checks that the session may now use this tool of this route. The
// caller holds the lock.
func (h *Hub) authorize(s *session, route, tool string) *Refusal {
	client := h.clients[s.ClientID]
	if client == nil || !allows(client.Routes, route) || !allows(s.Routes, route) {
		return refuse(403, "route_not_allowed")
	}
	r := h.routes[route]
	switch {
	case r == nil || r.Disabled:
		return refuse(404, "route_unavailable")
	case r.AgentDirectDisabled:
		return refuse(403, "agent_direct_disabled")
	case r.AudienceRefused:
		return refuse(403, "audience_not_allowed")
	}
	switch r.Provider {
	case ProviderDisabled, ProviderMissing, ProviderSpecEmpty:
		return refuse(500, "agent_tool_internal_error")
	case ProviderSpecInvalid:
		return refuse(409, "capability_changed")
	}
	if _, ok := r.Tools[tool]; !ok || !allows(s.Tools, tool) {
		return refuse(409, "capability_changed")
	}
	return nil
}

// allows reports whether an allow list contains name; nil allows everything.
func allows(list []string, name string) bool {
	return list == nil || slices.Contains(list, name)
}
