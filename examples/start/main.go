// Start is the whole of an agent host in one file: it asks about what an earlier
// process left open, sends one operation, and says how far that got. It needs a
// login, which examples/connections makes.
//
//	go run ./examples/start https://hub.example.com commerce-agent inventory
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/registry"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: start HUB CLIENT WORKSPACE")
	}
	path, err := registry.DefaultDir("")
	if err != nil {
		log.Fatal(err)
	}
	// The person has agreed to logins in plain files.
	store, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	if err != nil {
		log.Fatal(err)
	}
	shop := registry.Descriptor{HubURL: os.Args[1], ClientAppID: os.Args[2], Workspace: os.Args[3]}
	if err := run(context.Background(), store, shop, "operations.jsonl"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, store *registry.Dir, shop registry.Descriptor, path string) (err error) {
	// The unnamed connection of this Hub, client and workspace: its own login, and
	// not a newer one beside it.
	connection, err := store.Register(ctx, shop)
	if err != nil {
		return err
	}
	transport, err := host.New(store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transport.Close(context.WithoutCancel(ctx))) }()
	operations, err := journal.OpenFile(path)
	if err != nil {
		return err
	}
	defer operations.Close()

	// What an earlier process left open is asked about, and never sent again.
	for entry, err := range journal.Reopen(ctx, operations, transport) {
		if err != nil {
			return err
		}
		if err := tell(entry); err != nil {
			return err
		}
	}

	// A model asks for an operation: it is on the disk before it is sent.
	entry, err := journal.Begin(ctx, operations, transport, journal.Call{
		CallID: "call_1", ConnectionKey: connection.Key, Tool: "product_update", About: "set the price of the blue mug",
	})
	switch {
	case errors.Is(err, journal.ErrExists): // the same tool call a second time
		return tell(entry)
	case err != nil:
		return err // it was not kept, so it is not sent
	}
	token, err := transport.Token(ctx, entry.Original)
	if err != nil { // nothing has left, which the host alone can know
		return errors.Join(err, operations.Withdraw(ctx, entry.CallID))
	}
	if err := operations.Sending(ctx, entry.CallID); err != nil {
		return err
	}
	if err := submit(ctx, entry.Original, token.AccessToken, `{"sku":"MUG-01","price":"12.00"}`); err != nil {
		log.Print("the answer is lost: ", err) // the operation may have been carried out
	}

	// Whatever came of that, the evidence says how far it got.
	observed, err := transport.InspectInvocation(ctx, entry.Original)
	report := host.Explain(entry.Original, observed, err)
	if entry, err = operations.Record(ctx, entry.Original.InvocationID, report); err != nil {
		return err
	}
	return tell(entry)
}

// tell says what is known of an operation, to a model or a person.
func tell(entry journal.Entry) error {
	if entry.Report.Sentence == "" { // nobody has asked about it yet
		entry.Report = host.Explain(entry.Original, nil, nil)
	}
	_, err := fmt.Printf("%s: %s %s\n", entry.About, entry.Report.Sentence, entry.Report.Advice)
	return err
}

// submit hands the operation to the Hub, once: without a second body, a
// connection that was used before, or a redirect, nothing below repeats it.
func submit(ctx context.Context, original host.Original, token, arguments string) error {
	body, err := json.Marshal(map[string]any{
		"invocation_id": original.InvocationID, "route": original.Workspace, "tool": original.Tool, "arguments": json.RawMessage(arguments),
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, original.ExpectedBinding.HubURL+"/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.GetBody = nil
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	log.Print("the Hub answered with status ", answer.StatusCode) // which decides nothing: the receipt does
	return answer.Body.Close()
}
