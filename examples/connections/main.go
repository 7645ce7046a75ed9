// Connections logs people in to a Hub, and shows and ends the logins that are
// kept in a folder. It shows no token.
//
//	go run ./examples/connections
//	go run ./examples/connections login --hub URL --client ID --workspace NAME
//	go run ./examples/connections status
//	go run ./examples/connections logout shop
//
// Logins are read and saved only where
// BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE=true allows plain credential files.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/registry"
)

const help = `Connections logs people in to a Hub, and shows and ends the logins that are kept
in a folder. It shows no token.

  connections [list]       what is registered, and whether it is logged in
  connections login --hub URL --client ID --workspace NAME
                           have a person log in; the login becomes the current
                           connection, beside those that are there
  connections status [NAME]
                           ask the Hub about the login of one, or of all: who,
                           for which workspaces, until when
  connections logout NAME  end a login, at the Hub first and then here
  connections use NAME     make a connection the current one
  connections rename NAME NEW
                           give it another name; "" takes the name away

NAME is the name or the key of a connection.

  --hub URL                the Hub to log in to
  --client ID              the client app that logs in
  --workspace NAME         the workspace that it is for
  --name NAME              what to call the connection
  --replace                take the place of the login that --name has, or the
                           only one for this Hub, client app and workspace: its
                           operations can be asked about no longer
  --device TEXT            what the person is told about where they log in
                           (bailinghub-go)
  --port N                 wait for the browser at this port of 127.0.0.1, for
                           a browser on another machine (ssh -L N:127.0.0.1:N)
  --paste                  take the address that a browser on another machine
                           ended at from standard input; opens no browser
  --no-browser             open no browser, only show the address
  --allow-insecure-http    let --hub be plain http to another machine; tokens
                           can be read on the way there
  --offline                status: what is stored, without asking the Hub
  --forget                 logout: delete the login even where the Hub cannot be
                           told; its session lives on there until it ends
` + folder.Help + `  --json                   one JSON object a line, {"error":…} for a failure
  -h, --help               this

` + folder.Consent + `=true in the environment lets it read and save logins.
The list says of each:

  logged in    a host can use it until then, and renews it by itself
  expired      its 30 days are over: a person has to log in
  no login     there is none: a person has to log in
  damaged      what is stored is not a login of this connection, and is not used
  not read     it could not be read, or must not be

Exit status: 0 it was done (status: each one asked about is logged in), 1 it was
not, 2 the command line makes no sense. Ctrl-C ends a login and leaves nothing.
`

func main() {
	cli.Main(func(ctx context.Context) int {
		p := &program{getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, browser: openBrowser}
		return p.run(ctx, os.Args[1:])
	})
}

// program is one call of it, and the world around it.
type program struct {
	getenv  func(string) string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	browser func(ctx context.Context, address string) (done <-chan struct{}, err error)

	options options
	dir     *registry.Dir
	path    string
	consent bool
	out     *bufio.Writer
}

// options are what the command line says.
type options struct {
	folder                    folder.Choice
	hub, client, workspace    string
	name, device              string
	port                      int
	replace, paste, noBrowser bool
	insecure                  bool
	offline, forget, json     bool
}

// mistake is what is wrong with the command line.
type mistake string

func (m mistake) Error() string { return string(m) }

// errTold is a failure that was told already.
var errTold = errors.New("the failure was told")

// command is one word that can stand first.
type command struct {
	least, most int      // arguments
	wants       string   // what to say where there are fewer or more
	flags       []string // besides those of every command
	needed      []string // of them
	logins      bool     // it needs the consent to read logins
	do          func(p *program, ctx context.Context, args []string) error
}

