package hermestest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/mocknet"
)

// DefaultTenant is the tenant of what names none.
const DefaultTenant = "00000000-0000-4000-8000-000000000001"

// The roles of a key. An admin may do everything.
const (
	RoleUser    = "user"
	RoleAuditor = "auditor"
	RoleAdmin   = "admin"
)

// TextLimit is how many bytes of an input and of an output are kept.
const TextLimit = 4096

// DefaultRateLimit is how many requests a tenant may make in a minute, all its
// keys together, where [HermesX.SetRateLimit] sets no other number. A test that
// makes more has to raise it.
const DefaultRateLimit = 60

// A HermesX is a server in memory. It is an [http.Handler]; [HermesX.Start],
// [HermesX.StartTLS] and [HermesX.Transport] put it behind a connection.
//
// All methods are safe for concurrent use.
type HermesX struct {
	now      func() time.Time
	newID    func() string
	location *time.Location
	mux      *http.ServeMux
	net      *mocknet.Net

	mu           sync.Mutex
	before       func(*http.Request)
	between      func(*http.Request)
	keys         map[string]Key
	receipts     []Receipt    // in the order in which they were stored
	entries      []AuditEntry // likewise
	lastEntry    int64        // the greatest id of an entry
	last         time.Time    // the last time that was written
	databaseDown bool
	rowsHidden   bool
	limits       map[string]int // by tenant
	windows      map[string]window
	requests     []string
	runs         int
}

// window is the minute that requests of a tenant are counted in.
type window struct {
	since time.Time
	count int
}

// An Option adjusts a HermesX under construction.
type Option func(*HermesX)

// WithClock makes the server read the time from now instead of [time.Now]. Two
// times that it writes are at least a microsecond apart, whatever the clock
// says.
func WithClock(now func() time.Time) Option { return func(h *HermesX) { h.now = now } }

// WithLocation makes the server write times with the offset of a location. The
// default is UTC.
func WithLocation(location *time.Location) Option {
	return func(h *HermesX) { h.location = location }
}

// WithIDs makes the server take the ids of receipts from next instead of making
// up UUIDs. They have to differ.
func WithIDs(next func() string) Option { return func(h *HermesX) { h.newID = next } }

// New returns a running server that has nothing stored and knows no key.
func New(opts ...Option) *HermesX {
	h := &HermesX{
		now:      time.Now,
		newID:    randomUUID,
		location: time.UTC,
		keys:     map[string]Key{},
		limits:   map[string]int{},
		windows:  map[string]window{},
	}
	for _, opt := range opts {
		opt(h)
	}
	h.mux = h.routes()
	h.net = mocknet.New("hermestest", h, 0)
	return h
}

// A Server is a HermesX that listens on 127.0.0.1. Closing it closes the
// HermesX.
type Server struct {
	// HermesX is what is served; never nil.
	*HermesX
	// URL is where the server listens, without a slash at the end.
	URL    string
	client *http.Client
}

// TB is the part of [testing.TB] that NewServer needs.
type TB interface {
	Helper()
	Cleanup(func())
}

// NewServer starts a new HermesX for a test and closes it when the test is
// over.
func NewServer(tb TB, opts ...Option) *Server {
	tb.Helper()
	s := New(opts...).Start()
	tb.Cleanup(s.Close)
	return s
}

// Start serves over plain HTTP on a port of its own. It panics when there is
// none, and when the HermesX is closed.
func (h *HermesX) Start() *Server {
	url, client := h.net.Start()
	return &Server{HermesX: h, URL: url, client: client}
}

// StartTLS is Start over TLS. [Server.Client] trusts its certificate.
func (h *HermesX) StartTLS() *Server {
	url, client := h.net.StartTLS()
	return &Server{HermesX: h, URL: url, client: client}
}

// Client returns an HTTP client that reaches the server and trusts its
// certificate.
func (s *Server) Client() *http.Client { return s.client }

// Transport returns a round tripper that reaches the server within the process,
// whatever host the URL names. Behind it is the real HTTP of net/http over
// pipes; it works in a bubble of testing/synctest.
func (h *HermesX) Transport() http.RoundTripper { return h.net.Transport() }

// Close stops every server and connection and waits until all is over. What is
// stored can still be read.
func (h *HermesX) Close() { h.net.Close() }

// A Key is an API key.
type Key struct {
	// Secret is what a caller sends; "" has one made up.
	Secret string
	// TenantID is whose data it opens; "" for [DefaultTenant].
	TenantID string
	// UserID is the id of the key itself, which audit entries have as their user;
	// "" has one made up.
	UserID string
	// Roles are what it may do; none may do nothing.
	Roles []string
	// Static keys stand in the server's configuration: they are good while the
	// database is down. The zero value is a key of the database.
	Static bool
}

func (k Key) has(role string) bool {
	return slices.Contains(k.Roles, role) || slices.Contains(k.Roles, RoleAdmin)
}

// AddKey makes a key known and returns it with what was made up.
func (h *HermesX) AddKey(k Key) Key {
	if k.Secret == "" {
		k.Secret = "synthetic-access-" + randomHex(16)
	}
	if k.UserID == "" {
		k.UserID = randomUUID()
	}
	k.TenantID = tenant(k.TenantID)
	k.Roles = slices.Clone(k.Roles)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[k.Secret] = k
	return k
}

// RemoveKey makes a key unknown, as one that expired or was revoked is.
func (h *HermesX) RemoveKey(secret string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.keys, secret)
}

// SetDatabaseDown takes the database away, or gives it back.
func (h *HermesX) SetDatabaseDown(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.databaseDown = down
}

// SetRowsHidden makes the server's database role one that may not pass row
// security, or ends that. Keys are good, as they are where they do not come from
// the database; lists are empty with a total of 0, and every receipt is not
// found. Requests are logged all the same.
func (h *HermesX) SetRowsHidden(hidden bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rowsHidden = hidden
}

// SetRateLimit sets how many requests a tenant may make in a minute, which
// begins with the first of them. "" is [DefaultTenant]; 0 admits none.
func (h *HermesX) SetRateLimit(tenantID string, perMinute int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limits[tenant(tenantID)] = perMinute
}

// Before has f called before each request is looked at, one after the other.
// It may use the HermesX. Nil has nothing called.
func (h *HermesX) Before(f func(*http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = f
}

// BetweenStatements has f called when a list has counted its rows and has not
// yet selected them, which the server does in two statements. It may use the
// HermesX. Nil has nothing called.
func (h *HermesX) BetweenStatements(f func(*http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.between = f
}

// Requests returns the requests so far, each as method and request target:
// "GET /v1/audit-logs?limit=1".
func (h *HermesX) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// stamp gives a time to write: now, and later than every one before. The caller
// holds the lock.
func (h *HermesX) stamp() time.Time {
	now := h.now().Truncate(time.Microsecond)
	if !now.After(h.last) {
		now = h.last.Add(time.Microsecond)
	}
	h.last = now
	return now
}

func tenant(id string) string {
	if id == "" {
		return DefaultTenant
	}
	return id
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

// canonical gives a UUID in the spelling that the database has it in, and any
// other id as it is. The database also reads one in braces.
func canonical(id string) string {
	bare := id
	if inner, ok := strings.CutPrefix(id, "{"); ok && strings.HasSuffix(inner, "}") {
		bare = strings.TrimSuffix(inner, "}")
	}
	digits := strings.ToLower(strings.ReplaceAll(bare, "-", ""))
	if len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return id
	}
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}
