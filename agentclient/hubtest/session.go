package hubtest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
)

// A Grant says what session [Hub.Login] makes. Every zero field has a default.
type Grant struct {
	// ClientID of the client app that logs in; [DefaultClient] when empty.
	ClientID string
	// SessionID is a new UUID when empty.
	SessionID string
	// DeviceLabel names the device of the login; "Synthetic device" when empty.
	DeviceLabel string
	// Routes that the session may use; nil allows every one.
	Routes []string
	// Tools that the session may use; nil allows every one.
	Tools []string
	// Principal is the id of the account that the session belongs to;
	// [DefaultAccount] when empty.
	Principal string
	// Tenant of the account; empty is none.
	Tenant string
	// OnBehalfOf says for whom the session acts; Principal when empty.
	OnBehalfOf string
	// SubjectName is the name to show for the account; empty is none.
	SubjectName string
	// AccessToken is made up when empty. What the Hub makes up says "synthetic"
	// and cannot be taken for a real secret.
	AccessToken string
	// RefreshToken is made up when empty, like AccessToken.
	RefreshToken string
}

// A Session is a login as the Hub knows it now. Its instants are whole seconds,
// as the real Hub stores them, and the Hub compares an access token's end with
// the second that it is in: a token is good until its last second is over.
type Session struct {
	// ID is a UUID; it is never empty.
	ID string
	// ClientID of the client app that logged in.
	ClientID string
	// AuthorizationID of the authorization that the session came from; empty
	// for one that [Hub.Login] made.
	AuthorizationID string
	// DeviceLabel that the login named.
	DeviceLabel string
	// Routes that the session may use; nil allows every one.
	Routes []string
	// Tools that the session may use; nil allows every one.
	Tools []string
	// Principal is the id of the account, and OnBehalfOf for whom it acts.
	Principal string
	// Tenant, Audience and Channel of the account; empty is none.
	Tenant, Audience, Channel string
	// Roles of the account; nil is none.
	Roles []string
	// OnBehalfOf says for whom the session acts.
	OnBehalfOf string
	// SubjectName is the name to show for the account; empty is none.
	SubjectName string

	// AccessToken is the one that is good now; earlier ones are not.
	AccessToken string
	// RefreshToken is the one that was not used yet.
	RefreshToken string
	// CreatedAt is the instant of the login.
	CreatedAt time.Time
	// AccessExpiresAt is the last second in which AccessToken is good.
	AccessExpiresAt time.Time
	// RefreshExpiresAt is the end of the session: no rotation moves it. From
	// this instant on nothing is refreshed.
	RefreshExpiresAt time.Time

	// Rotations counts the refreshes that took place.
	Rotations int
	// Revoked sessions are over: 401 for every token of them.
	Revoked bool
	// RevokedAt is the instant at which Revoked became true; zero before.
	RevokedAt time.Time
}

// Credentials returns what a host stores of the session: its tokens, for one
// route of the Hub at this URL. The access token's expiry lies before that of
// the session, as package registry wants it.
func (s Session) Credentials(hubURL, route string) registry.Credentials {
	access := s.AccessExpiresAt
	if last := s.RefreshExpiresAt.Add(-time.Second); access.After(last) {
		access = last
	}
	return registry.Credentials{
		HubURL: hubURL, ClientAppID: s.ClientID, Workspace: route, SessionID: s.ID,
		AccessToken: registry.NewSecret(s.AccessToken), RefreshToken: registry.NewSecret(s.RefreshToken),
		AccessExpiresAt: access, RefreshExpiresAt: s.RefreshExpiresAt,
	}
}

// State says in one word where the session stands at this instant: active,
// expired or revoked.
func (s Session) State(now time.Time) string {
	switch {
	case s.Revoked:
		return "revoked"
	case !now.Before(s.RefreshExpiresAt):
		return "expired"
	}
	return "active"
}

type session struct {
	Session
	lastSeen time.Time       // when the access token was last presented; zero: never
	used     map[string]bool // refresh tokens that were used
	issued   map[string]bool // every token there was, for the log to leave out
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)