var commands = map[string]command{
	"list": {wants: "list takes no argument", do: (*program).list},
	"login": {wants: "login takes no argument, only flags", logins: true, needed: []string{"hub", "client", "workspace"},
		flags: []string{"hub", "client", "workspace", "name", "replace", "device", "port", "paste", "no-browser", "allow-insecure-http"}, do: (*program).login},
	"status": {most: 1, wants: "status takes one name at most", logins: true, flags: []string{"offline"}, do: (*program).status},
	"logout": {least: 1, most: 1, wants: "logout takes the name or the key of one connection", logins: true, flags: []string{"forget"}, do: (*program).logout},
	"use":    {least: 1, most: 1, wants: "use takes the name or the key of one connection", do: (*program).use},
	"rename": {least: 2, most: 2, wants: `rename takes the name or the key of one connection, and the new name ("" for none)`, do: (*program).rename},
}

var everywhere = []string{"registry", "namespace", "json"}

func (p *program) run(ctx context.Context, args []string) int {
	flags := cli.NewFlags("connections")
	o := &p.options
	o.folder.Flags(flags)
	flags.StringVar(&o.hub, "hub", "", "")
	flags.StringVar(&o.client, "client", "", "")
	flags.StringVar(&o.workspace, "workspace", "", "")
	flags.StringVar(&o.name, "name", "", "")
	flags.StringVar(&o.device, "device", "", "")
	flags.IntVar(&o.port, "port", 0, "")
	flags.BoolVar(&o.replace, "replace", false, "")
	flags.BoolVar(&o.paste, "paste", false, "")
	flags.BoolVar(&o.noBrowser, "no-browser", false, "")
	flags.BoolVar(&o.insecure, "allow-insecure-http", false, "")
	flags.BoolVar(&o.offline, "offline", false, "")
	flags.BoolVar(&o.forget, "forget", false, "")
	flags.BoolVar(&o.json, "json", false, "")
	rest, status, goOn := cli.Parse(flags, args, help, p.stdout, p.stderr)
	if !goOn {
		return status
	}
	name := "list"
	if len(rest) > 0 {
		name, rest = rest[0], rest[1:]
	}
	chosen, known := commands[name]
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if what := chosen.mistake(name, known, rest, given); what != "" {
		return cli.Complain(flags, p.stderr, what)
	}
	if what := o.folder.Mistake(given, p.getenv); what != "" {
		return cli.Complain(flags, p.stderr, what)
	}
	if given["port"] && (o.port < 1 || o.port > 65535) {
		return cli.Complain(flags, p.stderr, "--port takes a number from 1 to 65535")
	}
	var err error
	if p.dir, p.path, p.consent, err = o.folder.Open(p.getenv); err != nil {
		return cli.Complain(flags, p.stderr, folder.Sentence(err))
	}
	if chosen.logins && !p.consent {
		return cli.Complain(flags, p.stderr, folder.NoConsent)
	}
	p.out = bufio.NewWriter(p.stdout)
	err = chosen.do(p, ctx, rest)
	if wrong, ok := errors.AsType[mistake](err); ok {
		return cli.Complain(flags, p.stderr, string(wrong))
	}
	if err != nil && !errors.Is(err, errTold) {
		p.tell(err)
	}
	if unwritten := p.out.Flush(); unwritten != nil {
		if err == nil || o.json { // else there is a sentence already
			fmt.Fprintln(p.stderr, "connections:", folder.Sentence(unwritten))
		}
		err = unwritten
	}
	if err != nil {
		return cli.Failed
	}
	return cli.OK
}

// mistake says what is wrong with a command; "" for nothing.
func (c command) mistake(name string, known bool, args []string, given map[string]bool) string {
	switch {
	case !known:
		return "there is no command of this name; there are " + strings.Join(slices.Sorted(maps.Keys(commands)), ", ")
	case len(args) < c.least, len(args) > c.most:
		return c.wants
	}
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(everywhere, flag) && !slices.Contains(c.flags, flag) {
			return "--" + flag + " is not for " + name
		}
	}
	for _, flag := range c.needed {
		if !given[flag] {
			return name + " needs --" + flag
		}
	}
	return ""
}
