package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

// Short runs of the real thing.
func TestSoak(t *testing.T) {
	for _, args := range [][]string{
		{"--duration", "3s", "--seed", "7"},
		{"--duration", "3s", "--seed", "8", "--folder"},
	} {
		var stdout, stderr bytes.Buffer
		status := start(t.Context(), args, &stdout, &stderr)
		if status != cli.OK || stderr.Len() > 0 {
			t.Errorf("%q: status %d, stderr %q", args, status, &stderr)
		}
		output := stdout.String()
		for _, want := range []string{`inspections +\d`, ` receipt +\d`, `faults +\d`, `sessions and connections +\d`} {
			if !regexp.MustCompile(want).MatchString(output) {
				t.Errorf("%q: the table has no %q:\n%s", args, want, output)
			}
		}
		if hasToken(output) || strings.ContainsAny(output, "\r\x1b") {
			t.Errorf("%q: the table has what belongs in none:\n%q", args, output)
		}
		for line := range strings.Lines(output) {
			if screen.Width(line) > screen.Plain {
				t.Errorf("too wide: %q", line)
			}
		}
	}
}

func TestItCanBeStopped(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var stdout, stderr bytes.Buffer
	if status := start(ctx, nil, &stdout, &stderr); status != cli.Failed || stderr.String() != "soak: it was stopped\n" {
		t.Errorf("status %d, stderr %q", status, &stderr)
	}
}

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"-h"}, cli.OK, ""},
		{[]string{"--duration", "0s"}, cli.Usage, "soak: --duration must be positive (soak -h helps)\n"},
		{[]string{"--seed", "x"}, cli.Usage, "soak: --seed has a value that it cannot take; it takes a whole number (soak -h helps)\n"},
		{[]string{"now"}, cli.Usage, "soak: it takes no argument (soak -h helps)\n"},
	} {
		var stdout, stderr bytes.Buffer
		status := start(t.Context(), test.args, &stdout, &stderr)
		if status != test.status || stderr.String() != test.stderr || (stdout.String() == help) != (status == cli.OK) {
			t.Errorf("%q: status %d, stdout %q, stderr %q", test.args, status, &stdout, &stderr)
		}
	}
}

func TestNoProgressInAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, to := range []io.Writer{w, new(bytes.Buffer)} {
		if progressOn(to) != nil {
			t.Errorf("a progress line would go to a %T that is no terminal", to)
		}
	}
}