// Login makes a session at once, without a person and an authorization. The Hub need not know the
// client yet, but a session of an unknown client cannot authenticate. Login panics where a session id
// or a token is in use already, or an id is not a UUID.
func (h *Hub) Login(g Grant) Session {
	g.ClientID = cmp.Or(g.ClientID, DefaultClient)
	g.SessionID = cmp.Or(g.SessionID, randomUUID())
	g.DeviceLabel = cmp.Or(g.DeviceLabel, "Synthetic device")
	g.Principal = cmp.Or(g.Principal, DefaultAccount)
	g.OnBehalfOf = cmp.Or(g.OnBehalfOf, g.Principal)
	if !uuidForm.MatchString(g.SessionID) {
		panic(fmt.Sprintf("hubtest: session id %q is not a UUID", g.SessionID))
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions {
		if s.ID == g.SessionID || s.AccessToken == g.AccessToken || s.RefreshToken == g.RefreshToken {
			panic("hubtest: a second login with the session id or a token of session " + s.ID)
		}
	}
	return h.begin(Session{
		ID: g.SessionID, ClientID: g.ClientID, DeviceLabel: g.DeviceLabel,
		Routes: g.Routes, Tools: g.Tools,
		Principal: g.Principal, Tenant: g.Tenant, OnBehalfOf: g.OnBehalfOf, SubjectName: g.SubjectName,
		AccessToken: g.AccessToken, RefreshToken: g.RefreshToken,
	}).snapshot()
}

// begin starts a session now, with tokens of its own where it has none. The
// caller holds the lock.
func (h *Hub) begin(made Session) *session {
	now := h.now()
	made.AccessToken = cmp.Or(made.AccessToken, newToken(accessPrefix))
	made.RefreshToken = cmp.Or(made.RefreshToken, newToken(refreshPrefix))
	made.CreatedAt = seconds(now)
	made.AccessExpiresAt = seconds(now.Add(h.accessLifetime))
	made.RefreshExpiresAt = seconds(now.Add(h.sessionLifetime))
	s := &session{Session: made, used: map[string]bool{}, issued: map[string]bool{}}
	s.Session = s.snapshot()
	s.noteTokens()
	h.sessions[s.ID] = s
	h.touch()
	return s
}

// Session returns the session as it is now.
func (h *Hub) Session(id string) (Session, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[id]
	if s == nil {
		return Session{}, false
	}
	return s.snapshot(), true
}

// Sessions returns all sessions that there ever were, the oldest first.
func (h *Hub) Sessions() []Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Session, 0, len(h.sessions))
	for _, id := range slices.Sorted(maps.Keys(h.sessions)) {
		all = append(all, h.sessions[id].snapshot())
	}
	slices.SortStableFunc(all, func(a, b Session) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all
}

// EditSession lets edit change the session of that id: what it may use, its
// tokens, when they expire, whether it is revoked. It reports whether there is
// one. The id stays. Edit must not call the Hub.
func (h *Hub) EditSession(id string, edit func(*Session)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[id]
	if s == nil {
		return false
	}
	c := s.snapshot()
	edit(&c)
	c.ID = id
	switch {
	case !c.Revoked:
		c.RevokedAt = time.Time{}
	case c.RevokedAt.IsZero():
		c.RevokedAt = seconds(h.now())
	}
	s.Session = c
	s.Session = s.snapshot()
	s.noteTokens()
	h.touch()
	return true
}

// ExpireAccess makes the session's access token expire now, although the host has stored a later
// time. The refresh token stays valid.
func (h *Hub) ExpireAccess(id string) bool {
	over := h.over()
	return h.EditSession(id, func(s *Session) { s.AccessExpiresAt = over })
}

// ExpireSession makes the session expire now: neither of its tokens is valid any more. It counts as
// expired, not as revoked.
func (h *Hub) ExpireSession(id string) bool {
	over := h.over()
	return h.EditSession(id, func(s *Session) { s.AccessExpiresAt, s.RefreshExpiresAt = over, over })
}

// over is the last second that has passed.
func (h *Hub) over() time.Time { return seconds(h.now()).Add(-time.Second) }

