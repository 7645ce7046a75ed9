package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// The columns of the table.
const (
	aliasColumn     = 24
	workspaceColumn = 20
	clientColumn    = 20
	gap             = 2
)

// list says what is registered, and whether it is logged in. It asks no Hub.
func (p *program) list(ctx context.Context, _ []string) error {
	out := p.out
	connections, err := p.dir.List(ctx)
	if err != nil {
		return err
	}
	current, err := p.current(ctx)
	if err != nil {
		return err
	}
	if p.options.json {
		for _, c := range connections {
			word, label, more := login(ctx, p.dir, c, p.consent)
			r := result{Connection: describe(c, current), Login: word}
			if label == "why" {
				r.Error = map[string]string{"message": more}
			} else {
				r.Until = more
			}
			if err := p.writeJSON(r); err != nil {
				return err
			}
		}
		return nil
	}
	path := receipt.Printable(p.path)
	if len(connections) == 0 {
		fmt.Fprintf(out, "There are no connections in %s.\n", path)
		return nil
	}
	fmt.Fprintf(out, "Connections in %s\n\n", path)
	row(out, " ", "ALIAS", "WORKSPACE", "CLIENT APP", "LOGIN")
	for _, c := range connections {
		word, label, more := login(ctx, p.dir, c, p.consent)
		mark := " "
		if c.Key == current {
			mark = "*"
		}
		fmt.Fprintln(out)
		row(out, mark, cmp.Or(receipt.Printable(c.Alias), "-"), c.Workspace, c.ClientAppID, word)
		line(out, "hub", c.HubURL)
		line(out, "key", c.Key)
		if c.InstanceID != "" {
			line(out, "instance", c.InstanceID)
		}
		if more != "" {
			line(out, label, more)
		}
	}
	if current != "" {
		fmt.Fprintln(out, "\n* the current one. No inspection ever falls back to it.")
	}
	if !p.consent {
		fmt.Fprintln(out)
		for _, text := range screen.Wrap("No login was read: "+folder.NoConsent+".", screen.Columns) {
			fmt.Fprintln(out, text)
		}
	}
	return nil
}

// login says in a word what became of a login; more is what there is to say
// besides, under a label.
func login(ctx context.Context, dir *registry.Dir, c registry.Connection, consent bool) (word, label, more string) {
	if !consent {
		return "not read", "", ""
	}
	credentials, err := dir.Credentials(ctx, c.Key)
	switch {
	case errors.Is(err, registry.ErrNotLoggedIn):
		return "no login", "", ""
	case errors.Is(err, registry.ErrDamaged):
		return "damaged", "why", strings.TrimPrefix(folder.Sentence(err), "damaged: ")
	case err != nil:
		return "not read", "why", folder.Sentence(err)
	case !time.Now().Before(credentials.RefreshExpiresAt):
		return "expired", "since", minute(credentials.RefreshExpiresAt)
	}
	return "logged in", "until", minute(credentials.RefreshExpiresAt)
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func row(out io.Writer, mark, alias, workspace, client, word string) {
	fmt.Fprint(out, mark, " ")
	for _, column := range []struct {
		text  string
		width int
	}{{alias, aliasColumn}, {workspace, workspaceColumn}, {client, clientColumn}} {
		fmt.Fprint(out, screen.Pad(screen.Cut(column.text, column.width), column.width+gap))
	}
	fmt.Fprintln(out, word)
}

// line writes a text with a label, in as many lines as it needs.
func line(out io.Writer, label, text string) {
	const labelColumn = 10
	for _, part := range screen.Wrap(text, screen.Columns-gap-labelColumn) {
		fmt.Fprintf(out, "  %s%s\n", screen.Pad(label, labelColumn), part)
		label = ""
	}
}
