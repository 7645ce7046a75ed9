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

// refreshMargin is how long an access token must still live to be used as it
// is (contract, section 6).
const refreshMargin = 30 * time.Second

// maxRounds is how often the store may say that somebody else has renewed the
// session, and then show the old one.
const maxRounds = 5

var (
	// errNotOriginal says that a check met another binding than the original.
	errNotOriginal = errors.New("the connection is bound to something else")
	// errNoLogin says that there was no login to begin with.
	errNoLogin = errors.New("the connection has no login")
)

// sessionKey is what a session is: a connection as an original knows it.
type sessionKey struct {
	connectionKey string
	binding       registry.Binding
}

// session is the original authorization of some invocations: how the store is
// checked for it, and how it is renewed. It is the only code that holds a
// credential. Each inspection under it has a [guard].
type session struct {
	sessionKey
	transport *Transport
	secure    bool             // no consent of the connection to plain http is needed
	client    *boundary.Client // for the refresh
	hub       atomic.Pointer[inspection.Hub]

	users int       // what is under way with it; guarded by the transport's mu
	used  time.Time // when the last of them was over; guarded by the transport's mu

	mu        sync.Mutex
	flight    *flight             // the flight under way; nil for none
	calls     int                 // calls of the store's UpdateCredentials that have not returned
	unsaved   *unsaved            // the rotation that the store has not saved; nil for none
	exchanged [][sha256.Size]byte // of the refresh tokens that brought the last rotations
	refused   refusal             // the last refresh token that brought none
	short     bool                // the last access token was inside the margin when it came
}

// session gives the one session of a valid original, until release. What is
// known by the same words was checked before.
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
	looks := 0
	for other, old := range t.sessions {
		if looks++; looks > maxLooks || len(t.sessions) < maxSessions {
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

// sweep forgets the sessions that nobody has asked for in a long time; t.mu is
// held.
func (t *Transport) sweep(now time.Time) {
	t.swept = now
	for key, s := range t.sessions {
		if s.users == 0 && now.Sub(s.used) >= sessionMemory && s.isIdle(now) {
			delete(t.sessions, key)
		}
	}
}

// isIdle reports that forgetting the session loses nothing and lets nothing be
// sent too early: no flight is under way, every rotation is saved, and no
// refresh token is waiting for its minute.
func (s *session) isIdle(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flight == nil && s.unsaved == nil && !now.Before(s.refused.until)
}

// forgetNegotiation ends the reuse of a negotiation, also of one that is under
// way now.
func (s *session) forgetNegotiation() {
	s.hub.Store(inspection.NewHub(s.client, s.binding.Workspace, s.transport.settings))
}

// stored reads the connection and its login and gives the login where both are
// still the original ones.
func (s *session) stored(ctx context.Context) (registry.Credentials, error) {
	if store, ok := s.transport.store.(registry.LoginReader); ok {
		connection, credentials, err := store.ConnectionCredentials(ctx, s.connectionKey)
		if err == nil && !(s.isOf(connection) && s.isLogin(connection, credentials)) {
			err = errNotOriginal
		}
		if !errors.Is(err, registry.ErrNotLoggedIn) { // of the original connection, or of another one
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

// isHub compares a URL with the original one, in normal form and as far as the
// connection allows it.
func (s *session) isHub(hubURL string, connection registry.Connection) bool {
	if hubURL == s.binding.HubURL { // the usual case, in normal form
		return s.secure || connection.AllowInsecureHTTP
	}
	normal, err := huburl.Normalize(hubURL, connection.AllowInsecureHTTP)
	return err == nil && normal == s.binding.HubURL
}

func neverShown() error {
	return failures.New(failures.Failure{Event: failures.StoreFailed, Message: "The connection store speaks of newer credentials and does not show them, so any answer is withheld."})
}

// needsRefresh reports whether credentials are to be renewed before they are
// used. What was just renewed, what ends with its session, and what cannot be
// renewed before its rotation is saved is used until it has run out.
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
