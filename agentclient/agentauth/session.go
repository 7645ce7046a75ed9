package agentauth

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

// answerLimit is how many bytes an answer may have, except the one about a session.
const answerLimit = 64 << 10

// sessionLimit is how many bytes the answer about a session may have.
const sessionLimit = 1 << 20

// Session is what a Hub knows of an agent session: who logged in, for what, and
// until when. It holds no secret. Its texts come from the business system and
// are untrusted: print them through receipt.Printable.
type Session struct {
	// ID is the session, a UUID.
	ID string
	// ClientAppID is the client app that logged in.
	ClientAppID string
	// DeviceLabel is the device label with which the login was begun.
	DeviceLabel string
	// Principal is the account that approved the login.
	Principal Principal
	// OnBehalfOf identifies the person or account for whom operations of this session
	// are carried out, in the words of the business system; "" where the Hub names
	// none.
	OnBehalfOf string
	// SubjectName is a display name for OnBehalfOf; "" where the business system gave
	// none.
	SubjectName string
	// Workspaces are the workspaces that the session may use, in the Hub's order; at
	// least one.
	Workspaces []string
	// CreatedAt is when the login was made. Like the other times here it is by the
	// Hub's clock.
	CreatedAt time.Time
	// AccessExpiresAt is when the present access token expires. A refresh replaces it
	// without a person.
	AccessExpiresAt time.Time
	// EndsAt is when the session ends for good, 30 days after the login. No refresh
	// changes that. After it, operations of the session cannot be inspected any more.
	EndsAt time.Time
}

// Principal is an account of a business system. Absent members are empty.
type Principal struct {
	// ID names the account within its tenant.
	ID string
	// Tenant is the customer of the business system that the account belongs to.
	Tenant string
	// Roles are what the account may be there.
	Roles []string
	// Audience and Channel are groups into which the business system sorts accounts.
	Audience, Channel string
}

// session reads what the Hub knows of a session. It returns an error where that is not the
// session with this ID, or is not for this client and its workspace.
func (c *Client) session(ctx context.Context, operation feedback.Operation, access, id string) (Session, error) {
	answer, err := c.ask(ctx, operation, question{
		step: reading, method: http.MethodGet, path: boundary.SessionPath,
		bearer: access, limit: sessionLimit, again: askAgain,
	})
	if err != nil {
		return Session{}, err
	}
	session, ok := parseSession(answer.Body)
	f := failure{operation: operation, step: reading, status: answer.Status}
	switch {
	case !ok:
		f.event = badAnswer
	case session.ID != id || session.ClientAppID != c.config.ClientAppID:
		f.event = otherSession
	case !slices.Contains(session.Workspaces, c.config.Workspace):
		f.event = noWorkspace
	default:
		return session, nil
	}
	return Session{}, f.build()
}

// parseSession reads the answer about a session. It reports false for a body
// that is not one.
func parseSession(body []byte) (Session, bool) {
	var s Session
	good := true
	need := func(ok bool) { good = good && ok }
	err := strictjson.Object(body, func(name []byte, d *jsontext.Decoder) (err error) {
		var ok bool
		switch string(name) {
		case "session_id":
			s.ID, ok, err = strictjson.String(d)
		case "client_app_id":
			s.ClientAppID, ok, err = strictjson.String(d)
		case "device_label":
			s.DeviceLabel, ok, err = optionalText(d)
		case "on_behalf_of":
			s.OnBehalfOf, ok, err = optionalText(d)
		case "allowed_routes":
			s.Workspaces, ok, err = texts(d)
		case "created_at":
			s.CreatedAt, ok, err = instant(d)
		case "expires_at":
			s.AccessExpiresAt, ok, err = instant(d)
		case "refresh_expires_at":
			s.EndsAt, ok, err = instant(d)
		case "subject_display":
			ok, err = optionalObject(d, func(name string, d *jsontext.Decoder) (ok bool, err error) {
				ok = true
				if name == "name" {
					s.SubjectName, ok, err = optionalText(d)
				}
				return ok, err
			})
		case "principal":
			ok, err = optionalObject(d, s.Principal.member)
		default:
			ok = true
		}
		need(ok)
		return err
	})
	need(identifier.UUID(s.ID))
	need(identifier.ClientAppID(s.ClientAppID))
	need(len(s.Workspaces) > 0)
	for _, workspace := range s.Workspaces {
		need(identifier.Workspace(workspace))
	}
	need(!s.CreatedAt.IsZero() && !s.AccessExpiresAt.IsZero() && !s.EndsAt.IsZero())
	if err != nil || !good {
		return Session{}, false
	}
	return s, true
}

func (p *Principal) member(name string, d *jsontext.Decoder) (ok bool, err error) {
	switch name {
	case "id":
		p.ID, ok, err = optionalText(d)
	case "tenant":
		p.Tenant, ok, err = optionalText(d)
	case "roles":
		p.Roles, ok, err = texts(d)
	case "audience":
		p.Audience, ok, err = optionalText(d)
	case "channel":
		p.Channel, ok, err = optionalText(d)
	default:
		ok = true
	}
	return ok, err
}

// optionalText reads a string, or null as "".
func optionalText(d *jsontext.Decoder) (text string, ok bool, err error) {
	if d.PeekKind() == jsontext.KindNull {
		return "", true, d.SkipValue()
	}
	return strictjson.String(d)
}

// optionalObject reads the members of an object, or null.
func optionalObject(d *jsontext.Decoder, member func(name string, d *jsontext.Decoder) (bool, error)) (ok bool, err error) {
	switch d.PeekKind() {
	case jsontext.KindNull:
		return true, d.SkipValue()
	case jsontext.KindBeginObject:
		ok = true
		err = strictjson.Members(d, func(name []byte, d *jsontext.Decoder) error {
			good, err := member(string(name), d)
			ok = ok && good
			return err
		})
		return ok, err
	}
	return false, d.SkipValue()
}

// texts reads an array of strings; never nil where ok.
func texts(d *jsontext.Decoder) (list []string, ok bool, err error) {
	if d.PeekKind() != jsontext.KindBeginArray {
		return nil, false, d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false, err
	}
	list, ok = []string{}, true
	for d.PeekKind() != jsontext.KindEndArray {
		text, isText, err := strictjson.String(d)
		if err != nil {
			return nil, false, err
		}
		ok = ok && isText
		list = append(list, text)
	}
	_, err = d.ReadToken()
	return list, ok, err
}

// instant reads a time as a Hub writes it.
func instant(d *jsontext.Decoder) (t time.Time, ok bool, err error) {
	text, ok, err := strictjson.String(d)
	if err != nil || !ok || len(text) < len("2006-01-02T15:04:05Z") || len(text) > len("2006-01-02T15:04:05.000Z") || text[len(text)-1] != 'Z' {
		return time.Time{}, false, err
	}
	t, parseErr := time.Parse(time.RFC3339, text)
	return t, parseErr == nil, nil
}
