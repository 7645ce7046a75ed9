package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

// login is the host's connection to its Hub.
type login struct {
	store      *registry.Memory
	connection registry.Connection
}

// readLogin takes the login that somebody else has made from stdin. Memory is
// enough for a host that lives a few seconds; tokens that are renewed would be
// lost with it, and a host that lives longer has a store that lasts.
func readLogin(ctx context.Context, stdin io.Reader) (login, error) {
	text, err := io.ReadAll(io.LimitReader(stdin, registry.MaxCredentialsSize+1))
	if err != nil {
		return login{}, fmt.Errorf("the login cannot be read: %w", err)
	}
	credentials, err := registry.DecodeCredentials(text)
	if err != nil {
		return login{}, fmt.Errorf("there is no login on stdin: %w", err)
	}
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{
		HubURL:      credentials.HubURL,
		ClientAppID: credentials.ClientAppID,
		Workspace:   credentials.Workspace,
	})
	if err == nil {
		err = store.SaveCredentials(ctx, connection.Key, credentials)
	}
	return login{store, connection}, err
}

// A task is what a model asked the host to do.
type task struct {
	about, tool, arguments string
}

// tasks are those of this host.
var tasks = []task{
	{"publish the spring catalogue", hubtest.GovernedTool, `{"catalogue":"spring"}`},
	{"set the price of the blue mug", hubtest.WriteTool, `{"sku":"MUG-01","price":"12.00"}`},
	{"set the stock of the red mug", hubtest.WriteTool, `{"sku":"MUG-02","stock":40}`},
}

// send sends the host's tasks to the Hub, one after the other.
func send(ctx context.Context, path string, stdin io.Reader, stdout io.Writer) error {
	journal, err := beginJournal(path)
	if err != nil {
		return err
	}
	login, err := readLogin(ctx, stdin)
	if err != nil {
		return err
	}
	transport, err := host.New(login.store)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()

	run := newRunID() // one turn of the agent
	for _, task := range tasks {
		// First capture what the operation is sent under, and save it. After
		// this line the host may die at any moment: it can always ask.
		original, err := transport.Capture(ctx, login.connection.Key, newInvocationID())
		if err != nil {
			return err
		}
		original.Tool, original.AgentRunID = task.tool, run
		if err := journal.add(operation{About: task.about, Original: original, Open: true}); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: saved, now sending\n", task.about)

		// Then send it, once. Whatever comes of that, the operation stays open.
		switch status, err := submit(ctx, login, original, task); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			fmt.Fprintf(stdout, "%s: the connection was lost, and what became of it is not known\n", task.about)
		default:
			fmt.Fprintf(stdout, "%s: the Hub answered %d\n", task.about, status)
		}
	}
	return nil
}

// submit hands an operation to the Hub. This is the host's own doing: the SDK
// has no code that could. The address is the mock Hub's.
func submit(ctx context.Context, login login, original host.Original, task task) (status int, err error) {
	body, err := json.Marshal(hubtest.Submission{
		InvocationID: original.InvocationID,
		AgentRunID:   original.AgentRunID,
		Route:        original.Workspace,
		Tool:         original.Tool,
		Arguments:    json.RawMessage(task.arguments),
	})
	if err != nil {
		return 0, err
	}
	credentials, err := login.store.Credentials(ctx, login.connection.Key)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, credentials.HubURL+"/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+credentials.AccessToken.Reveal())
	request.Header.Set("Content-Type", "application/json")
	// A connection of its own, no redirect and no second body: nothing below
	// the host gets the idea of sending an operation twice.
	request.GetBody = nil
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, err
}

// newInvocationID makes the id of an operation: 64 hexadecimal digits.
func newInvocationID() string { return hex.EncodeToString(randomBytes(32)) }

// newRunID makes the id of a run: a UUID, version 4.
func newRunID() string {
	b := randomBytes(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // It never fails.
	return b
}
