package hubtest

import (
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The endpoints of logging in, of sessions, and of the business system.
const (
	agentAuth  = "/agent-auth/"
	startPath  = agentAuth + "v1/authorizations"
	tokenPath  = agentAuth + "v1/token"
	sessionURL = agentAuth + "v1/session"
	revokePath = agentAuth + "v1/revoke"

	maxBusinessBody = 4096 // of the calls that need next to none
)

var (
	authorizationPath = regexp.MustCompile(`^(?i)` + startPath + `/([0-9a-f-]{36})(?:/(approve|deny|revoke))?$`)
	sessionPath       = regexp.MustCompile(`^(?i)` + sessionURL + `s/([0-9a-f-]{36})/(revoke|subject-display)$`)
)

// loginKind tells the kind of a request below /agent-auth.
func loginKind(method, path string, body []byte) RequestKind {
	post, get := method == http.MethodPost, method == http.MethodGet
	switch {
	case post && path == startPath:
		return StartRequest
	case post && path == tokenPath:
		if in, ok := parseObject(body, maxRequestBody); ok && in.text("grant_type") == "authorization_code" {
			return ExchangeRequest
		}
		return RefreshRequest
	case get && path == sessionURL:
		return SessionRequest
	case post && path == revokePath:
		return RevokeRequest
	case authorizationPath.MatchString(path), sessionPath.MatchString(path):
		return ConsentRequest
	}
	return OtherRequest
}

// login answers a request below /agent-auth. The caller holds the lock.
func (h *Hub) login(r *http.Request, path string, body []byte) answer {
	var a answer
	post := r.Method == http.MethodPost
	authorization, session := authorizationPath.FindStringSubmatch(path), sessionPath.FindStringSubmatch(path)
	switch {
	case post && path == startPath:
		a = h.start(r, body)
	case authorization != nil:
		a = h.decideFor(r, authorization[1], authorization[2], body)
	case post && path == tokenPath:
		a = h.token(body)
	case r.Method == http.MethodGet && path == sessionURL:
		a = h.whose(r)
	case post && path == revokePath:
		a = h.logOut(r, body)
	case session != nil && strings.EqualFold(session[2], "subject-display"):
		a = h.setDisplay(r, session[1], body)
	case session != nil && post:
		a = h.endSession(r, session[1])
	default:
		a = bare(404, "not_found")
	}
	if path == tokenPath {
		a.header["Pragma"] = []string{"no-cache"}
	}
	return a
}

// The refusals of these endpoints carry a code and nothing else.

func invalidRequest() answer { return bare(400, "invalid_request") }
func invalidGrant() answer   { return bare(400, "invalid_grant") }
func unauthorized() answer   { return bare(401, "unauthorized") }
func notFound() answer       { return bare(404, "not_found") }
func noLedger() answer       { return bare(503, "agent_auth_unavailable") }

// storageFails is the answer while storage is broken, where code is what the
// endpoint says about it: an internal error when empty.
func storageFails(code string) answer {
	if code == "" {
		return refuse(500, "internal_error").answer()
	}
	return bare(503, code)
}

// start answers a client app that asks for an authorization.
func (h *Hub) start(r *http.Request, body []byte) answer {
	if h.noSessions() {
		return noLedger()
	}
	in, ok := parseObject(body, maxRequestBody)
	if !ok || !in.only("client_app_id", "redirect_uri", "state", "requested_routes", "device_label", "code_challenge", "code_challenge_method") {
		return invalidRequest()
	}
	clientID, redirectURI, state := trim(in.text("client_app_id")), in.text("redirect_uri"), in.units("state")
	routes, device, challenge := in.routes("requested_routes"), trim(in.text("device_label")), in.text("code_challenge")
	if !routeForm.MatchString(clientID) || !isRedirectURI(redirectURI) || len(state) < 8 || len(state) > 512 ||
		routes == nil || device == "" || length(device) > 128 || !challengeForm.MatchString(challenge) || in.text("code_challenge_method") != "S256" {
		return invalidRequest()
	}
	if h.broken[ClientStorage] {
		return storageFails("")
	}
	client := h.clients[clientID]
	if client == nil || client.Disabled || client.authorizeURL() == "" || slices.ContainsFunc(routes, func(route string) bool { return !allows(client.Routes, route) }) {
		return bare(400, "invalid_client")
	}
	if h.limited(clientID, addressOf(r)) {
		return bare(429, "rate_limited")
	}
	id := randomUUID()
	page := pageURL(client.authorizeURL(), id)
	switch {
	case page == "":
		return bare(503, "agent_authorize_url_invalid")
	case h.broken[AuthStorage]:
		return storageFails("")
	}
	now := h.now()
	h.authorizations[id] = &authorization{
		Authorization: Authorization{
			ID: id, ClientID: clientID, DeviceLabel: device, URL: page, RedirectURI: redirectURI, RequestedRoutes: routes,
			Status: AuthorizationPending, CreatedAt: seconds(now), ExpiresAt: seconds(now.Add(authorizationLifetime)),
		},
		number: len(h.authorizations), state: state.String(), challenge: challenge,
	}
	h.touch()
	return jsonAnswer(http.StatusCreated, startJSON{id, page, int64(authorizationLifetime / time.Second)})
}

// addressOf is the address that a request came from, as the Hub sees it behind
// a proxy.
func addressOf(r *http.Request) string {
	first, _, _ := strings.Cut(strings.Join(r.Header.Values("X-Forwarded-For"), ", "), ",")
	if first == "" {
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			return host
		}
		return r.RemoteAddr
	}
	return trim(first)
}