// Revoke ends the session.
func (h *Hub) Revoke(id string) bool {
	return h.EditSession(id, func(s *Session) { s.Revoked = true })
}

// revoke ends a session at this instant; one that is over already keeps the
// instant of its end. The caller holds the lock.
func (h *Hub) revoke(s *session) {
	if !s.Revoked {
		s.Revoked, s.RevokedAt = true, seconds(h.now())
	}
	h.touch()
}

func (s *session) noteTokens() {
	for _, token := range []string{s.AccessToken, s.RefreshToken} {
		if token != "" {
			s.issued[token] = true
		}
	}
}

func (s *session) snapshot() Session {
	c := s.Session
	c.Routes, c.Tools, c.Roles = slices.Clone(c.Routes), slices.Clone(c.Tools), slices.Clone(c.Roles)
	return c
}

// good reports whether the access token is in its time at this instant.
func (s *session) good(now time.Time) bool {
	second := seconds(now)
	return !s.Revoked && !second.After(s.AccessExpiresAt) && !second.After(s.RefreshExpiresAt)
}

// noSessions reports whether the Hub runs without the ledger of sessions. The
// caller holds the lock.
func (h *Hub) noSessions() bool { return h.broken[ControlPlane] || h.broken[AgentAuth] }

// authenticate finds the live session of an access token, and says when the
// Hub cannot find out. The caller holds the lock.
func (h *Hub) authenticate(token string) (*session, *Refusal) {
	if h.noSessions() || !h.looksLike(token, accessPrefix) {
		return nil, nil
	}
	if h.broken[AuthStorage] {
		return nil, refuse(500, "internal_error")
	}
	for _, s := range h.sessions {
		if s.AccessToken != token || !s.good(h.now()) {
			continue
		}
		s.lastSeen = seconds(h.now())
		if h.broken[ClientStorage] {
			return nil, refuse(500, "internal_error")
		}
		if h.live(s) {
			return s, nil
		}
	}
	return nil, nil
}

// live reports whether a session and its client are in force. The caller holds the lock.
func (h *Hub) live(s *session) bool {
	return !s.Revoked && h.clients[s.ClientID].mayLogIn()
}

// rotate exchanges a refresh token of this client, and returns nil where the
// Hub refuses. The caller holds the lock.
func (h *Hub) rotate(clientID, refreshToken string) *session {
	now := h.now()
	for _, s := range h.sessions {
		if s.ClientID != clientID || s.RefreshToken != refreshToken && !s.used[refreshToken] {
			continue
		}
		if s.used[refreshToken] {
			h.revoke(s) // used a second time: somebody else has the token too
			return nil
		}
		if s.Revoked || !now.Before(s.RefreshExpiresAt) {
			return nil
		}
		s.used[refreshToken] = true
		s.AccessToken, s.RefreshToken = newToken(accessPrefix), newToken(refreshPrefix)
		s.AccessExpiresAt = seconds(now.Add(h.accessLifetime))
		s.noteTokens()
		s.Rotations++
		h.touch()
		return s
	}
	return nil
}

// A prefix is how tokens of one kind begin: those that the mock makes up, and
// those of the real Hub.
type prefix struct{ mock, hub string }

var (
	accessPrefix  = prefix{"synthetic-access-", "bha_"}
	refreshPrefix = prefix{"synthetic-refresh-", "bhr_"}
	codePrefix    = prefix{"synthetic-code-", "bhc_"}
)

func newToken(p prefix) string { return p.mock + randomHex(16) }

// looksLike reports whether a token begins as its kind does. A token that a
// test gave to [Hub.Login] may begin as it likes. The caller holds the lock.
func (h *Hub) looksLike(token string, p prefix) bool {
	if strings.HasPrefix(token, p.mock) || strings.HasPrefix(token, p.hub) {
		return true
	}
	for _, s := range h.sessions {
		if s.issued[token] {
			return p == accessPrefix && s.AccessToken == token || p == refreshPrefix && (s.RefreshToken == token || s.used[token])
		}
	}
	return false
}

// seconds cuts an instant to the second, as the Hub stores it.
func seconds(t time.Time) time.Time { return t.Truncate(time.Second) }
