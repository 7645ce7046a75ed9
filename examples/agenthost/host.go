package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// A task is what a model asked the host to do, under the id of its tool call.
type task struct{ call, about, tool, arguments string }

// tasks are those of this host.
var tasks = []task{
	{"call_1", "publish the spring catalogue", hubtest.GovernedTool, `{"catalogue":"spring"}`},
	{"call_2", "set the price of the blue mug", hubtest.WriteTool, `{"sku":"MUG-01","price":"12.00"}`},
	{"call_3", "set the stock of the red mug", hubtest.WriteTool, `{"sku":"MUG-02","stock":40}`},
}

// open opens the journal and takes the login that somebody else has made from
// stdin. Memory is enough for a host that lives a few seconds; tokens that are
// renewed would be lost with it, and a host that lives longer has a store that
// lasts.
func open(ctx context.Context, path string, stdin io.Reader) (operations *journal.File, transport *host.Transport, key string, err error) {
	text, err := io.ReadAll(io.LimitReader(stdin, registry.MaxCredentialsSize+1))
	if err != nil {
		return nil, nil, "", fmt.Errorf("the login cannot be read: %w", err)
	}
	login, err := registry.DecodeCredentials(text)
	if err != nil {
		return nil, nil, "", fmt.Errorf("there is no login on stdin: %w", err)
	}
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{HubURL: login.HubURL, ClientAppID: login.ClientAppID, Workspace: login.Workspace})
	if err == nil {
		err = store.SaveCredentials(ctx, connection.Key, login)
	}
	if err == nil {
		transport, err = host.New(store)
	}
	if err == nil {
		operations, err = journal.OpenFile(path)
	}
	return operations, transport, connection.Key, err
}

// send sends the host's tasks to the Hub, one after the other, and none that was
// sent before.
func send(ctx context.Context, path string, stdin io.Reader, out *printer) error {
	operations, transport, key, err := open(ctx, path, stdin)
	if err != nil {
		return err
	}
	defer operations.Close()
	defer transport.CloseIdleConnections()
	for _, task := range tasks {
		// After this the host may die at any moment: it can always ask.
		entry, err := journal.Begin(ctx, operations, transport, journal.Call{CallID: task.call, ConnectionKey: key, Tool: task.tool, About: task.about})
		if errors.Is(err, journal.ErrExists) {
			out.line("%s: this call was made before, so nothing is sent", task.about)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: it was not sent: %w", task.about, err)
		}
		token, err := transport.Token(ctx, entry.Original)
		if err != nil { // nothing has left, and only the host can know that
			return errors.Join(fmt.Errorf("%s: it was not sent: %w", task.about, err), operations.Withdraw(context.WithoutCancel(ctx), task.call))
		}
		if err := operations.Sending(ctx, task.call); err != nil {
			return fmt.Errorf("%s: it was not sent: %w", task.about, err)
		}
		out.line("%s: saved, now sending", task.about)
		// Whatever comes of this, the operation stays open.
		switch answer, err := submit(ctx, entry.Original, token.AccessToken, task.arguments); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			out.line("%s: the connection was lost, and what became of it is not known", task.about)
		default:
			out.line("%s: the Hub answered: %s", task.about, answer)
		}
	}
	return out.err
}

// submit hands an operation to the Hub, and gives what it answered, for a person.
// That is how far the operation had got at that moment, and closes nothing. To
// send is the host's own doing: the SDK has no code that could.
func submit(ctx context.Context, original host.Original, token, arguments string) (answer string, err error) {
	body, err := json.Marshal(hubtest.Submission{InvocationID: original.InvocationID, Route: original.Workspace, Tool: original.Tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, original.ExpectedBinding.HubURL+"/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	// No second body, a connection of its own and no redirect: nothing below the
	// host gets the idea of sending an operation twice.
	request.GetBody = nil
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return answered(response.StatusCode, content), err
}

// word is what a state or a code of the Hub looks like. Nothing else that it
// says is printed.
var word = regexp.MustCompile(`^[A-Za-z_]{1,64}$`)

// answered gives the state of a good answer, and else the code of the Hub.
func answered(status int, body []byte) string {
	var content struct{ State, Error string }
	err := json.Unmarshal(body, &content)
	switch {
	case err == nil && status == http.StatusOK && word.MatchString(content.State):
		return content.State
	case err == nil && status != http.StatusOK && word.MatchString(content.Error):
		return fmt.Sprintf("%s (%d)", content.Error, status)
	}
	return fmt.Sprintf("nothing readable (%d)", status)
}

// report asks about every operation that is open, all at once, and then watches
// those that still are for a while. It sends none, whatever it learns.
func report(ctx context.Context, path string, stdin io.Reader, out *printer, watch, look time.Duration) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there are no operations: %w", err)
	}
	operations, transport, _, err := open(ctx, path, stdin)
	if err != nil {
		return err
	}
	defer operations.Close()
	defer transport.CloseIdleConnections()
	if torn := operations.Torn(); torn.Bytes > 0 {
		out.line("line %d was not finished when the host ended, so it was not sent, and was cut off", torn.Line)
	}
	told := map[string]journal.Entry{}
	for entry, err := range journal.Reopen(ctx, operations, transport) {
		if err != nil {
			return err
		}
		told[entry.CallID] = entry
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out.line("open operations: %d", len(told))
	for _, task := range tasks {
		if entry, asked := told[task.call]; asked {
			out.entry(entry)
		}
	}
	if watch == 0 || !anyMoves(told) {
		return out.err
	}
	out.line("\nwatching for %v", watch)
	limited, cancel := context.WithTimeout(ctx, watch)
	defer cancel()
	for entry, err := range journal.Keep(limited, operations, transport, host.WithInterval(look, 30*look)) {
		if err != nil {
			return err
		}
		last := told[entry.CallID]
		told[entry.CallID] = entry
		if entry.Report.Progress != last.Report.Progress || entry.Report.Code != last.Report.Code || entry.State != last.State {
			out.entry(entry)
		}
		if !anyMoves(told) {
			break
		}
	}
	return errors.Join(ctx.Err(), out.err)
}

// anyMoves reports whether one of the entries may get further without a person
// who looks into it.
func anyMoves(told map[string]journal.Entry) bool {
	for _, entry := range told {
		switch entry.Report.Next {
		case host.NextLookLater, host.NextPersonDecides, host.NextAskAgain:
			return true
		}
	}
	return false
}

// entry says what is known of an operation, and what a model may hear of it.
func (p *printer) entry(entry journal.Entry) {
	learned, became, stays := "progress", string(entry.Report.Progress), "closed"
	if !entry.Report.Answered {
		learned, became = "no answer", string(entry.Report.Code)
	}
	if entry.IsOpen() {
		stays = "stays open"
	}
	p.line("\n%s", receipt.Printable(entry.About))
	p.labelled("  "+learned, 16, became+", "+stays)
	p.labelled("  to the model", 16, entry.Report.Sentence+" "+entry.Report.Advice)
}
