// Hermesx shows what a HermesX server has kept of an agent's work: the execution
// receipts of a session as a table, and what belongs to one request as a tree,
// each link with the evidence for it.
//
// Without flags it needs nothing: it starts a mock server on 127.0.0.1 and has
// an agent use a few tools there.
//
//	go run ./examples/hermesx
//
// Against a server that is running it reads what is named. The API key comes
// from the environment and stands in no flag; it needs the role auditor or
// admin:
//
//	go run ./examples/hermesx --base-url https://hermesx.example.com --key-env HERMES_AUDIT_API_KEY --session sess_1 --request chat-001
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
	"regexp"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/feedback"
)

const help = `Hermesx shows execution receipts and what belongs to a request. It reads, and
can do nothing else.

  hermesx                          have an agent use tools at a mock server, and
                                   show what it kept
  hermesx --base-url URL --key-env NAME [--session ID] [--request ID]
                                   read a running server

  --base-url URL           the HermesX server
  --key-env NAME           the environment variable that holds the API key; a
                           key never stands on the command line
  --session ID             show the receipts of this session
  --request ID             show what belongs to this request, by its
                           X-Request-Id; with --session also the receipts of
                           that session, because a server logs requests without
                           one
  --cursor TEXT            with --session: go on behind the receipts that an
                           earlier run has shown, which said this text when it
                           could not go on
  --last DURATION          search for the request in this last part of the audit
                           log only, such as 24h
  --allow-insecure-http    let --base-url be plain http to another machine: the
                           key can be read on the way
  --timeout DURATION       the time limit of each page (15s)
  --longest-wait DURATION  wait at most this long at a time for the rate limit
                           of the server, or for it to answer again (2m); 0s
                           waits for nothing
  -h, --help               this

Lines are as wide as the terminal, or as COLUMNS says; 80 columns elsewhere.

Exit status: 0 all was read, 1 not all was, 2 the command line makes no sense.
Ctrl-C stops it.
`

func main() {
	cli.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// options are what the command line says.
type options struct {
	baseURL, keyEnv, session, cursor, request string
	allowInsecureHTTP                         bool
	last, timeout, longestWait                time.Duration
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := cli.NewFlags("hermesx")
	flags.StringVar(&o.baseURL, "base-url", "", "")
	flags.StringVar(&o.keyEnv, "key-env", "", "")
	flags.StringVar(&o.session, "session", "", "")
	flags.StringVar(&o.cursor, "cursor", "", "")
	flags.StringVar(&o.request, "request", "", "")
	flags.BoolVar(&o.allowInsecureHTTP, "allow-insecure-http", false, "")
	flags.DurationVar(&o.last, "last", 0, "")
	flags.DurationVar(&o.timeout, "timeout", 0, "")
	flags.DurationVar(&o.longestWait, "longest-wait", hermesx.DefaultLongestWait, "")
	rest, status, goOn := cli.Parse(flags, args, help, stdout, stderr)
	if !goOn {
		return status
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if mistake := o.mistake(given, rest); mistake != "" {
		return cli.Complain(flags, stderr, mistake)
	}

	out := &output{Writer: bufio.NewWriter(stdout), columns: screen.ColumnsOf(stdout), progress: stderr}
	var err error
	if given["base-url"] {
		var client *hermesx.Client
		if client, err = o.client(os.Getenv); err != nil {
			return cli.Complain(flags, stderr, err.Error())
		}
		err = show(ctx, client, o, out)
	} else {
		err = play(ctx, out)
	}
	switch err = cmp.Or(err, out.Flush()); {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "hermesx: stopped")
	case err != nil:
		fmt.Fprintln(stderr, "hermesx:", explained(err))
	default:
		return cli.OK
	}
	return cli.Failed
}

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// mistake says what is wrong with the command line as a whole; "" for nothing.
// It repeats no value: somebody may have put a key in the wrong place.
func (o options) mistake(given map[string]bool, rest []string) string {
	switch {
	case len(rest) > 0:
		return "it takes no argument"
	case o.timeout < 0 || given["timeout"] && o.timeout == 0:
		return "--timeout is not a time to wait for, such as 5s"
	case o.last < 0 || given["last"] && o.last == 0:
		return "--last is not a time to look back, such as 24h"
	case o.longestWait < 0:
		return "--longest-wait is not a time to wait for, such as 2m or 0s"
	case !given["base-url"]:
		for name := range given {
			return "--" + name + " goes with --base-url, which is missing"
		}
		return ""
	case o.keyEnv == "":
		return "--key-env is missing: the name of the environment variable that holds the API key"
	case !variableForm.MatchString(o.keyEnv):
		return "--key-env takes the name of an environment variable, and this is none"
	case o.session == "" && o.request == "":
		return "there is neither --session nor --request to show"
	case given["cursor"] && o.session == "":
		return "--cursor goes with --session, which is missing"
	case given["last"] && o.request == "":
		return "--last goes with --request, which is missing"
	}
	return ""
}

func (o options) client(getenv func(string) string) (*hermesx.Client, error) {
	key := getenv(o.keyEnv)
	if key == "" {
		return nil, errors.New("the environment variable that --key-env names is not set, or empty: put the API key there")
	}
	client, err := hermesx.New(hermesx.Config{
		BaseURL:           o.baseURL,
		TokenSource:       oauth2.StaticTokenSource(&oauth2.Token{AccessToken: key}),
		AllowInsecureHTTP: o.allowInsecureHTTP,
	}, agentclient.WithTimeout(o.timeout))
	if err != nil {
		return nil, errors.New(explained(err))
	}
	return client, nil
}

// explained gives an error in the words of the command line, with what finds the
// request in the server's own log.
func explained(err error) string {
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return err.Error()
	}
	text := strings.NewReplacer(
		"Config.BaseURL", "--base-url", "Correlation.RequestID", "--request", "ReceiptQuery.SessionID", "--session", "ReceiptQuery.Cursor", "--cursor",
	).Replace(failure.Feedback.Message)
	if failure.RetryAfter > 0 {
		text += fmt.Sprintf(" It asks to wait %v.", failure.RetryAfter)
	}
	if failure.RequestID != "" {
		text += fmt.Sprintf(" (request id %s)", failure.RequestID)
	}
	if failure.Cursor != "" {
		text += " To go on behind what was shown: --cursor " + failure.Cursor
	}
	return text
}

// show reads and shows what the options name.
func show(ctx context.Context, client *hermesx.Client, o options, out *output) error {
	var incomplete error
	if o.session != "" {
		if err := out.receipts(ctx, client, hermesx.ReceiptQuery{SessionID: o.session, Cursor: o.cursor}, o.longestWait); errors.Is(err, hermesx.ErrIncomplete) {
			incomplete = err
		} else if err != nil {
			return err
		}
	}
	if o.request != "" {
		from := hermesx.Correlation{RequestID: o.request, SessionID: o.session}
		if o.last > 0 {
			from.From = time.Now().Add(-o.last)
		}
		trail, err := client.Correlate(ctx, from, out.patience(o.longestWait)...)
		if err != nil {
			out.heading(nothingRead)
			return withoutCursor(err)
		}
		out.trail(trail)
		for _, link := range []hermesx.Link{trail.Request, trail.Execution} {
			if incomplete == nil && (link == hermesx.LinkPartlyRecorded || link == hermesx.LinkUnknown) {
				incomplete = hermesx.ErrIncomplete
			}
		}
	}
	return incomplete
}

// withoutCursor drops where the audit log could be gone on with: a trail is
// collected from its beginning.
func withoutCursor(err error) error {
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return err
	}
	shown := *failure
	shown.Cursor = ""
	return &shown
}