// token answers the token endpoint.
func (h *Hub) token(body []byte) answer {
	if h.noSessions() {
		return noLedger()
	}
	in, ok := parseObject(body, maxRequestBody)
	if !ok || !in.isText("grant_type") {
		return invalidRequest()
	}
	clientID := trim(in.text("client_app_id"))
	if !routeForm.MatchString(clientID) {
		return invalidRequest()
	}
	if h.broken[ClientStorage] {
		return storageFails("")
	}
	if !h.clients[clientID].mayLogIn() {
		return invalidGrant()
	}
	var s *session
	switch in.text("grant_type") {
	case "authorization_code":
		code, redirectURI, verifier := in.text("code"), in.text("redirect_uri"), in.text("code_verifier")
		switch {
		case !in.only("grant_type", "client_app_id", "code", "redirect_uri", "code_verifier"):
			return invalidRequest()
		case !h.looksLike(code, codePrefix), !isRedirectURI(redirectURI), !verifierForm.MatchString(verifier):
			return invalidGrant()
		case h.broken[AuthStorage]:
			return storageFails("")
		}
		s = h.exchange(clientID, code, redirectURI, verifier)
	case "refresh_token":
		current := in.text("refresh_token")
		switch {
		case !in.only("grant_type", "client_app_id", "refresh_token"):
			return invalidRequest()
		case !h.looksLike(current, refreshPrefix):
			return invalidGrant()
		case h.broken[AuthStorage]:
			return storageFails("")
		}
		s = h.rotate(clientID, current)
	default:
		return bare(400, "unsupported_grant_type")
	}
	if s == nil {
		return invalidGrant()
	}
	a := jsonAnswer(http.StatusOK, tokenJSON{
		TokenType:        "Bearer",
		AccessToken:      s.AccessToken,
		ExpiresIn:        int64(h.accessLifetime / time.Second),
		RefreshToken:     s.RefreshToken,
		RefreshExpiresIn: max(0, int64(s.RefreshExpiresAt.Sub(h.now())/time.Second)),
		SessionID:        s.ID,
		ClientAppID:      s.ClientID,
		displayJSON:      display(s.SubjectName),
	})
	a.sessionID = s.ID
	return a
}

// whose answers a client app that asks about its session.
func (h *Hub) whose(r *http.Request) answer {
	s, refusal := h.authenticate(bearer(r))
	switch {
	case refusal != nil:
		return refusal.answer()
	case s == nil:
		return unauthorized()
	}
	a := jsonAnswer(http.StatusOK, sessionJSON{
		SessionID: s.ID, ClientAppID: s.ClientID, DeviceLabel: s.DeviceLabel, displayJSON: display(s.SubjectName),
		Principal: storedPrincipalJSON{
			ID: s.Principal, Roles: list(s.Roles), Tenant: s.Tenant, Channel: s.Channel, Audience: s.Audience,
		},
		OnBehalfOf: s.OnBehalfOf, AllowedRoutes: h.routesOf(s),
		CreatedAt: instant(s.CreatedAt), ExpiresAt: instant(s.AccessExpiresAt), RefreshExpiresAt: instant(s.RefreshExpiresAt),
	})
	a.sessionID = s.ID
	return a
}

