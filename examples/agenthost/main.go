// Agenthost is a small agent host that is killed right after it has sent an
// operation, starts again, and finds out what became of it without sending
// anything a second time.
//
//	go run ./examples/agenthost
//
// That plays the whole story at a mock Hub: the host runs as a process of its
// own, and is killed with SIGKILL in the middle. What makes it work is in host.go:
//
//   - send keeps each operation in a journal before it sends it, and a tool call
//     that comes a second time is noticed there.
//   - report asks, after the restart, about all that are open at once, and watches
//     those that are not settled. What a model gets to hear is a report: a
//     sentence about evidence, and what to do next.
//
// The two halves of the host can also be run by hand, as "agenthost send" and
// "agenthost report"; -h says how.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/receipt"
)

const help = `Agenthost is a small agent host that is killed, and afterwards learns what
became of its operations.

  agenthost                    play the story at a mock Hub
  agenthost send --file F      send the host's operations, keeping them in F;
                               none that is in F already
  agenthost report --file F    ask about every operation that is open in F, and
                               watch those that are not settled; sends none

  --file F      a journal of the operations, for one host at a time
  --watch D     how long to watch, such as 10m; not at all by default
  --look D      how soon to look again; every look that finds nothing new
                doubles it, up to 30 times as long (1s)
  --width N     how many columns wide to write: those of the terminal, or as
                COLUMNS says; 80 elsewhere
  -h, --help    this

"send" and "report" read their login from stdin: a credential file as package
registry writes it (schema_version, base_url, client_app_id, route, session_id,
the tokens and when they expire), so that no token stands on a command line.

Exit status: 0 it is done, 1 it failed or was stopped, 2 the command line makes
no sense.
`

func main() {
	cli.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := cli.NewFlags("agenthost")
	file := flags.String("file", "", "")
	watch := flags.Duration("watch", 0, "")
	look := flags.Duration("look", time.Second, "")
	out := &printer{to: stdout}
	flags.IntVar(&out.columns, "width", screen.ColumnsOf(stdout), "")
	rest, status, goOn := cli.Parse(flags, args, help, stdout, stderr)
	if !goOn {
		return status
	}
	command := ""
	if len(rest) > 0 {
		command, rest = rest[0], rest[1:]
	}

	var err error
	switch {
	case out.columns < narrowest:
		return cli.Complain(flags, stderr, fmt.Sprintf("--width takes a number from %d", narrowest))
	case len(rest) > 0:
		return cli.Complain(flags, stderr, "there is an argument too many")
	case *watch < 0 || *look <= 0 || *look > time.Hour:
		return cli.Complain(flags, stderr, "--watch takes a time from 0, and --look one up to an hour")
	case command != "report" && *watch != 0:
		return cli.Complain(flags, stderr, "--watch goes with report")
	case command == "" && *file != "":
		return cli.Complain(flags, stderr, "--file goes with send or report, which is missing")
	case command == "":
		err = story(ctx, out)
	case command != "send" && command != "report":
		return cli.Complain(flags, stderr, "there is no command of this name: it is send or report")
	case *file == "":
		return cli.Complain(flags, stderr, "--file is missing: where the operations are kept")
	case command == "send":
		err = send(ctx, *file, stdin, out)
	default:
		err = report(ctx, *file, stdin, out, *watch, *look)
	}
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintln(stderr, "agenthost: stopped")
		return cli.Failed
	case err != nil:
		fmt.Fprintln(stderr, "agenthost:", receipt.Printable(err.Error()))
		return cli.Failed
	}
	return cli.OK
}

// narrowest is the least width to write for.
const narrowest = 30

// A printer prints lines of at most so many columns.
type printer struct {
	to      io.Writer
	columns int
	err     error // the first that printing met
}

// line prints a sentence, in as many lines as it needs. A line that is empty
// comes first where the format begins with one.
func (p *printer) line(format string, args ...any) {
	text, apart := strings.CutPrefix(fmt.Sprintf(format, args...), "\n")
	if apart {
		p.print("\n")
	}
	p.print(screen.Paragraph("", "  ", text, p.columns))
}

// labelled prints a text with a label, which takes so many columns.
func (p *printer) labelled(label string, columns int, text string) {
	p.print(screen.Labelled(label, columns, text, p.columns))
}

func (p *printer) print(text string) {
	if _, err := io.WriteString(p.to, text); err != nil && p.err == nil {
		p.err = err
	}
}
