// Inspect shows how far operations got, as their Hub knows it, and that asking
// changes nothing.
//
// Without flags it needs nothing: it starts mock Hubs on 127.0.0.1, plays the
// situations that this SDK exists for, asks about each of them, and counts the
// business operations before and after.
//
//	go run ./examples/inspect
//	go run ./examples/inspect --json
//
// Against a Hub that is running (examples/mockhub is one) it asks about the
// invocations that are named. The access token is that of the session which
// sent them; it comes from the environment and stands in no flag:
//
//	go run ./examples/inspect --hub https://hub.example.com --token-env HUB_TOKEN --workspace inventory ID...
//
// Where a person has logged in with a host that keeps its connections in a
// folder, it asks through one of these (examples/connections lists them), and
// renews its session as that host does:
//
//	BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE=true go run ./examples/inspect --connection shop ID...
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

const help = `Inspect shows how far operations got. It reads, and can do nothing else.

  inspect                  play the situations at mock Hubs, ask about each
  inspect --hub URL --token-env NAME --workspace W ID...
                           ask a running Hub about these invocations
  inspect [--registry DIR] --connection NAME ID...
                           ask through a connection in a folder

  --hub URL                the Hub that the operations were sent to
  --token-env NAME         the environment variable that holds the access token
                           of the session that sent them; a token never stands
                           on the command line
  --workspace W            the workspace that they were sent to
  --allow-insecure-http    let --hub be plain http to another machine; the token
                           can be read on the way there
  --connection NAME        the alias or the key of the connection that they were
                           sent through; it is asked with the login that it has
                           now, which is renewed where it has to be
` + folder.Help + `                           Logins are read only with
                           ` + folder.Consent + `=true
  --timeout DURATION       the time limit of each question (15s)
  --wide                   whole ids and texts, no wrapped lines
  --json                   one JSON object a line: {"report":…,"receipt":…} or
                           {"report":…,"error":…}
  -h, --help               this

Lines are as wide as the terminal, or as COLUMNS says; 80 columns elsewhere.

Exit status: 0 all questions were answered (in the play: as was to be expected),
1 one was not, 2 the command line makes no sense. Ctrl-C stops it.
`

func main() {
	cli.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// options are what the command line says.
type options struct {
	hub, tokenEnv, workspace string
	folder                   folder.Choice
	connection               string
	allowInsecureHTTP        bool
	timeout                  time.Duration
	wide, json               bool
	ids                      []string
	columns                  int // how wide to write
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := cli.NewFlags("inspect")
	flags.StringVar(&o.hub, "hub", "", "")
	flags.StringVar(&o.tokenEnv, "token-env", "", "")
	flags.StringVar(&o.workspace, "workspace", "", "")
	o.folder.Flags(flags)
	flags.StringVar(&o.connection, "connection", "", "")
	flags.BoolVar(&o.allowInsecureHTTP, "allow-insecure-http", false, "")
	flags.DurationVar(&o.timeout, "timeout", 0, "")
	flags.BoolVar(&o.wide, "wide", false, "")
	flags.BoolVar(&o.json, "json", false, "")
	ids, status, goOn := cli.Parse(flags, args, help, stdout, stderr)
	if !goOn {
		return status
	}
	o.ids = ids
	o.columns = screen.ColumnsOf(stdout)
	if o.wide {
		o.columns = math.MaxInt
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if mistake := o.mistake(given); mistake != "" {
		return cli.Complain(flags, stderr, mistake)
	}

	out := &output{Writer: bufio.NewWriter(stdout), options: o}
	var err error
	switch {
	case given["hub"]:
		var questions []question
		if questions, err = o.questions(os.Getenv); err != nil {
			return cli.Complain(flags, stderr, err.Error())
		}
		err = askAll(ctx, questions, out)
	case given["connection"]:
		var t *through
		t, err = o.through(ctx, os.Getenv)
		if wrong, ok := errors.AsType[mistake](err); ok {
			return cli.Complain(flags, stderr, string(wrong))
		}
		if err == nil {
			err = askAll(ctx, t.questions(o.ids), out)
			if lost := t.close(); lost != nil {
				fmt.Fprintln(stderr, "inspect:", lost)
				out.failed++
			}
		}
	default:
		err = demonstrate(ctx, o, out, stderr)
	}
	switch err = cmp.Or(err, out.Flush()); {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "inspect: stopped")
		return cli.Failed
	case err != nil:
		fmt.Fprintln(stderr, "inspect:", err)
		return cli.Failed
	}
	if out.failed > 0 {
		return cli.Failed
	}
	return cli.OK
}

// mistake says what is wrong with the flags as a whole; "" for nothing.
func (o options) mistake(given map[string]bool) string {
	if o.timeout < 0 || given["timeout"] && o.timeout == 0 {
		return "--timeout takes a time to wait for that is longer than nothing, such as 5s"
	}
	for _, way := range []struct {
		flag  string
		parts []string
	}{
		{"hub", []string{"token-env", "workspace", "allow-insecure-http"}},
		{"connection", []string{"registry", "namespace"}},
	} {
		for _, part := range way.parts {
			if given[part] && !given[way.flag] {
				return "--" + part + " goes with --" + way.flag + ", which is missing"
			}
		}
	}
	switch {
	case given["hub"] && given["connection"]:
		return "--hub and --connection are two ways to ask: take one"
	case given["hub"]:
		return o.hubMistake()
	case given["connection"]:
		return cmp.Or(o.folder.Mistake(given, os.Getenv), o.connectionMistake())
	case len(o.ids) > 0:
		return "there is an argument, and no --hub or --connection to ask about it"
	}
	return ""
}
