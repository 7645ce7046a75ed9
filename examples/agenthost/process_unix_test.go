//go:build unix

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
)

// TestKilled kills the host with SIGKILL at each of its requests, before the
// Hub has seen it and after. Whatever the host had sent is in its file.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, at := range []hubtest.Point{hubtest.AtRequest, hubtest.AtAnswer} {
		for before := range len(tasks) {
			s := newSite(t)
			hold := hubtest.NewHold(at)
			s.Inject(hubtest.Fault{On: hubtest.SubmitRequest, Skip: before, Hold: hold})
			p := exampletest.Prepare(t, "send", "--file", s.file)
			p.Stdin = bytes.NewReader(s.login)
			p.Begin(t)
			<-hold.Arrived()
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if _, status := p.Rest(t); status != -1 {
				t.Errorf("the host was not killed: status %d", status)
			}

			open := s.open(t)
			performed := s.BusinessOperations()
			status, stdout, stderr := s.call(t, "report")
			if status != cli.OK || stderr != "" || open != before+1 || strings.Count(stdout, "to the model") != open {
				t.Errorf("killed at request %d: %d open, status %d, stderr %q, stdout\n%s", before+1, open, status, stderr, stdout)
			}
			if s.BusinessOperations() != performed || s.Requests().Submit != before+1 {
				t.Errorf("killed at request %d: reporting sent something", before+1)
			}
		}
	}
}

func TestInterruptSignal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hold := s.Hold(hubtest.SubmitRequest, hubtest.AtAnswer)
	p := exampletest.Prepare(t, "send", "--file", s.file)
	p.Stdin = bytes.NewReader(s.login)
	p.Begin(t)
	<-hold.Arrived()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, status := p.Rest(t); status != cli.Failed || p.Errors.String() != "agenthost: stopped\n" {
		t.Errorf("status %d, stderr %q", status, &p.Errors)
	}
}
