// Soak inspects operations for minutes on end while everything around it goes
// wrong, and checks every answer.
//
//	cd examples/soak && go run . --duration 10m --seed 1
//
// Three mock Hubs stand behind fault proxies on 127.0.0.1: one with HTTP/2 over
// TLS, one with HTTP/1.1 over TLS, one with plain HTTP. The proxies delay,
// slice, truncate, reset, swallow and garble what passes, the Hubs answer 5xx
// and 429 or lose requests, the store of the SDK is away, cannot save or loses its
// answers for a while, all by a schedule that the seed decides. Meanwhile
// operations move through their lives, sessions rotate and die, connections get
// new logins, are removed and come back. Two transports over one registry, as two
// processes would have, ask about single operations, batches and watches. With
// --folder the registry is on disk, and each transport and this program itself
// opened it on their own.
//
// These must hold, and the first breach of one ends the run with an account of
// it and exit status 1 (invariant.go has them by name):
//
//   - A receipt equals what the Hub had of that operation at some moment of the
//     call: history.go keeps what it had, and story.go says what that looks like.
//   - No answer of one binding reaches another. Operations of different Hubs
//     have the same invocation ids, and ids are asked about under bindings that
//     they do not belong to.
//   - Nothing but the two reads and the refresh leaves, and no business
//     operation is performed but those of this program's own.
//   - A token goes only with an original of its session, and only right after
//     the binding was checked.
//   - Errors are of the vocabulary, have a reason, and show no token. Neither
//     do log records.
//   - A refresh token is sent once. Where no answer came, or one that says "not
//     now", a later inspection may send it again, and after a minute where it was
//     refused. If the Hub had taken it the session is lost then: this program logs
//     in again and counts it.
//   - A store that fails and comes back loses no session that a transport holds.
//   - Each entry of a batch is answered once; a watch yields news only.
//   - Memory stays bounded; goroutines and descriptors end where they began.
//
// Over TLS a garbled byte is any byte of the stream. Plain HTTP cannot tell a
// letter that was changed on the way, and neither can a client: there, garbling
// puts a byte that may stand in no JSON text, so that what came through whole
// is what was sent.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
)

const help = `Soak inspects operations through fault proxies, at mock Hubs of its own, and checks every answer.

  soak [--duration D] [--seed N] [--folder]

  --duration D  how long, as in 30s or 10m (10m)
  --seed N      decides the faults and what is done when (1)
  --folder      keep the registry in a temporary folder, not in memory
  -h, --help    this

Exit status: 0 everything held, 1 something did not, or it was stopped; 2 the command line makes no sense.
`

func main() {
	cli.Main(func(ctx context.Context) int { return start(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := cli.NewFlags("soak")
	duration := flags.Duration("duration", 10*time.Minute, "")
	seed := flags.Int("seed", 1, "")
	folder := flags.Bool("folder", false, "")
	rest, status, goOn := cli.Parse(flags, args, help, stdout, stderr)
	switch {
	case !goOn:
		return status
	case len(rest) > 0:
		return cli.Complain(flags, stderr, "it takes no argument")
	case *duration <= 0:
		return cli.Complain(flags, stderr, "--duration must be positive")
	}
	tally, err := run(ctx, config{duration: *duration, seed: uint64(*seed), folder: *folder, progress: progressOn(stderr)})
	out := &cli.Output{To: stdout}
	if tally != nil {
		tally.print(out)
	}
	if breach, ok := errors.AsType[*breach](err); ok {
		fmt.Fprintf(stderr, "\nsoak: %s\n\n%s\n", breach.invariant, breach.account)
		return cli.Failed
	}
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return cli.Failed
	}
	fmt.Fprintln(out, "\neverything held")
	if out.Err != nil {
		fmt.Fprintln(stderr, "soak:", out.Err)
		return cli.Failed
	}
	return cli.OK
}
