package hubtest

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"
)

const (
	authorizationLifetime = 10 * time.Minute
	codeLifetime          = 2 * time.Minute

	maxStarts    = 10 // of one client app from one address
	startsWindow = time.Minute
)

// An Authorization is a request to log in: a client app has asked for it, and a person
// approves or refuses it on the page of the business system.
type Authorization struct {
	// ID is a UUID; it is never empty.
	ID string
	// ClientID of the client app that asked.
	ClientID string
	// DeviceLabel names the device of the person.
	DeviceLabel string
	// URL is the address of the page that the person opens.
	URL string
	// RedirectURI is where the browser is sent once the person has decided.
	RedirectURI string
	// RequestedRoutes are those that the client app asked for; never empty.
	RequestedRoutes []string
	// Status of the authorization. A pending one becomes expired at ExpiresAt.
	Status AuthorizationStatus
	// CreatedAt is the instant at which it was asked for.
	CreatedAt time.Time
	// ExpiresAt is the instant from which on nobody can decide about it.
	ExpiresAt time.Time
	// CodeExpiresAt is the instant from which on the Hub refuses the code; zero before
	// the authorization was approved.
	CodeExpiresAt time.Time
	// SessionID of the session that was made with the code; empty before that.
	SessionID string
}

// An AuthorizationStatus is the status of an authorization.
type AuthorizationStatus string

// The statuses of an authorization.
const (
	// AuthorizationPending waits for the person.
	AuthorizationPending AuthorizationStatus = "pending"
	// AuthorizationApproved has a code that was not used yet.
	AuthorizationApproved AuthorizationStatus = "approved"
	// AuthorizationConsumed became a session.
	AuthorizationConsumed AuthorizationStatus = "consumed"
	// AuthorizationDenied was refused by the person.
	AuthorizationDenied AuthorizationStatus = "denied"
	// AuthorizationExpired waited for too long.
	AuthorizationExpired AuthorizationStatus = "expired"
	// AuthorizationRevoked was taken back by the business system.
	AuthorizationRevoked AuthorizationStatus = "revoked"
)

type authorization struct {
	Authorization
	number    int    // in the order of their making
	state     string // given back with the code
	challenge string // of PKCE
	code      string // empty before it was approved, and once it was revoked
	approval  approval
}

// An approval is what the business system says about the person who agreed.
type approval struct {
	principal   principal
	onBehalfOf  string
	routes      []string
	subjectName string
}

type principal struct {
	id, tenant, audience, channel string
	roles                         []string
}

// Authorizations returns all authorizations that there ever were, the oldest first.
func (h *Hub) Authorizations() []Authorization {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*authorization, 0, len(h.authorizations))
	for _, a := range h.authorizations {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *authorization) int { return a.number - b.number })
	out := make([]Authorization, len(all))
	for i, a := range all {
		out[i] = a.snapshot(h.now())
	}
	return out
}

// Authorization returns the authorization as it is now.
func (h *Hub) Authorization(id string) (Authorization, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.authorizations[id]
	if a == nil {
		return Authorization{}, false
	}
	return a.snapshot(h.now()), true
}

// ExpireAuthorization makes an authorization and its code expire now: the person can no
// longer decide, and the client app can no longer use the code. It reports whether the
// authorization exists.
func (h *Hub) ExpireAuthorization(id string) bool {
	over := h.over()
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.authorizations[id]
	if a == nil {
		return false
	}
	a.ExpiresAt = over
	if !a.CodeExpiresAt.IsZero() {
		a.CodeExpiresAt = over
	}
	h.touch()
	return true
}

func (a *authorization) snapshot(now time.Time) Authorization {
	c := a.Authorization
	c.RequestedRoutes = slices.Clone(c.RequestedRoutes)
	c.Status = a.status(now)
	return c
}

// status gives the stored status, or expired for a pending authorization whose time is
// over.
func (a *authorization) status(now time.Time) AuthorizationStatus {
	if a.Status == AuthorizationPending && !now.Before(a.ExpiresAt) {
		return AuthorizationExpired
	}
	return a.Status
}

// limited reports whether this client app has asked for too many logins from this address.
// Otherwise it counts one more. The Hub counts in whole seconds. The caller holds the lock.
func (h *Hub) limited(clientID, address string) bool {
	type place = [2]string
	now := h.now()
	oldest := seconds(now.Add(-startsWindow))
	at := place{clientID, address}
	h.starts[at] = slices.DeleteFunc(h.starts[at], func(t time.Time) bool { return t.Before(oldest) })
	if len(h.starts[at]) >= maxStarts {
		return true
	}
	h.starts[at] = append(h.starts[at], seconds(now))
	return false
}

// pending finds the pending authorization of this client app, for approving or denying it.
// The refusal says why nobody can decide about it. The caller holds the lock.
func (h *Hub) pending(clientID, id string) (*authorization, *Refusal) {
	a := h.authorizations[id]
	switch {
	case a == nil || a.ClientID != clientID:
		return nil, refuse(404, "not_found")
	case !h.now().Before(a.ExpiresAt):
		a.Status = a.status(h.now())
		return nil, refuse(410, "expired")
	case a.Status != AuthorizationPending:
		return nil, refuse(409, "invalid_state")
	}
	return a, nil
}

// approve notes that the person agreed, and returns the address for the
// browser, with a fresh code. The caller holds the lock.
func (h *Hub) approve(a *authorization, said approval) string {
	a.Status, a.approval = AuthorizationApproved, said
	a.code = newToken(codePrefix)
	a.CodeExpiresAt = seconds(h.now().Add(codeLifetime))
	h.touch()
	return callbackURL(a.RedirectURI, "code", a.code, a.state)
}

// deny notes that the person refused, and returns the address for the browser.
// The caller holds the lock.
func (h *Hub) deny(a *authorization) string {
	a.Status = AuthorizationDenied
	h.touch()
	return callbackURL(a.RedirectURI, "error", "access_denied", a.state)
}

// withdraw takes an authorization back, and ends the session that came of it.
// The caller holds the lock.
func (h *Hub) withdraw(a *authorization) {
	switch a.Status {
	case AuthorizationPending, AuthorizationApproved:
		a.Status, a.code, a.CodeExpiresAt = AuthorizationRevoked, "", time.Time{}
		h.touch()
	case AuthorizationConsumed:
		if s := h.sessions[a.SessionID]; s != nil {
			h.revoke(s)
		}
	}
}

// exchange makes a session of an approved authorization, and returns nil where
// the Hub refuses. Only a good exchange uses the code up. The caller holds the
// lock.
func (h *Hub) exchange(clientID, code, redirectURI, verifier string) *session {
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	for _, a := range h.authorizations {
		if a.Status != AuthorizationApproved || a.code != code || a.ClientID != clientID || a.RedirectURI != redirectURI ||
			a.challenge != challenge || !h.now().Before(a.CodeExpiresAt) {
			continue
		}
		said := a.approval
		s := h.begin(Session{
			ID: randomUUID(), ClientID: a.ClientID, AuthorizationID: a.ID, DeviceLabel: a.DeviceLabel,
			Routes: said.routes, Principal: said.principal.id, Tenant: said.principal.tenant,
			Audience: said.principal.audience, Channel: said.principal.channel, Roles: said.principal.roles,
			OnBehalfOf: said.onBehalfOf, SubjectName: said.subjectName,
		})
		a.Status, a.SessionID = AuthorizationConsumed, s.ID
		return s
	}
	return nil
}
