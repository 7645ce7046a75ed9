package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/registry"
)

// exampleHub is a Hub in memory that stands for the real one, and a host that is
// logged in to it.
func exampleHub(ctx context.Context) (hub *hubtest.Server, session hubtest.Session, transport *host.Transport, connectionKey string) {
	hub = hubtest.New().Start()
	session = hub.Login(hubtest.Grant{})
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{HubURL: hub.URL, ClientAppID: session.ClientID, Workspace: hubtest.DefaultRoute})
	if err != nil {
		log.Fatal(err)
	}
	err = store.SaveCredentials(ctx, connection.Key, session.Credentials(hub.URL, hubtest.DefaultRoute))
	if err != nil {
		log.Fatal(err)
	}
	transport, err = host.New(store)
	if err != nil {
		log.Fatal(err)
	}
	return hub, session, transport, connection.Key
}

func ExampleBegin() {
	ctx := context.Background()
	hub, session, transport, connectionKey := exampleHub(ctx)
	defer hub.Close()
	defer transport.CloseIdleConnections()
	folder, err := os.MkdirTemp("", "journal-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	operations, err := journal.OpenFile(filepath.Join(folder, "operations.jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	defer operations.Close()

	// call is what a host does when a model asks for an operation.
	call := func(callID string) {
		entry, err := journal.Begin(ctx, operations, transport, journal.Call{CallID: callID, ConnectionKey: connectionKey, Tool: hubtest.WriteTool, About: "set the price of the blue mug"})
		if errors.Is(err, journal.ErrExists) {
			fmt.Println(callID, "was made before:", entry.State)
			return
		}
		if err != nil {
			log.Fatal(err) // nothing was kept, so nothing is sent
		}
		if err := operations.Sending(ctx, callID); err != nil {
			log.Fatal(err)
		}
		_, err = hub.Submit(session.ID, hubtest.Submission{InvocationID: entry.Original.InvocationID, Route: entry.Original.Workspace, Tool: entry.Original.Tool})
		fmt.Println(callID, "was sent:", err == nil)
	}
	call("call_1")
	call("call_1") // the framework repeats it
	fmt.Println(hub.BusinessOperations(), "business operation")
	// Output:
	// call_1 was sent: true
	// call_1 was made before: prepared
	// 1 business operation
}

func ExampleReopen() {
	ctx := context.Background()
	hub, session, transport, connectionKey := exampleHub(ctx)
	defer hub.Close()
	defer transport.CloseIdleConnections()
	folder, err := os.MkdirTemp("", "journal-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	operations, err := journal.OpenFile(filepath.Join(folder, "operations.jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	defer operations.Close()
	entry, err := journal.Begin(ctx, operations, transport, journal.Call{CallID: "call_1", ConnectionKey: connectionKey, Tool: hubtest.WriteTool, About: "set the price of the blue mug"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := hub.Submit(session.ID, hubtest.Submission{InvocationID: entry.Original.InvocationID, Route: entry.Original.Workspace, Tool: entry.Original.Tool}); err != nil {
		log.Fatal(err)
	}

	// … the process ends before it has the answer, and starts again …
	for entry, err := range journal.Reopen(ctx, operations, transport) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s (%s)\n", entry.About, entry.Report.Sentence, entry.State)
	}
	// Output:
	// set the price of the blue mug: The operation was executed. (settled)
}

// inTheBackground is what a host runs for as long as it lives.
func inTheBackground(ctx context.Context, operations journal.Journal, transport *host.Transport, tell func(journal.Entry), opts ...host.WatchOption) error {
	for entry, err := range journal.Keep(ctx, operations, transport, opts...) {
		if err != nil {
			return err
		}
		tell(entry)
	}
	return nil // nothing is open any more, or ctx has ended
}

func ExampleKeep() {
	ctx := context.Background()
	hub, session, transport, connectionKey := exampleHub(ctx)
	defer hub.Close()
	defer transport.CloseIdleConnections()
	folder, err := os.MkdirTemp("", "journal-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	operations, err := journal.OpenFile(filepath.Join(folder, "operations.jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	defer operations.Close()
	entry, err := journal.Begin(ctx, operations, transport, journal.Call{CallID: "call_1", ConnectionKey: connectionKey, Tool: hubtest.GovernedTool, About: "publish the catalogue"})
	if err != nil {
		log.Fatal(err)
	}
	id := entry.Original.InvocationID
	if _, err := hub.Submit(session.ID, hubtest.Submission{InvocationID: id, Route: entry.Original.Workspace, Tool: entry.Original.Tool}); err != nil {
		log.Fatal(err)
	}

	err = inTheBackground(ctx, operations, transport, func(entry journal.Entry) {
		fmt.Println(entry.About+":", entry.Report.Progress, entry.State)
		if entry.IsOpen() { // a person approves it, and it is continued
			if err := errors.Join(hub.Approve(id), hub.Resume(id)); err != nil {
				log.Fatal(err)
			}
		}
	}, host.WithInterval(time.Millisecond, time.Second))
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// publish the catalogue: awaiting_approval prepared
	// publish the catalogue: executed settled
}
