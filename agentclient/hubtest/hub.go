package hubtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/mocknet"
)

// The names of what a new Hub has at the beginning. [Hub.EditClient] and [Hub.EditRoute] change
// it or add to it.
const (
	// DefaultClient is the client app.
	DefaultClient = "synthetic-host"
	// DefaultRoute is the route.
	DefaultRoute = "catalog-agent"
	// DefaultAccount is the account of a business system that logs in where a
	// test names none.
	DefaultAccount = "synthetic-person"

	// WriteTool changes something: the Hub keeps a journal of its dispatch.
	WriteTool = "product_update"
	// GovernedTool changes something and waits for an approval first.
	GovernedTool = "product_publish"
	// ReadTool only reads: it has no journal and needs no approval.
	ReadTool = "product_list"
)

// A Hub is a BailingHub in memory. It is an [http.Handler]; [Hub.Start],
// [Hub.StartTLS] and [Hub.Transport] put it behind a connection.
//
// All methods are safe for concurrent use.
type Hub struct {
	now             func() time.Time
	prefix          string
	accessLifetime  time.Duration
	sessionLifetime time.Duration
	idle            time.Duration // before an idle connection is closed

	life   context.Context // ends with Close
	end    context.CancelFunc
	active sync.WaitGroup // handlers
	net    *mocknet.Net

	mu         sync.Mutex
	closed     bool
	inspection Inspection
	paused     bool
	broken     map[Part]bool
	clients    map[string]*Client
	routes     map[string]*Route
	sessions   map[string]*session
	// authorizations by id, and when each client app asked for one from where.
	authorizations map[string]*authorization
	starts         map[[2]string][]time.Time

	records   map[string]*Record
	plan      []Outcome
	faults    []*Fault
	approvals int64
	jobs      int64
	business  int
	counts    Counts
	log       []LogEntry
	logged    int
	version   uint64
	changed   chan struct{} // nil until somebody asks
}

// An Option adjusts a Hub under construction.
type Option func(*Hub)

// WithClock makes the Hub read the time from now instead of [time.Now]. The
// clock decides lifetimes of tokens and the instants that the Hub writes;
// latency always passes in the time of the runtime, which in a bubble of
// testing/synctest is the bubble's.
func WithClock(now func() time.Time) Option {
	return func(h *Hub) { h.now = now }
}

// WithPathPrefix makes the Hub live below a path such as "/hub", as one behind
// a shared web server does. What lies outside is a plain 404. The prefix is
// compared as it stands in the URL, escapes included.
func WithPathPrefix(prefix string) Option {
	if prefix != "" && prefix[0] != '/' {
		panic(fmt.Sprintf("hubtest: path prefix %q does not start with a slash", prefix))
	}
	return func(h *Hub) { h.prefix = strings.TrimRight(prefix, "/") }
}

// WithLifetimes sets how long an access token lives, and how long a session
// lives after its login, whatever is refreshed. The Hub counts whole seconds.
// The defaults are 15 minutes and 30 days.
func WithLifetimes(access, session time.Duration) Option {
	return func(h *Hub) { h.accessLifetime, h.sessionLifetime = access, session }
}

// WithIdleTimeout sets after what time the Hub closes a connection on which
// nothing is asked. The default is 5 seconds, as the real Hub has it; 0 keeps
// idle connections open.
func WithIdleTimeout(idle time.Duration) Option {
	return func(h *Hub) { h.idle = idle }
}

