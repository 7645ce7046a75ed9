package hubtest

import (
	"fmt"
	"regexp"
	"slices"
	"time"
)

// A Grant is what a login asks for. Every zero field has a default.
type Grant struct {
	// ClientID is [DefaultClient] when empty.
	ClientID string
	// SessionID is a new UUID when empty.
	SessionID string
	// Routes and Tools that the session may use; nil allows every one.
	Routes, Tools []string
	// Principal, Tenant and OnBehalfOf say for whom the session acts.
	Principal, Tenant, OnBehalfOf string
	// AccessToken and RefreshToken are made up when empty. What the Hub makes
	// up says "synthetic" and cannot be taken for a real secret.
	AccessToken, RefreshToken string
}

// A Session is what a login gave a host, as the Hub knows it now.
type Session struct {
	ID, ClientID                  string
	Routes, Tools                 []string
	Principal, Tenant, OnBehalfOf string

	AccessToken, RefreshToken         string
	AccessExpiresAt, RefreshExpiresAt time.Time

	// Rotations counts the refreshes that took place.
	Rotations int
	// Revoked sessions are over: 401 for every token of them.
	Revoked bool
}

type session struct {
	Session
	spent  map[string]bool // refresh tokens that were used
	issued map[string]bool // every token there was, for the log to leave out
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)

// Login makes a session, as a login done elsewhere does. The Hub need not know
// the client yet, but a session of an unknown client cannot authenticate. A
// session id or a token that is in use already, or an id that is not a UUID,
// is a mistake of the test, and Login panics.
func (h *Hub) Login(g Grant) Session {
	if g.ClientID == "" {
		g.ClientID = DefaultClient
	}
	if g.SessionID == "" {
		g.SessionID = randomUUID()
	}
	if g.AccessToken == "" {
		g.AccessToken = newToken("access")
	}
	if g.RefreshToken == "" {
		g.RefreshToken = newToken("refresh")
	}
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
	now := h.now()
	s := &session{
		Session: Session{
			ID: g.SessionID, ClientID: g.ClientID,
			Routes: slices.Clone(g.Routes), Tools: slices.Clone(g.Tools),
			Principal: g.Principal, Tenant: g.Tenant, OnBehalfOf: g.OnBehalfOf,
			AccessToken: g.AccessToken, RefreshToken: g.RefreshToken,
			AccessExpiresAt: now.Add(h.accessLifetime), RefreshExpiresAt: now.Add(h.refreshLifetime),
		},
		spent:  map[string]bool{},
		issued: map[string]bool{},
	}
	s.noteTokens()
	h.sessions[s.ID] = s
	h.touch()
	return s.snapshot()
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
	s.Session = c
	s.Session = s.snapshot()
	s.noteTokens()
	h.touch()
	return true
}

// ExpireAccess ends the life of the session's access token now, whatever the
// host believes about it. The refresh token stays good.
func (h *Hub) ExpireAccess(id string) bool {
	return h.EditSession(id, func(s *Session) { s.AccessExpiresAt = h.now() })
}

// Revoke ends the session.
func (h *Hub) Revoke(id string) bool {
	return h.EditSession(id, func(s *Session) { s.Revoked = true })
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
	c.Routes, c.Tools = slices.Clone(c.Routes), slices.Clone(c.Tools)
	return c
}

// authenticate finds the live session of an access token. The caller holds the lock.
func (h *Hub) authenticate(token string) *session {
	if h.broken[ControlPlane] || h.broken[AgentAuth] {
		return nil
	}
	for _, s := range h.sessions {
		if s.AccessToken == token && h.live(s) && h.now().Before(s.AccessExpiresAt) {
			return s
		}
	}
	return nil
}

// live reports whether a session and its client are in force. The caller holds the lock.
func (h *Hub) live(s *session) bool {
	client := h.clients[s.ClientID]
	return !s.Revoked && client != nil && !client.Disabled && !client.NoAuthorizeURL
}

// rotate exchanges a refresh token. The caller holds the lock.
func (h *Hub) rotate(clientID, refreshToken string) (*session, *Refusal) {
	invalid := refuse(401, "invalid_grant")
	if h.broken[ControlPlane] || h.broken[AgentAuth] {
		return nil, refuse(401, "unauthorized")
	}
	now := h.now()
	for _, s := range h.sessions {
		switch {
		case s.spent[refreshToken]:
			// The second use: somebody else has it too.
			s.Revoked = true
			h.touch()
			return nil, invalid
		case s.RefreshToken != refreshToken:
			continue
		case s.ClientID != clientID || !h.live(s) || !now.Before(s.RefreshExpiresAt):
			return nil, invalid
		}
		s.spent[refreshToken] = true
		s.AccessToken, s.RefreshToken = newToken("access"), newToken("refresh")
		s.AccessExpiresAt, s.RefreshExpiresAt = now.Add(h.accessLifetime), now.Add(h.refreshLifetime)
		s.noteTokens()
		s.Rotations++
		h.touch()
		return s, nil
	}
	return nil, invalid
}

func newToken(kind string) string {
	return "synthetic-" + kind + "-" + randomHex(16)
}
