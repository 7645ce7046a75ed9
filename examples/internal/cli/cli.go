// Package cli is what the examples have in common as programs: they stop on
// Ctrl-C, and answer a mistake on the command line with one sentence.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/bailinghub/bailinghub-go/receipt"
)

// The exit statuses of every example.
const (
	OK     = 0 // it did what it was asked to do
	Failed = 1 // something went wrong, or it was stopped
	Usage  = 2 // the command line makes no sense
)

// Main runs a program and exits with its status. The context ends with the
// first Ctrl-C or SIGTERM; a second one ends the program on the spot.
//
// A write of output that nobody reads any more, as after "| head", is an error
// like any other. Without the Notify for SIGPIPE the Go runtime would end the
// program at that write, and its temporary files would be left behind.
func Main(run func(context.Context) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	status := run(ctx)
	stop()
	os.Exit(status)
}

// NewFlags gives an empty set of flags for the program of that name.
func NewFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return flags
}

// Parse reads args, where flags may stand before, among and after the other
// arguments, which it gives back. Where goOn is false the program has to exit
// with this status: help was asked for and is on stdout, or a flag is wrong or
// the help could not be written, and a sentence about it is on stderr.
func Parse(flags *flag.FlagSet, args []string, help string, stdout, stderr io.Writer) (rest []string, status int, goOn bool) {
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			if _, err := io.WriteString(stdout, help); err != nil {
				fmt.Fprintf(stderr, "%s: the help could not be written: %v\n", flags.Name(), err)
				return nil, Failed, false
			}
			return nil, OK, false
		case err != nil:
			return nil, Complain(flags, stderr, mistake(flags, err)), false
		}
		left := flags.Args()
		if len(left) == 0 {
			return rest, OK, true
		}
		if at := len(args) - len(left) - 1; at >= 0 && args[at] == "--" {
			return append(rest, left...), OK, true
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

var (
	unknown = regexp.MustCompile(`^flag provided but not defined: -+(.*)`)
	noValue = regexp.MustCompile(`^flag needs an argument: -+(.*)`)
	bad     = regexp.MustCompile(`(?s)^invalid (?:boolean )?value .* for (?:flag )?-([a-z-]+): `)
)

// mistake says what package flag found, without the value: somebody may have
// put a token there.
func mistake(flags *flag.FlagSet, err error) string {
	text := err.Error()
	switch {
	case unknown.MatchString(text):
		return "there is no flag --" + receipt.Printable(unknown.FindStringSubmatch(text)[1])
	case noValue.MatchString(text):
		return "--" + noValue.FindStringSubmatch(text)[1] + " needs a value"
	case bad.MatchString(text):
		name := bad.FindStringSubmatch(text)[1]
		return "--" + name + " has a value that it cannot take; it takes " + takes(flags.Lookup(name))
	}
	return "a flag is not written as one"
}

// takes says which values a flag takes.
func takes(f *flag.Flag) string {
	if getter, ok := f.Value.(flag.Getter); ok {
		switch getter.Get().(type) {
		case bool:
			return "true or false, or no value at all"
		case int:
			return "a whole number"
		case time.Duration:
			return "a time to wait for, such as 5s or 1m30s"
		}
	}
	return "what -h says"
}

// Complain says on stderr what is wrong with the command line.
func Complain(flags *flag.FlagSet, stderr io.Writer, what string) int {
	fmt.Fprintf(stderr, "%s: %s (%[1]s -h helps)\n", flags.Name(), what)
	return Usage
}

// Output passes on what is written until a write fails, and keeps that error: a
// program that prints in many places looks once, at its end.
type Output struct {
	To  io.Writer
	Err error // the first that a write met
}

// Write implements [io.Writer].
func (o *Output) Write(text []byte) (int, error) {
	if o.Err != nil {
		return 0, o.Err
	}
	n, err := o.To.Write(text)
	o.Err = err
	return n, err
}