// logOut ends the session of an access token or a refresh token. The answer is
// the same for a token that is no session's.
func (h *Hub) logOut(r *http.Request, body []byte) answer {
	if h.noSessions() {
		return noLedger()
	}
	var ends func(*session) bool
	if token := bearer(r); token != "" {
		if !h.looksLike(token, accessPrefix) {
			return unauthorized()
		}
		ends = func(s *session) bool { return s.AccessToken == token }
	} else {
		in, ok := parseObject(body, maxRequestBody)
		clientID, token := trim(in.text("client_app_id")), in.text("refresh_token")
		if !ok || !in.only("client_app_id", "refresh_token") || !routeForm.MatchString(clientID) || !h.looksLike(token, refreshPrefix) {
			return invalidRequest()
		}
		ends = func(s *session) bool { return s.ClientID == clientID && (s.RefreshToken == token || s.used[token]) }
	}
	if h.broken[AuthStorage] {
		return storageFails("")
	}
	a := jsonAnswer(http.StatusOK, revokedJSON{Revoked: true})
	for _, s := range h.sessions {
		if ends(s) {
			h.revoke(s)
			a.sessionID = s.ID
		}
	}
	return a
}

// businessClient finds the client app whose business system sent a request, or
// says why it is turned away; fails is what the endpoint says when storage does.
func (h *Hub) businessClient(r *http.Request, fails string) (clientID string, turnedAway *answer) {
	token := bearer(r)
	switch {
	case h.noSessions():
		return "", new(noLedger())
	case len(token) < 16:
		return "", new(unauthorized())
	case h.broken[ClientStorage]:
		return "", new(storageFails(fails))
	}
	for id, c := range h.clients {
		if h.clientToken(id) == token && !c.Disabled {
			return id, nil
		}
	}
	return "", new(unauthorized())
}

const lifecycleFails = "agent_auth_lifecycle_unavailable"

// decideFor answers the business system about one authorization.
func (h *Hub) decideFor(r *http.Request, id, action string, body []byte) answer {
	if !uuidForm.MatchString(id) {
		return notFound()
	}
	id = strings.ToLower(id)
	get, post := r.Method == http.MethodGet, r.Method == http.MethodPost
	switch {
	case get && action == "":
		return h.context(r, id)
	case post && action == "approve":
		return h.approveFor(r, id, body)
	case post && action == "deny":
		return h.denyFor(r, id, body)
	case post && action == "revoke":
		return h.withdrawFor(r, id, body)
	}
	return bare(405, "method_not_allowed")
}

// context tells the page of a business system what it has to show.
func (h *Hub) context(r *http.Request, id string) answer {
	clientID, turnedAway := h.businessClient(r, lifecycleFails)
	if turnedAway != nil {
		return *turnedAway
	}
	if h.broken[AuthStorage] {
		return storageFails(lifecycleFails)
	}
	a := h.authorizations[id]
	if a == nil || a.ClientID != clientID {
		return notFound()
	}
	out := contextJSON{
		AuthorizationID: a.ID, Client: clientJSON{clientID, h.clients[clientID].name(clientID)}, Device: deviceJSON{a.DeviceLabel},
		RequestedRoutes: a.RequestedRoutes, Status: a.status(h.now()), ExpiresAt: instant(a.ExpiresAt),
	}
	if a.Status != AuthorizationConsumed {
		return jsonAnswer(http.StatusOK, out)
	}
	var linked *linkedJSON
	if s := h.sessions[a.SessionID]; s != nil {
		linked = &linkedJSON{s.ID, s.State(h.now()), instant(s.RefreshExpiresAt), display(s.SubjectName), optional(s.RevokedAt)}
	}
	return jsonAnswer(http.StatusOK, consumedJSON{out, linked})
}

func (h *Hub) approveFor(r *http.Request, id string, body []byte) answer {
	clientID, turnedAway := h.businessClient(r, "")
	if turnedAway != nil {
		return *turnedAway
	}
	in, ok := parseObject(body, maxRequestBody)
	if !ok || !in.only("principal", "on_behalf_of", "allowed_routes", "subject_display") {
		return invalidRequest()
	}
	name, named := parseDisplay(in["subject_display"])
	person, known := parsePrincipal(in["principal"])
	said := approval{principal: person, onBehalfOf: trim(in.text("on_behalf_of")), routes: in.routes("allowed_routes"), subjectName: name}
	if !named || !known || said.onBehalfOf == "" || length(said.onBehalfOf) > 191 || said.routes == nil {
		return invalidRequest()
	}
	if h.broken[AuthStorage] {
		return storageFails("")
	}
	a := h.authorizations[id]
	if a == nil || a.ClientID != clientID {
		return notFound()
	}
	for _, route := range said.routes {
		if !slices.Contains(a.RequestedRoutes, route) || !allows(h.clients[clientID].Routes, route) {
			return bare(403, "route_not_allowed")
		}
	}
	a, refusal := h.pending(clientID, id)
	if refusal != nil {
		return bare(refusal.Status, refusal.Code)
	}
	return jsonAnswer(http.StatusOK, redirectJSON{h.approve(a, said)})
}