// New returns a running Hub with one client, one route and three tools: see
// [DefaultClient]. It has no sessions yet; [Hub.Login] makes one.
func New(opts ...Option) *Hub {
	h := &Hub{
		now:             time.Now,
		accessLifetime:  15 * time.Minute,
		sessionLifetime: 30 * 24 * time.Hour,
		idle:            5 * time.Second,
		broken:          map[Part]bool{},
		clients:         map[string]*Client{DefaultClient: {}},
		routes: map[string]*Route{DefaultRoute: {Tools: map[string]Tool{
			WriteTool:    {},
			GovernedTool: {NeedsApproval: true},
			ReadTool:     {ReadOnly: true},
		}}},
		sessions:       map[string]*session{},
		authorizations: map[string]*authorization{},
		starts:         map[[2]string][]time.Time{},
		records:        map[string]*Record{},
	}
	h.life, h.end = context.WithCancel(context.Background())
	for _, opt := range opts {
		opt(h)
	}
	h.net = mocknet.New("hubtest", h, h.idle)
	return h
}

// Close stops every server and connection of the Hub, ends the running requests, and waits until
// all have ended. A closed Hub answers no request; its counters, log and records can still be
// read.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()

	h.end()
	h.net.Close()
	h.active.Wait()
}

// Inspection says which inspection contract a Hub offers.
type Inspection int

const (
	// InspectionV1 is the contract of Hub 0.8.
	InspectionV1 Inspection = iota
	// InspectionAbsent is an older Hub: both endpoints are unknown paths.
	InspectionAbsent
	// InspectionAbsentWebPage is an older Hub behind a web application, which
	// answers every unknown path with its start page and status 200.
	InspectionAbsentWebPage
	// InspectionNewer is a later Hub, whose schema versions are v2.
	InspectionNewer
)

// SetInspection chooses the inspection contract that the Hub offers.
func (h *Hub) SetInspection(i Inspection) {
	h.change(func() { h.inspection = i })
}

// Inspection returns the inspection contract that the Hub offers.
func (h *Hub) Inspection() Inspection {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inspection
}

// SetPaused switches the global execution pause of the Hub. It blocks submit
// and resume and does not touch inspection or refresh.
func (h *Hub) SetPaused(paused bool) {
	h.change(func() { h.paused = paused })
}

// Paused reports whether the Hub is paused.
func (h *Hub) Paused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused
}

// A Part is a piece of the Hub's own machinery that can be out of order.
type Part int

const (
	// ToolService: the tool service is not wired; 503 agent_tools_unavailable.
	ToolService Part = iota
	// ToolServiceControl: the tool service runs and misses the control plane;
	// 503 agent_tools_unavailable with a message.
	ToolServiceControl
	// ControlPlane is not set up: nobody can be authenticated, 401, and nobody
	// can log in or renew a session, 503 agent_auth_unavailable. No other part
	// can fail where it is missing, but for ToolService.
	ControlPlane
	// AgentAuth: the control plane runs without agent sessions; as ControlPlane.
	AgentAuth
	// AuthStorage, where sessions and authorizations are, fails: 500
	// internal_error, and to some calls of the business system 503
	// agent_auth_lifecycle_unavailable.
	AuthStorage
	// JournalStorage fails: 500 agent_tool_internal_error.
	JournalStorage
	// StateStorage, where jobs are, fails: 500 agent_tool_internal_error.
	StateStorage
	// ClientStorage, where client apps are, fails: as AuthStorage.
	ClientStorage
)

// Break puts parts of the Hub out of order.
func (h *Hub) Break(parts ...Part) {
	h.change(func() {
		for _, p := range parts {
			h.broken[p] = true
		}
	})
}

// Repair puts parts of the Hub in order again, all of them when none is named.
func (h *Hub) Repair(parts ...Part) {
	h.change(func() {
		if len(parts) == 0 {
			clear(h.broken)
		}
		for _, p := range parts {
			delete(h.broken, p)
		}
	})
}

// Version counts the changes of the Hub, requests included.
func (h *Hub) Version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}

// Changed returns a channel that is closed with the next change of the Hub's records, settings or
// request log. To miss no change, take the channel before you read the state.
func (h *Hub) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// change runs f under the lock and tells whoever waits on Changed.
func (h *Hub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.touch()
}

// touch marks a change; the caller holds the lock.
func (h *Hub) touch() {
	h.version++
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func randomUUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
