package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/registry"
)

// story plays a Hub, a person, and the fate of the host, which runs as a
// process of its own.
func story(ctx context.Context, to *printer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // with it ends whatever process is left
	out := &teller{printer: to}
	folder, err := os.MkdirTemp("", "agenthost-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "operations.jsonl")

	hub := hubtest.New()
	defer hub.Close()
	server := hub.Start()
	login, err := encode(server, hub.Login(hubtest.Grant{}))
	if err != nil {
		return err
	}
	// The business system takes its time, and the network has its ways: the
	// second operation never reaches the Hub.
	working, done := make(chan struct{}), make(chan struct{})
	hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) {
		r.Tools[hubtest.WriteTool] = hubtest.Tool{Run: func(ctx context.Context, _ hubtest.Operation) hubtest.Outcome {
			close(working)
			select {
			case <-done:
			case <-ctx.Done():
			}
			return hubtest.Executed(`{"stock":40}`)
		}}
	})
	hub.Inject(hubtest.Fault{On: hubtest.SubmitRequest, Skip: 1, Drop: hubtest.DropRequest})

	out.scene("A host sends three operations. It saves each one before.")
	first, err := start(ctx, out, login, "send", "--file", file)
	if err != nil {
		return err
	}
	select {
	case <-working:
	case err := <-first.exited:
		return errors.Join(errors.New("the host ended too early"), err)
	}

	if err := first.Process.Kill(); err != nil {
		return err
	}
	<-first.exited
	out.scene("The host is killed (SIGKILL) while the business system works on the third.")
	out.say("exit status of the host: %v", first.ProcessState)

	out.scene("Nobody looks. A person approves the first, and the third is done.")
	ids, err := invocations(ctx, file)
	if err != nil {
		return err
	}
	if err := hub.Approve(ids[0]); err != nil {
		return err
	}
	close(done)
	err = until(ctx, hub, func() bool {
		r, _ := hub.Record(ids[2])
		return r.Job.Status == hubtest.JobFinished
	})
	if err != nil {
		return err
	}
	out.say("the journal holds %d operations, all of them open", len(ids))
	performed, requests := hub.BusinessOperations(), hub.Requests()

	out.scene("The host starts again. Its framework makes the same tool calls once more.")
	again, err := start(ctx, out, login, "send", "--file", file)
	if err != nil {
		return err
	}
	if err := <-again.exited; err != nil {
		return fmt.Errorf("the host failed: %w", err)
	}

	out.scene("It asks about all of them at once, and watches what is not settled. Meanwhile a person has the first one continued.")
	second, err := start(ctx, out, login, "report", "--file", file, "--watch", "1m", "--look", "20ms")
	if err != nil {
		return err
	}
	// The person comes when the host has asked about all three, and has looked
	// at the two that are open once more.
	if err := until(ctx, hub, func() bool { return hub.Requests().Receipt >= requests.Receipt+2*len(tasks)-1 }); err != nil {
		return err
	}
	before := hub.BusinessOperations()
	if err := hub.Resume(ids[0]); err != nil {
		return err
	}
	if err := <-second.exited; err != nil {
		return fmt.Errorf("the host failed: %w", err)
	}

	out.scene("What that did.")
	now := hub.Requests()
	submits, resumes := now.Submit-requests.Submit, now.Resume-requests.Resume
	out.say("after it was killed the host sent %d submits and %d resumes; the rest were questions", submits, resumes)
	out.say("business operations performed: %d when it was killed, %d after its questions, %d once the person had continued one", performed, before, hub.BusinessOperations())
	if performed != 1 || before != 1 || hub.BusinessOperations() != 2 || submits+resumes != 0 {
		return errors.New("that should have been one business operation of each, and nothing sent after the host was killed")
	}
	return out.err
}

// until waits until something holds of the Hub.
func until(ctx context.Context, hub *hubtest.Hub, holds func() bool) error {
	for {
		changed := hub.Changed()
		if holds() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// invocations gives the ids of what is open in a journal that nobody has open.
func invocations(ctx context.Context, path string) (ids []string, err error) {
	operations, err := journal.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer operations.Close()
	for entry, err := range operations.Open(ctx) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, entry.Original.InvocationID)
	}
	if len(ids) != len(tasks) {
		return nil, fmt.Errorf("the journal holds %d operations, not %d", len(ids), len(tasks))
	}
	return ids, nil
}

// encode gives a login in the form in which it goes to the host, through a
// pipe: no token stands on a command line, in the environment or in a file.
func encode(server *hubtest.Server, session hubtest.Session) ([]byte, error) {
	return registry.EncodeCredentials(session.Credentials(server.URL, hubtest.DefaultRoute))
}

// A process is this program once more.
type process struct {
	*exec.Cmd
	exited chan error // has how it ended, once what it printed has been told
}

// start runs this program as a process of its own, which ends with ctx.
func start(ctx context.Context, out *teller, stdin []byte, args ...string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args = append(args, "--width", strconv.Itoa(max(narrowest, out.columns-len(margin))))
	p := &process{exec.CommandContext(ctx, program, args...), make(chan error, 1)}
	p.Stdin = bytes.NewReader(stdin)
	lines := &indented{out: out}
	p.Stdout, p.Stderr = lines, lines
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() { p.exited <- p.Wait() }()
	return p, nil
}

// A teller prints the story.
type teller struct {
	*printer
	scenes int
}

func (t *teller) scene(title string) {
	t.scenes++
	number := fmt.Sprintf("%d. ", t.scenes)
	t.print("\n" + screen.Labelled(number, len(number), title, t.columns) + "\n")
}

func (t *teller) say(format string, args ...any) {
	t.print(screen.Paragraph("   ", "     ", fmt.Sprintf(format, args...), t.columns))
}

// margin is what stands before the lines of a process.
const margin = "   | "

// indented tells what a process prints, line by line.
type indented struct {
	out  *teller
	rest []byte
}

func (i *indented) Write(text []byte) (int, error) {
	i.rest = append(i.rest, text...)
	for {
		line, rest, whole := bytes.Cut(i.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		i.rest = rest
		i.out.print(strings.TrimRight(margin+string(line), " ") + "\n")
	}
}
