package hubtest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// This file has what the endpoints of a login read and write.

var (
	challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	verifierForm  = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
)

// An object is a JSON object as the Hub reads it: the later of two members with one name
// counts.
type object map[string]json.RawMessage

// parseObject reads a body of at most limit bytes; an empty one is an object
// without members.
func parseObject(body []byte, limit int) (object, bool) {
	if len(body) == 0 {
		return object{}, true
	}
	var o object
	if len(body) > limit || json.Unmarshal(body, &o) != nil {
		return nil, false
	}
	return o, o != nil
}

// only reports whether an object has no members but these.
func (o object) only(names ...string) bool {
	for name := range o {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

func (o object) isText(name string) bool {
	_, ok := parseText(o[name])
	return ok
}

// units is a member as text, empty for anything else.
func (o object) units(name string) utf16Text {
	t, _ := parseText(o[name])
	return t
}

func (o object) text(name string) string { return o.units(name).String() }

// routes is a member as a list of routes, nil when it is none.
func (o object) routes(name string) []string {
	var raw []json.RawMessage
	if json.Unmarshal(o[name], &raw) != nil || len(raw) < 1 || len(raw) > 64 {
		return nil
	}
	var routes []string
	for _, r := range raw {
		t, _ := parseText(r)
		route := trim(t.String())
		if !routeForm.MatchString(route) || route == "auto" || slices.Contains(routes, route) {
			return nil
		}
		routes = append(routes, route)
	}
	return routes
}

// parsePrincipal reads who agreed to a login.
func parsePrincipal(raw json.RawMessage) (p principal, ok bool) {
	in, ok := parseObject(raw, len(raw))
	if len(raw) == 0 || !ok || !in.only("id", "tenant", "roles", "audience", "channel") {
		return p, false
	}
	p = principal{id: trim(in.text("id")), tenant: trim(in.text("tenant")), audience: trim(in.text("audience")), channel: trim(in.text("channel"))}
	var roles []json.RawMessage
	_ = json.Unmarshal(in["roles"], &roles) // anything but a list counts as no roles
	for _, r := range roles {
		t, _ := parseText(r)
		role := trim(t.String())
		if role == "" || length(role) > 64 {
			return p, false
		}
		if !slices.Contains(p.roles, role) {
			p.roles = append(p.roles, role)
		}
	}
	return p, p.id != "" && length(p.id) <= 128 && length(p.tenant) <= 128 && length(p.audience) <= 64 && length(p.channel) <= 128 && len(roles) <= 64
}

// parseDisplay reads the name to show for an account: empty for none.
func parseDisplay(raw json.RawMessage) (name string, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", true
	}
	in, ok := parseObject(raw, len(raw))
	if !ok || len(in) != 1 || !in.isText("name") {
		return "", false
	}
	units := in.units("name")
	name = trim(units.String())
	return name, name != "" && length(name) <= 120 && slices.Equal(units, text(units.String())) && !strings.ContainsFunc(units.String(), isControl)
}

func isControl(r rune) bool { return unicode.Is(unicode.Cc, r) || r == '\u2028' || r == '\u2029' }

// trim removes from both ends what the Hub counts as space.
func trim(s string) string { return strings.TrimFunc(s, isSpace) }

func isSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', '\ufeff', '\u2028', '\u2029':
		return true
	}
	return unicode.Is(unicode.Zs, r)
}

// instant writes an instant as the Hub does.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// optional is an instant, or nothing for the zero one.
func optional(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return instant(t)
}

// list gives an empty list for nil, which would be null in JSON.
func list(items []string) []string {
	if items == nil {
		return []string{}
	}
	return items
}

// The wire forms, members in the order in which the Hub writes them.

type displayJSON struct {
	SubjectDisplay       *nameJSON `json:"subject_display"`
	SubjectDisplayStatus string    `json:"subject_display_status"`
}

type nameJSON struct {
	Name string `json:"name"`
}

