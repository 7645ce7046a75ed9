package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	otherClient = "other-host"
	otherRoute  = "orders-agent"
	// perConnection is how many operations a connection has at a time.
	perConnection = 12
	// keepDead is how many originals of former logins are still asked about.
	keepDead = 6
)

// connection is one entry of the registry, its logins and operations.
type connection struct {
	hub        *hub
	key        string
	descriptor registry.Descriptor
	instanceID string

	// bound is the session that its login is of; "" while it has none.
	bound history[string]
	// needsLogin: an inspection said that the session cannot go on.
	needsLogin atomic.Bool

	mu    sync.Mutex
	login *login // of the operations
	open  []*operation
	done  []*operation // for the Hub to forget
	dead  []host.Original
}

// connect makes up the connections to a Hub: two instances that differ in nothing
// but their login, and one of another client at another workspace.
func (h *hub) connect() error {
	h.EditClient(otherClient, func(*hubtest.Client) {})
	h.EditRoute(otherRoute, func(r *hubtest.Route) {
		r.Tools[hubtest.WriteTool] = hubtest.Tool{}
		r.Tools[hubtest.GovernedTool] = hubtest.Tool{NeedsApproval: true}
		r.Tools[hubtest.ReadTool] = hubtest.Tool{ReadOnly: true}
	})
	ours := registry.Descriptor{HubURL: h.url, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}
	others := registry.Descriptor{HubURL: h.url, ClientAppID: otherClient, Workspace: otherRoute}
	for _, c := range []*connection{
		{descriptor: ours}, {descriptor: ours, instanceID: registry.NewInstanceID()}, {descriptor: others},
	} {
		var err error
		if c.instanceID == "" {
			c.key, err = c.descriptor.ConnectionKey()
		} else {
			c.key, err = c.descriptor.InstanceKey(c.instanceID)
		}
		if err != nil {
			return err
		}
		c.hub, c.bound.clock = h, h.soak.clock
		c.bound.set("")
		h.connections = append(h.connections, c)
	}
	return nil
}

func (c *connection) String() string { return c.hub.name + " " + c.key[:12] }

func (c *connection) register(ctx context.Context) error {
	var options []registry.RegisterOption
	if c.instanceID != "" {
		options = append(options, registry.WithInstance(c.instanceID))
	}
	_, err := c.hub.soak.store.Register(ctx, c.descriptor, options...)
	return err
}

// newLogin is a person's login at the Hub. Nobody has its tokens yet.
func (c *connection) newLogin() (*login, registry.Credentials) {
	session := c.hub.Login(hubtest.Grant{ClientID: c.descriptor.ClientAppID})
	l := &login{id: session.ID, hub: c.hub, connection: c}
	c.hub.soak.tokens.learn(l, session)
	return l, c.credentials(session)
}

func (c *connection) credentials(s hubtest.Session) registry.Credentials {
	return s.Credentials(c.hub.url, c.descriptor.Workspace)
}

// bind changes what the connection is bound to.
func (c *connection) bind(session string, do func() error) error {
	return c.bound.change(func() (string, error) { return session, do() })
}

// save makes credentials the login of the connection.
func (c *connection) save(ctx context.Context, credentials registry.Credentials) error {
	return c.bind(credentials.SessionID, func() error { return c.hub.soak.store.SaveCredentials(ctx, c.key, credentials) })
}

// replace gives the connection a new login for good: the operations of the old
// one are out of reach.
func (c *connection) replace(ctx context.Context) error {
	next, credentials := c.newLogin()
	if err := c.save(ctx, credentials); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.login; old != nil {
		old.end(c.hub.soak.clock.now())
	}
	for _, o := range c.open {
		c.dead = append(c.dead, o.original)
	}
	c.dead = c.dead[max(0, len(c.dead)-keepDead):]
	c.done = append(c.done, c.open...)
	c.login, c.open = next, nil
	c.needsLogin.Store(false)
	return nil
}

