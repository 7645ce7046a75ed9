// Connections lists what is registered in a folder, and what became of each
// login. It shows no token, and changes nothing.
//
//	go run ./examples/connections
//	go run ./examples/connections --registry DIR
//	go run ./examples/connections --namespace N
//
// Logins are read only where BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE=true allows
// plain credential files.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

const help = `Connections lists the connections in a folder, and whether each is logged in. It shows no token.

  connections [--registry DIR | --namespace N]

` + folder.Help + `  -h, --help               this

` + folder.Consent + `=true in the environment lets it read logins:

  logged in    a host can use it until then, and renews it by itself
  expired      it was not used for too long: a person has to log in
  no login     there is none: a person has to log in
  damaged      what is stored is not a login of this connection, and is not used
  not read     it could not be read, or must not be

Exit status: 0 the connections are listed, 1 they could not be, 2 the command line makes no sense.
`

func main() {
	cli.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var choice folder.Choice
	flags := cli.NewFlags("connections")
	choice.Flags(flags)
	rest, status, goOn := cli.Parse(flags, args, help, stdout, stderr)
	if !goOn {
		return status
	}
	if len(rest) > 0 {
		return cli.Complain(flags, stderr, "it takes no argument")
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if mistake := choice.Mistake(given, getenv); mistake != "" {
		return cli.Complain(flags, stderr, mistake)
	}
	dir, path, consent, err := choice.Open(getenv)
	if err != nil {
		return cli.Complain(flags, stderr, folder.Sentence(err))
	}
	out := bufio.NewWriter(stdout)
	if err := cmp.Or(list(ctx, dir, path, consent, out), out.Flush()); err != nil {
		fmt.Fprintln(stderr, "connections:", folder.Sentence(err))
		return cli.Failed
	}
	return cli.OK
}

// The columns of the table.
const (
	aliasColumn     = 24
	workspaceColumn = 20
	clientColumn    = 20
	gap             = 2
)

// list writes the table.
func list(ctx context.Context, dir *registry.Dir, path string, consent bool, out io.Writer) error {
	connections, err := dir.List(ctx)
	if err != nil {
		return err
	}
	current, err := dir.Current(ctx)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	path = receipt.Printable(path)
	if len(connections) == 0 {
		fmt.Fprintf(out, "There are no connections in %s.\n", path)
		return nil
	}
	fmt.Fprintf(out, "Connections in %s\n\n", path)
	row(out, " ", "ALIAS", "WORKSPACE", "CLIENT APP", "LOGIN")
	for _, c := range connections {
		word, label, more := login(ctx, dir, c, consent)
		mark := " "
		if c.Key == current.Key {
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
	if current.Key != "" {
		fmt.Fprintln(out, "\n* the current one. No inspection ever falls back to it.")
	}
	if !consent {
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
