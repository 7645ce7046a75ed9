package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// status asks the Hub about the login of one connection, or of all.
func (p *program) status(ctx context.Context, args []string) error {
	var connections []registry.Connection
	if len(args) == 1 {
		connection, err := p.choose(ctx, args[0])
		if err != nil {
			return err
		}
		connections = append(connections, connection)
	} else {
		var err error
		if connections, err = p.dir.List(ctx); err != nil {
			return err
		}
		if len(connections) == 0 && !p.options.json {
			fmt.Fprintf(p.out, "There are no connections in %s.\n", receipt.Printable(p.path))
		}
	}
	current, err := p.current(ctx)
	if err != nil {
		return err
	}
	var failed error
	for i, connection := range connections {
		if i > 0 && !p.options.json {
			fmt.Fprintln(p.out)
		}
		good, err := p.statusOf(ctx, connection, current)
		if err != nil {
			return err
		}
		if !good {
			failed = errTold
		}
		if ctx.Err() != nil {
			return errTold // what could not be asked any more was told
		}
		if err := p.out.Flush(); err != nil { // each may take a while
			return err
		}
	}
	return failed
}

// statusOf says what is known of the login of a connection; good where a host can
// use it.
func (p *program) statusOf(ctx context.Context, connection registry.Connection, current string) (good bool, err error) {
	var known agentauth.LoginStatus
	var word, label, more string
	var failure error
	if p.options.offline {
		word, label, more = login(ctx, p.dir, connection, p.consent)
	} else if known, failure = agentauth.Status(ctx, p.dir, connection.Key); failure == nil {
		word = "logged in"
	} else {
		word, label, more = wordFor(failure), "why", sentence(failure)
	}
	good = word == "logged in"
	if p.options.json {
		r := result{Connection: describe(connection, current), Login: word}
		switch {
		case failure != nil:
			r.Error = asJSON(failure)
		case !p.options.offline:
			r.Session = sessionAsJSON(known.Session)
		case label == "why":
			r.Error = map[string]string{"message": more}
		default:
			r.Until = more
		}
		return good, p.writeJSON(r)
	}
	mark := ""
	if connection.Key == current {
		mark = " (current)"
	}
	fmt.Fprintf(p.out, "%s%s: %s\n", called(connection), mark, word)
	line(p.out, "hub", connection.HubURL)
	line(p.out, "key", connection.Key)
	if more != "" {
		line(p.out, label, more)
	}
	if failure == nil && !p.options.offline {
		writeSession(p.out, known.Session)
	}
	return good, nil
}

// wordFor says in a word what a failed question about a login means.
func wordFor(err error) string {
	switch {
	case errors.Is(err, registry.ErrNotLoggedIn):
		return "no login"
	case errors.Is(err, registry.ErrDamaged):
		return "damaged"
	case errors.Is(err, feedback.CodeRouteNotAllowed):
		return "not for this workspace"
	case feedback.CategoryOf(err) == feedback.CategoryAuthorizationUnavailable:
		return "login needed"
	}
	return "not known"
}

// writeSession writes what a Hub says of a session.
func writeSession(out io.Writer, s agentauth.Session) {
	account := receipt.Printable(s.OnBehalfOf)
	if s.SubjectName != "" {
		account += " (" + receipt.Printable(s.SubjectName) + ")"
	}
	line(out, "for", account)
	line(out, "from", receipt.Printable(s.DeviceLabel))
	line(out, "spaces", strings.Join(s.Workspaces, ", "))
	line(out, "access", "until "+minute(s.AccessExpiresAt)+", renewed without a person")
	line(out, "ends", minute(s.EndsAt)+": a person has to log in again by then")
}

// sessionJSON is what a Hub says of a session.
type sessionJSON struct {
	ID              string   `json:"session_id"`
	DeviceLabel     string   `json:"device_label,omitempty"`
	OnBehalfOf      string   `json:"on_behalf_of,omitempty"`
	SubjectName     string   `json:"subject_name,omitempty"`
	Workspaces      []string `json:"workspaces"`
	CreatedAt       string   `json:"created_at"`
	AccessExpiresAt string   `json:"access_expires_at"`
	EndsAt          string   `json:"ends_at"`
}

func sessionAsJSON(s agentauth.Session) *sessionJSON {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return &sessionJSON{s.ID, s.DeviceLabel, s.OnBehalfOf, s.SubjectName, s.Workspaces, at(s.CreatedAt), at(s.AccessExpiresAt), at(s.EndsAt)}
}