// rebind does one of the things that happen to connections.
func (c *connection) rebind(ctx context.Context, r *mathrand.Rand) (what string, err error) {
	store := c.hub.soak.store
	c.mu.Lock()
	current := c.login
	c.mu.Unlock()
	pause := func() { c.hub.soak.pause(ctx, time.Duration(r.IntN(100))*time.Millisecond) }
	// meanwhile does something to the connection that is undone at the end,
	// while nobody refreshes: two holders of one refresh token would end the
	// session.
	meanwhile := func(do func() error) error {
		return store.UpdateCredentials(ctx, c.key, func(ctx context.Context, login registry.Credentials) (registry.Credentials, error) {
			if err := do(); err != nil {
				return login, err
			}
			return login, c.save(ctx, login)
		})
	}
	switch n := r.IntN(12); {
	case c.needsLogin.Load():
		return "logins after a lost session", c.replace(ctx)
	case n < 5:
		current.happened(c.hub.soak.clock.now(), false)
		c.hub.ExpireAccess(current.id)
		return "access tokens declared dead", nil
	case n < 7:
		return "other sessions for a moment", meanwhile(func() error {
			other, credentials := c.newLogin()
			err := c.save(ctx, credentials)
			pause()
			other.end(c.hub.soak.clock.now())
			return err
		})
	case n < 9:
		return "removals and returns", meanwhile(func() error {
			if err := c.bind("", func() error { return store.Remove(ctx, c.key) }); err != nil {
				return err
			}
			pause()
			if err := c.register(ctx); err != nil {
				return err
			}
			pause()
			return nil
		})
	case n < 10:
		if err := c.bind("", func() error { return store.DeleteCredentials(ctx, c.key) }); err != nil {
			return "", err
		}
		pause()
		return "logouts and new logins", c.replace(ctx)
	case n < 11:
		current.happened(c.hub.soak.clock.now(), true)
		c.hub.Revoke(current.id)
		return "sessions revoked", nil
	default:
		return "new logins", c.replace(ctx)
	}
}

// newOriginal captures an original of the connection as a host does before it
// sends. The id is made up where none is given.
func (c *connection) newOriginal(ctx context.Context, id string) (host.Original, *login, error) {
	c.mu.Lock()
	current := c.login
	c.mu.Unlock()
	if id == "" {
		id = randomHex(32)
	}
	captured, err := c.hub.soak.transports[0].Capture(ctx, c.key, id)
	if err != nil || captured.ExpectedBinding.SessionID != current.id {
		return host.Original{}, nil, nil // just being rebound
	}
	return captured, current, nil
}

// begin sends a new operation under the connection's login.
func (c *connection) begin(ctx context.Context, r *mathrand.Rand, id string) error {
	original, current, err := c.newOriginal(ctx, id)
	if current == nil {
		return err
	}
	tools := []string{hubtest.WriteTool, hubtest.GovernedTool, hubtest.ReadTool}
	o := &operation{hub: c.hub, login: current, original: original, tool: tools[r.IntN(len(tools))], run: randomUUID()}
	o.life.clock = c.hub.soak.clock
	o.life.set(nil)
	c.hub.had[original.InvocationID] = mayHaveTwin(original.InvocationID)
	if r.IntN(2) == 0 {
		o.original.Tool, o.original.AgentRunID = o.tool, o.run
	}
	c.mu.Lock()
	if c.login != current {
		c.mu.Unlock()
		return nil
	}
	c.open = append(c.open, o)
	c.mu.Unlock()
	if r.IntN(20) == 0 {
		return nil // for now it is asked about before it was sent
	}
	return o.submit(r)
}

// operations are those that can be asked about.
func (c *connection) operations() []*operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.open)
}

// give has an operation forgotten.
func (c *connection) give(o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.open, o); i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
		c.done = append(c.done, o)
	}
}

// drop has the Hub forget an operation that nobody asks about any more, and
// reports whether there was one.
func (c *connection) drop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) == 0 {
		return false
	}
	o := c.done[0]
	c.done = c.done[1:]
	_ = o.life.change(func() (*receipt.Receipt, error) {
		c.hub.RemoveRecord(o.original.InvocationID)
		return nil, nil
	})
	return true
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func randomUUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
