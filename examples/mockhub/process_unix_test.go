//go:build unix

package main

import (
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
)

// TestPrintedCommands has a shell run what the program prints. Without curl,
// TestPrintedRequests is what there is of those commands.
func TestPrintedCommands(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, noCurl := exec.LookPath("curl")
	exports := ""
	var answers []string
	inspected, hosts, logins := false, 0, 0
	operations := filepath.Join(t.TempDir(), "agenthost.jsonl")
	folder := filepath.Join(t.TempDir(), "logins")
	for _, command := range commands(s.printed) {
		if strings.HasPrefix(command, "export ") {
			exports += command + "\n"
			continue
		}
		curl := strings.HasPrefix(command, "curl ")
		if curl && noCurl != nil {
			continue
		}
		agenthost := strings.Contains(command, "agenthost")
		if agenthost {
			command = strings.ReplaceAll(command, "agenthost.jsonl", operations)
		}
		if strings.Contains(command, "connections") {
			command = strings.ReplaceAll(command, "mockhub-logins", folder)
		}
		shell := exec.CommandContext(t.Context(), "sh", "-c", exports+command)
		shell.Dir = "../.."                                              // the folder of the module
		shell.Env = append(os.Environ(), "DISPLAY=", "WAYLAND_DISPLAY=") // no browser
		stderr := &agreeing{t: t, address: s.url + consentPath + "?", as: "agree"}
		shell.Stderr = stderr
		output, err := shell.Output()
		if curl {
			if err != nil {
				t.Errorf("%s\n%v\n%s", command, err, stderr)
			}
			answers = append(answers, string(output))
			continue
		}
		if agenthost {
			want := "the Hub answered: awaiting_approval"
			if strings.Contains(command, " report ") {
				want = "open operations: 3"
			}
			if err != nil || !strings.Contains(string(output), want) {
				t.Errorf("%s\n%v\n%s%s", command, err, output, stderr)
			}
			hosts++
			continue
		}
		if strings.Contains(command, "connections") {
			if err != nil || !strings.Contains(string(output), []string{"Dora", "Dora", ""}[logins]) {
				t.Errorf("%s\n%v\n%s%s", command, err, output, stderr)
			}
			logins++
			continue
		}
		// One of the operations has a damaged record: examples/inspect shows
		// all and fails.
		inspected = true
		if err == nil || !strings.Contains(string(output), "8 operations were asked about: 7 answered, 1 not.") {
			t.Errorf("%s\n%v\n%s%s", command, err, output, stderr)
		}
	}
	if !inspected || hosts != 2 || logins != 3 {
		t.Error("there is no command with examples/inspect, or not two with examples/agenthost, or not three with examples/connections")
	}
	if noCurl == nil {
		checkAnswers(t, answers)
	}
}

// agreeing is what a program writes to a terminal before which a person sits: once
// an address of the mock Hub's business system stands there, the person opens it
// and presses a button.
type agreeing struct {
	t       *testing.T
	address string // how the address begins
	as      string // the button

	text    strings.Builder
	decided bool
}

func (a *agreeing) String() string { return a.text.String() }

func (a *agreeing) Write(b []byte) (int, error) {
	a.text.Write(b)
	_, after, shown := strings.Cut(a.text.String(), a.address)
	query, _, whole := strings.Cut(after, "\n")
	if shown && whole && !a.decided {
		a.decided = true
		asked, err := url.ParseQuery(strings.TrimSpace(query))
		if err != nil {
			a.t.Errorf("the address of the page: %v", err)
		}
		asked.Set("decision", a.as)
		response, err := http.PostForm(a.address, asked) // and on to the program, as a browser goes
		if err != nil {
			a.t.Errorf("the person's browser: %v", err)
			return len(b), nil
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			a.t.Errorf("the person's browser ends at %d", response.StatusCode)
		}
	}
	return len(b), nil
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := exampletest.Start(t, "--port", "0")
			first := p.ReadUntil(t, "A mock Hub is at ")
			hub := strings.TrimSuffix(strings.Fields(first)[5], ",")

			// Somebody waits for an operation in flight.
			answered := make(chan error, 1)
			body := `{"invocation_id":"` + situation.InFlight.InvocationID() + `","route":"` + hubtest.DefaultRoute + `","tool":"` + hubtest.WriteTool + `"}`
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub+"/agent-api/v1/tool-invocations", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+token)
			written := make(chan struct{})
			request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { close(written) },
			}))
			go func() {
				response, err := http.DefaultClient.Do(request)
				if err == nil {
					response.Body.Close()
				}
				answered <- err
			}()
			<-written

			if err := p.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			output, status := p.Rest(t)
			if status != cli.OK || p.Errors.Len() > 0 || !strings.Contains(output, "Stopped.") {
				t.Errorf("status %d, stdout %q, stderr %q", status, output, &p.Errors)
			}
			if err := <-answered; err == nil {
				t.Error("an operation in flight was answered")
			}
		})
	}
}
