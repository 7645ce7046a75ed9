//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
)

func TestInterruptSignal(t *testing.T) {
	hub := newRunning(t)
	id := hub.play(t, situation.Read)
	hold := hub.Hold(hubtest.CapabilitiesRequest, hubtest.AtRequest)
	p := exampletest.Start(t, hub.args(id)...)
	<-hold.Arrived()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	stdout, status := p.Rest(t)
	if status != cli.Failed || !strings.Contains(stdout, "agent_request_cancelled") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, &p.Errors)
	}
}
