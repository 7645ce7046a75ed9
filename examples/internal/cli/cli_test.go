package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
)

// A failing is a disk without room.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestHelpThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	_, status, goOn := cli.Parse(cli.NewFlags("example"), []string{"--help"}, "the help\n", failing{}, &stderr)
	if want := "example: the help could not be written: " + syscall.ENOSPC.Error() + "\n"; status != cli.Failed || goOn || stderr.String() != want {
		t.Errorf("status %d, goes on %t, stderr %q", status, goOn, &stderr)
	}
}

func TestOutputKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	o := &cli.Output{To: &written}
	fmt.Fprint(o, "a")
	o.To = failing{}
	fmt.Fprint(o, "b")
	o.To = &written
	fmt.Fprint(o, "c")
	if !errors.Is(o.Err, syscall.ENOSPC) || written.String() != "a" {
		t.Errorf("%v, written %q", o.Err, &written)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	const canary = "canary-token"
	for _, test := range []struct {
		args    []string
		rest    []string
		status  int
		goOn    bool
		n       int
		b       bool
		stdout  string
		mistake string
	}{
		{args: nil, goOn: true},
		{args: []string{"a", "--n", "3", "b", "-b"}, rest: []string{"a", "b"}, goOn: true, n: 3, b: true},
		{args: []string{"-b", "a", "--", "--n", "b"}, rest: []string{"a", "--n", "b"}, goOn: true, b: true},
		{args: []string{"-h"}, stdout: "the help\n"},
		{args: []string{"a", "--help"}, stdout: "the help\n"},
		{args: []string{"--x"}, status: cli.Usage, mistake: "there is no flag --x"},
		{args: []string{"--x=" + canary}, status: cli.Usage, mistake: "there is no flag --x"},
		{args: []string{"--\x1b[2J"}, status: cli.Usage, mistake: `there is no flag --\x1b[2J`},
		{args: []string{"--n"}, status: cli.Usage, mistake: "--n needs a value"},
		{args: []string{"--n", canary}, status: cli.Usage, mistake: "--n has a value that it cannot take; it takes a whole number"},
		{args: []string{"--n", strings.Repeat("9", 30)}, status: cli.Usage, n: math.MaxInt, mistake: "--n has a value that it cannot take; it takes a whole number"},
		{args: []string{"--b=" + canary + "\n"}, status: cli.Usage, mistake: "--b has a value that it cannot take; it takes true or false, or no value at all"},
		{args: []string{"--time", "5"}, status: cli.Usage, mistake: "--time has a value that it cannot take; it takes a time to wait for, such as 5s or 1m30s"},
		{args: []string{"--other", canary}, status: cli.Usage, mistake: "--other has a value that it cannot take; it takes what -h says"},
		{args: []string{"---" + canary}, status: cli.Usage, mistake: "a flag is not written as one"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			flags := cli.NewFlags("example")
			n := flags.Int("n", 0, "")
			b := flags.Bool("b", false, "")
			flags.Duration("time", 0, "")
			flags.Func("other", "", func(string) error { return errors.New(canary) })
			var stdout, stderr bytes.Buffer
			rest, status, goOn := cli.Parse(flags, test.args, "the help\n", &stdout, &stderr)
			if diff := cmp.Diff(test.rest, rest); diff != "" {
				t.Errorf("rest (-want +got):\n%s", diff)
			}
			if status != test.status || goOn != test.goOn || *n != test.n || *b != test.b {
				t.Errorf("status %d, goes on %t, n %d, b %t", status, goOn, *n, *b)
			}
			mistake := test.mistake
			if mistake != "" {
				mistake = "example: " + mistake + " (example -h helps)\n"
			}
			if stdout.String() != test.stdout || stderr.String() != mistake {
				t.Errorf("stdout %q, stderr %q, want %q, %q", &stdout, &stderr, test.stdout, mistake)
			}
		})
	}
}