func display(name string) displayJSON {
	if name == "" {
		return displayJSON{nil, "missing"}
	}
	return displayJSON{&nameJSON{name}, "provided"}
}

type startJSON struct {
	AuthorizationID  string `json:"authorization_id"`
	AuthorizationURL string `json:"authorization_url"`
	ExpiresIn        int64  `json:"expires_in"`
}

type tokenJSON struct {
	TokenType        string `json:"token_type"`
	AccessToken      string `json:"access_token"`
	ExpiresIn        int64  `json:"expires_in"`
	RefreshToken     string `json:"refresh_token"`
	RefreshExpiresIn int64  `json:"refresh_expires_in"`
	SessionID        string `json:"session_id"`
	ClientAppID      string `json:"client_app_id"`
	displayJSON
}

type sessionJSON struct {
	SessionID   string `json:"session_id"`
	ClientAppID string `json:"client_app_id"`
	DeviceLabel string `json:"device_label"`
	displayJSON
	Principal        storedPrincipalJSON `json:"principal"`
	OnBehalfOf       string              `json:"on_behalf_of"`
	AllowedRoutes    []string            `json:"allowed_routes"`
	CreatedAt        string              `json:"created_at"`
	ExpiresAt        string              `json:"expires_at"`
	RefreshExpiresAt string              `json:"refresh_expires_at"`
}

// storedPrincipalJSON is a principal as the Hub's database gives it back, with
// members in an order of its own.
type storedPrincipalJSON struct {
	ID       string   `json:"id"`
	Roles    []string `json:"roles"`
	Tenant   string   `json:"tenant,omitempty"`
	Channel  string   `json:"channel,omitempty"`
	Audience string   `json:"audience,omitempty"`
}

type principalJSON struct {
	ID       string   `json:"id"`
	Tenant   string   `json:"tenant,omitempty"`
	Roles    []string `json:"roles"`
	Audience string   `json:"audience,omitempty"`
	Channel  string   `json:"channel,omitempty"`
}

type revokedJSON struct {
	Revoked bool `json:"revoked"`
}

type redirectJSON struct {
	RedirectURI string `json:"redirect_uri"`
}

type withdrawnJSON struct {
	AuthorizationID string `json:"authorization_id"`
	Revoked         bool   `json:"revoked"`
	SessionID       string `json:"session_id,omitempty"`
}

type contextJSON struct {
	AuthorizationID string              `json:"authorization_id"`
	Client          clientJSON          `json:"client"`
	Device          deviceJSON          `json:"device"`
	RequestedRoutes []string            `json:"requested_routes"`
	Status          AuthorizationStatus `json:"status"`
	ExpiresAt       string              `json:"expires_at"`
}

type clientJSON struct {
	AppID string `json:"app_id"`
	Name  string `json:"name"`
}

type deviceJSON struct {
	Name string `json:"name"`
}

type consumedJSON struct {
	contextJSON
	Session *linkedJSON `json:"session"`
}

type linkedJSON struct {
	SessionID string `json:"session_id"`
	State     string `json:"state"`
	ExpiresAt string `json:"expires_at"`
	displayJSON
	RevokedAt string `json:"revoked_at,omitempty"`
}

type businessSessionJSON struct {
	SessionID       string `json:"session_id"`
	AuthorizationID string `json:"authorization_id,omitempty"`
	ClientAppID     string `json:"client_app_id"`
	DeviceLabel     string `json:"device_label"`
	displayJSON
	Principal     principalJSON `json:"principal"`
	OnBehalfOf    string        `json:"on_behalf_of"`
	AllowedRoutes []string      `json:"allowed_routes"`
	State         string        `json:"state"`
	CreatedAt     string        `json:"created_at"`
	ExpiresAt     string        `json:"expires_at"`
	LastSeenAt    string        `json:"last_seen_at,omitempty"`
	RevokedAt     string        `json:"revoked_at,omitempty"`
}
