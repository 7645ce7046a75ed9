package hubtest

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
)

// A Client is a client app: an agent host program that is registered at the Hub. The zero
// value is enabled, may use every route, and has names that are made from its id.
type Client struct {
	// Name to show to a person; the client's id when empty.
	Name string
	// Disabled clients cannot authenticate: 401.
	Disabled bool
	// NoAuthorizeURL: the client was never set up completely: it has no page on
	// which a person could agree, and cannot authenticate: 401.
	NoAuthorizeURL bool
	// AuthorizeURL of the business system's page on which a person agrees to a
	// login; [DefaultAuthorizeURL] when empty. It has https, or http and a port
	// of 127.0.0.1 or [::1]; a client with another one cannot authenticate.
	AuthorizeURL string
	// Token with which the business system of the client calls the Hub. When empty, one
	// is made up, and [Hub.ClientToken] returns it. The Hub refuses a token of fewer
	// than 16 characters.
	Token string
	// Routes that the client may use; nil allows every one.
	Routes []string
}

// DefaultAuthorizeURL is the page of the business system of a [Client] that
// names no other. Nothing answers there.
const DefaultAuthorizeURL = "https://business.example.test/agent-authorize"

// mayLogIn reports whether a client exists, is enabled, and has a page that a
// person can open.
func (c *Client) mayLogIn() bool {
	return c != nil && !c.Disabled && isAuthorizeURL(c.authorizeURL())
}

// authorizeURL is empty for a client that has no page.
func (c *Client) authorizeURL() string {
	if c.NoAuthorizeURL {
		return ""
	}
	return cmp.Or(c.AuthorizeURL, DefaultAuthorizeURL)
}

// name is what a person is shown for a client.
func (c *Client) name(id string) string { return cmp.Or(c.Name, id) }

// ClientToken returns the token with which the business system of a client
// calls the Hub, empty when the Hub does not know the client.
func (h *Hub) ClientToken(id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clientToken(id)
}

func (h *Hub) clientToken(id string) string {
	c := h.clients[id]
	if c == nil {
		return ""
	}
	return cmp.Or(c.Token, "synthetic-client-token-"+id)
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
	// Provider is the state of the tool provider behind the route; zero is ready.
	Provider Provider
	// Tools by name; nil is none.
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
	// Idempotent tools may be called twice with the same effect as once: the Hub
	// keeps no journal of them either.
	Idempotent bool
	// NeedsApproval: an invocation waits until it was approved and resumed.
	NeedsApproval bool
	// Run is the business system. While it runs, the operation is in flight.
	// Its context ends when the Hub is closed. Nil answers 200 {"ok":true}.
	// [Hub.Plan] comes before it.
	Run func(ctx context.Context, op Operation) Outcome
}

// An Operation is what reaches the business system.
type Operation struct {
	// InvocationID under which the Hub keeps the operation.
	InvocationID string
	// Route and Tool that the host named.
	Route, Tool string
	// Arguments as the host sent them, without spaces; nil for none.
	Arguments json.RawMessage
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

// authorize returns a refusal unless the session may now use this tool of this route. The
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
