package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/grant"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
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

// session is the original authorization of some invocations. It is the token
// source of their client, and the only code that holds a credential.
type session struct {
	sessionKey
	transport *Transport
	secure    bool // no consent of the connection to plain http is needed
	hub       *boundary.Client
	client    atomic.Pointer[agentclient.BailingHubAgentClient]

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

// progress is what one inspection has had; it travels in its context. A token
// source that outlives its context may still write to it.
type progress struct {
	entered       atomic.Bool // the check at entry went well
	refreshed     atomic.Bool // the one refresh was had
	refreshFailed atomic.Bool

	reading atomic.Bool            // the store is being read, or that failed
	waiting atomic.Pointer[flight] // the flight that is waited for; nil for none

	answered time.Time       // when the client was through
	withheld *feedback.Error // its failure, where a check afterwards has one of its own
}

// stage says what the inspection waits for where that is this package's
// business; "" where it is the client's.
func (p *progress) stage() string {
	if f := p.waiting.Load(); f != nil {
		return f.stage()
	}
	if p.reading.Load() {
		return "the connection store"
	}
	return ""
}

type progressKey struct{}

func progressOf(ctx context.Context) *progress {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		return p
	}
	return &progress{}
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
	hub, err := boundary.NewClient(t.settings.Shared, key.binding.HubURL, boundary.HubRequests)
	if err != nil {
		return nil, invalid("expected_binding.hub_url cannot be sent to.")
	}
	_, err = huburl.Normalize(key.binding.HubURL, false)
	s := &session{sessionKey: key, transport: t, secure: err == nil, hub: hub, users: 1}
	s.client.Store(s.newClient(t.settings))
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

func (s *session) newClient(settings boundary.Settings) *agentclient.BailingHubAgentClient {
	client, err := agentclient.New(agentclient.Config{
		HubURL:            s.binding.HubURL,
		Workspace:         s.binding.Workspace,
		TokenSource:       s,
		AllowInsecureHTTP: true, // every check asks the connection whether that is so
	}, func(own *boundary.Settings) error {
		*own = settings
		return nil
	})
	if err != nil {
		panic("host: a valid original gives a valid client: " + err.Error())
	}
	return client
}

// check reads the connection and its credentials and gives them only where both
// are still the original ones. A login that is missing at entry is told apart
// from one that disappeared. Where the store shows the credentials that an
// unsaved rotation replaces, those of the rotation are given.
func (s *session) check(ctx context.Context, had *progress) (registry.Credentials, error) {
	had.reading.Store(true)
	stored, err := s.stored(ctx)
	if errors.Is(err, registry.ErrNotLoggedIn) && !had.entered.Load() {
		err = errNoLogin
	}
	if err != nil {
		return registry.Credentials{}, err
	}
	had.reading.Store(false)
	had.entered.Store(true)
	return s.current(stored), nil
}

// stored is check with the credentials as the store has them.
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

// TokenContext gives the access token of the very credentials that it checked,
// renewed where it has not long to live. The first time is the check at entry.
func (s *session) TokenContext(ctx context.Context) (*oauth2.Token, error) {
	credentials, err := s.usable(ctx)
	if err != nil {
		return nil, err
	}
	return bearer(credentials), nil
}

// usable gives credentials that were checked and whose access token can be used
// now, renewed where it has not long to live.
func (s *session) usable(ctx context.Context) (registry.Credentials, error) {
	had := progressOf(ctx)
	for range maxRounds {
		credentials, err := s.check(ctx, had)
		if err != nil {
			return registry.Credentials{}, failures.New(s.failure(err))
		}
		if had.refreshed.Load() || !s.needsRefresh(credentials) {
			return credentials, nil
		}
		if err := s.refresh(ctx, credentials.AccessToken, had); err != nil {
			return registry.Credentials{}, err
		}
	}
	return registry.Credentials{}, neverShown()
}

// Token makes a session an oauth2.TokenSource; its client calls TokenContext.
func (s *session) Token() (*oauth2.Token, error) { return s.TokenContext(context.Background()) }

// Refresh renews the access token after a 401, unless the refused one is not
// the stored one any more: then it only reads again. An inspection that has had
// its refresh waits for one that somebody else may have under way, in this
// process or another, and goes on with what that brings.
func (s *session) Refresh(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error) {
	had := progressOf(ctx)
	waited := false
	for range maxRounds {
		credentials, err := s.check(ctx, had)
		switch {
		case err != nil:
			return nil, failures.New(s.failure(err))
		case credentials.AccessToken.Reveal() != refused.AccessToken:
			return bearer(credentials), nil
		case waited:
			return nil, failures.New(failures.Failure{Status: http.StatusUnauthorized})
		case had.refreshed.Load():
			waited = true
			err = s.waitForOthers(ctx, had)
		default:
			err = s.refresh(ctx, credentials.AccessToken, had)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, neverShown()
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

// bearer has no expiry: the session itself decides how long a token is used.
func bearer(credentials registry.Credentials) *oauth2.Token {
	return &oauth2.Token{
		AccessToken: credentials.AccessToken.Reveal(),
		TokenType:   "Bearer",
	}
}