func (h *Hub) denyFor(r *http.Request, id string, body []byte) answer {
	clientID, turnedAway := h.businessClient(r, "")
	if turnedAway != nil {
		return *turnedAway
	}
	// A body that is no object says nothing, and is no reason to keep a person
	// from refusing.
	if in, ok := parseObject(body, maxRequestBody); ok && !in.only() {
		return invalidRequest()
	}
	if h.broken[AuthStorage] {
		return storageFails("")
	}
	a, refusal := h.pending(clientID, id)
	if refusal != nil {
		return bare(refusal.Status, refusal.Code)
	}
	return jsonAnswer(http.StatusOK, redirectJSON{h.deny(a)})
}

func (h *Hub) withdrawFor(r *http.Request, id string, body []byte) answer {
	clientID, turnedAway := h.businessClient(r, lifecycleFails)
	if turnedAway != nil {
		return *turnedAway
	}
	if in, ok := parseObject(body, maxBusinessBody); !ok || !in.only() {
		return invalidRequest()
	}
	if h.broken[AuthStorage] {
		return storageFails(lifecycleFails)
	}
	a := h.authorizations[id]
	if a == nil || a.ClientID != clientID {
		return notFound()
	}
	h.withdraw(a)
	return jsonAnswer(http.StatusOK, withdrawnJSON{a.ID, true, a.SessionID})
}

func (h *Hub) endSession(r *http.Request, id string) answer {
	clientID, turnedAway := h.businessClient(r, "")
	switch {
	case turnedAway != nil:
		return *turnedAway
	case !uuidForm.MatchString(id):
		return notFound()
	case h.broken[AuthStorage]:
		return storageFails("")
	}
	s := h.sessionOf(clientID, id)
	if s == nil {
		return notFound()
	}
	h.revoke(s)
	return jsonAnswer(http.StatusOK, revokedJSON{Revoked: true})
}

// setDisplay changes the name that is shown for the account of a session.
func (h *Hub) setDisplay(r *http.Request, id string, body []byte) answer {
	const fails = "subject_display_unavailable"
	if !uuidForm.MatchString(id) {
		return notFound()
	}
	if r.Method != http.MethodPut {
		return bare(405, "method_not_allowed")
	}
	clientID, turnedAway := h.businessClient(r, "")
	if turnedAway != nil {
		return *turnedAway
	}
	in, ok := parseObject(body, maxBusinessBody)
	name, named := parseDisplay(in["subject_display"])
	switch _, there := in["subject_display"]; {
	case !ok || !there || !in.only("subject_display") || !named:
		return invalidRequest()
	case h.broken[AuthStorage]:
		return storageFails(fails)
	}
	s := h.sessionOf(clientID, id)
	switch {
	case s == nil:
		return notFound()
	case s.State(h.now()) != "active":
		return bare(409, "session_inactive")
	}
	s.SubjectName = name
	h.touch()
	return jsonAnswer(http.StatusOK, businessSessionJSON{
		SessionID: s.ID, AuthorizationID: s.AuthorizationID, ClientAppID: s.ClientID, DeviceLabel: s.DeviceLabel, displayJSON: display(name),
		Principal:  principalJSON{ID: s.Principal, Tenant: s.Tenant, Roles: list(s.Roles), Audience: s.Audience, Channel: s.Channel},
		OnBehalfOf: s.OnBehalfOf, AllowedRoutes: h.routesOf(s), State: s.State(h.now()),
		CreatedAt: instant(s.CreatedAt), ExpiresAt: instant(s.RefreshExpiresAt), LastSeenAt: optional(s.lastSeen), RevokedAt: optional(s.RevokedAt),
	})
}

// sessionOf finds a session of a client app, whatever the case of its id.
func (h *Hub) sessionOf(clientID, id string) *session {
	for _, s := range h.sessions {
		if s.ClientID == clientID && strings.EqualFold(s.ID, id) {
			return s
		}
	}
	return nil
}

// routesOf lists what a session may use; one that may use all names those that
// there are.
func (h *Hub) routesOf(s *session) []string {
	if s.Routes != nil {
		return s.Routes
	}
	all := []string{}
	for route := range h.routes {
		if client := h.clients[s.ClientID]; client == nil || allows(client.Routes, route) {
			all = append(all, route)
		}
	}
	slices.Sort(all)
	return all
}
