package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/grant"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
	"github.com/bailinghub/bailinghub-go/registry"
)

// refreshMargin is how long before its end an access token is refreshed (contract,
// section 6).
const refreshMargin = 30 * time.Second

// maxRounds is how often the store may report that somebody else has refreshed the session
// and still give the old tokens, before that is a failure of the store.
const maxRounds = 5

var (
	// errNotOriginal says that a check found another binding than the original one.
	errNotOriginal = errors.New("the connection is bound to something else")
	// errNoLogin says that the first check found no login.
	errNoLogin = errors.New("the connection has no login")
)

// sessionKey identifies a session: the connection and the binding of an original.
type sessionKey struct {
	connectionKey string
	binding       registry.Binding
}

// session is the original authorization of some invocations. It reads and compares what
// the store has, and refreshes the tokens. Only this code handles credentials. Each
// inspection of these invocations has a [guard] that uses the session.
type session struct {
	sessionKey
	transport *Transport
	secure    bool             // the Hub URL is allowed without AllowInsecureHTTP
	client    *boundary.Client // for the refresh
	hub       atomic.Pointer[inspection.Hub]

	users int       // calls that use the session; guarded by the transport's mu
	used  time.Time // when the last of them ended; guarded by the transport's mu

	mu        sync.Mutex
	flight    *flight             // the running flight; nil for none
	calls     int                 // calls of the store's UpdateCredentials that have not returned
	unsaved   *unsaved            // the rotation that the store has not saved; nil for none
	exchanged [][sha256.Size]byte // hashes of the last refresh tokens that were exchanged
	refused   refusal             // the last refresh token that was not exchanged
	short     bool                // the last new access token had less than refreshMargin left
}

// session gives the session of a valid original. The caller releases it afterwards. An
// original with the connection and the binding of a remembered session is not checked
// again, because that session was.
func (t *Transport) session(original Original) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Load() {
		return nil, invalidFor(original.InvocationID, "The transport is closed.")
	}
	now := time.Now()
	if now.Sub(t.swept) >= sweepInterval {
		t.sweep(now)
	}
	if s := t.sessions[sessionKey{original.ConnectionKey, original.ExpectedBinding}]; s != nil {
		s.users++
		return s, nil
	}
	key, err := original.sessionKey()
	if err != nil {
		return nil, err
	}
	if s := t.sessions[key]; s != nil {
		s.users++
		return s, nil
	}
	client, err := boundary.NewClient(t.shared, key.binding.HubURL, boundary.HubRequests)
	if err != nil {
		return nil, invalid("expected_binding.hub_url cannot be sent to.")
	}
	_, err = huburl.Normalize(key.binding.HubURL, false)
	s := &session{sessionKey: key, transport: t, secure: err == nil, client: client, users: 1}
	s.forgetNegotiation()
	checks := 0
	for other, old := range t.sessions {
		if checks++; checks > maxEvictionChecks || len(t.sessions) < maxSessions {
			break
		}
		if old.users == 0 && old.isIdle(now) {
			delete(t.sessions, other)
		}
	}
	t.sessions[key] = s
	return s, nil
}

func (t *Transport) release(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.users--
	s.used = time.Now()
}

// sweep forgets the sessions that nobody has used for sessionMemory. The caller holds
// t.mu.
func (t *Transport) sweep(now time.Time) {
	t.swept = now
	for key, s := range t.sessions {
		if s.users == 0 && now.Sub(s.used) >= sessionMemory && s.isIdle(now) {
			delete(t.sessions, key)
		}
	}
}

// isIdle reports whether the session can be forgotten: no flight runs, every rotation is
// saved, and there is no refusal to remember, which keeps a refresh token from being sent
// again too early.
func (s *session) isIdle(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flight == nil && s.unsaved == nil && !now.Before(s.refused.until)
}

// forgetNegotiation makes later inspections negotiate again. They do not use a negotiation
// either that runs at this moment.
func (s *session) forgetNegotiation() {
	s.hub.Store(inspection.NewHub(s.client, s.binding.Workspace, s.transport.settings))
}

// stored reads the connection and its login, and gives the login where both are still the
// original ones.
func (s *session) stored(ctx context.Context) (registry.Credentials, error) {
	if store, ok := s.transport.store.(registry.LoginReader); ok {
		connection, credentials, err := store.ConnectionCredentials(ctx, s.connectionKey)
		if err == nil && !(s.isOf(connection) && s.isLogin(connection, credentials)) {
			err = errNotOriginal
		}
		if !errors.Is(err, registry.ErrNotLoggedIn) { // whose connection may not be the original one
			return credentials, err
		}
	}
	connection, err := s.transport.store.Connection(ctx, s.connectionKey)
	if err == nil && !s.isOf(connection) {
		err = errNotOriginal
	}
	if err != nil {
		return registry.Credentials{}, err
	}
	credentials, err := s.transport.store.Credentials(ctx, s.connectionKey)
	if err == nil && !s.isLogin(connection, credentials) {
		err = errNotOriginal
	}
	return credentials, err
}

// isOf reports whether this is the original connection.
func (s *session) isOf(connection registry.Connection) bool {
	return connection.Key == s.connectionKey && s.isHub(connection.HubURL, connection) &&
		connection.ClientAppID == s.binding.ClientAppID && connection.Workspace == s.binding.Workspace
}

// isLogin reports whether this is the original login.
func (s *session) isLogin(connection registry.Connection, credentials registry.Credentials) bool {
	return s.isHub(credentials.HubURL, connection) &&
		credentials.ClientAppID == s.binding.ClientAppID && credentials.Workspace == s.binding.Workspace && credentials.SessionID == s.binding.SessionID
}

// isHub reports whether a URL is that of the original Hub. It compares the normal forms,
// and refuses plain http where the connection does not allow it.
func (s *session) isHub(hubURL string, connection registry.Connection) bool {
	if hubURL == s.binding.HubURL { // the usual case: both are in normal form
		return s.secure || connection.AllowInsecureHTTP
	}
	normal, err := huburl.Normalize(hubURL, connection.AllowInsecureHTTP)
	return err == nil && normal == s.binding.HubURL
}

func neverShown() error {
	return failures.New(failures.Failure{Event: failures.StoreFailed, Message: "The connection store speaks of newer credentials and does not show them, so any answer is withheld."})
}

// needsRefresh reports whether credentials have to be refreshed before they are used. An
// access token is used until it expires where it was short when it came, where it ends
// with its session, and where an unsaved rotation has to be saved before another refresh.
func (s *session) needsRefresh(credentials registry.Credentials) bool {
	left := time.Until(credentials.AccessExpiresAt)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsaved != nil {
		s.saveSoon()
	}
	endsWithSession := credentials.RefreshExpiresAt.Sub(credentials.AccessExpiresAt) <= grant.AccessBeforeRefresh
	if left > 0 && (s.unsaved != nil || s.short || endsWithSession) {
		return false
	}
	return left < refreshMargin
}
