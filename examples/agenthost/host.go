package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
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
func send(ctx context.Context, path string, stdin io.Reader, out *printer) error {
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
		out.line("%s: saved, now sending", task.about)

		// Then send it, once, and only under what was captured. Whatever comes
		// of that, the operation stays open.
		request, err := prepare(ctx, login, original, task)
		if err != nil {
			return fmt.Errorf("%s: it was not sent: %w", task.about, err)
		}
		switch answer, err := submit(request); {
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

// prepare makes the request that hands an operation to the Hub. This is the
// host's own doing: the SDK has no code that could. The address is the mock
// Hub's.
func prepare(ctx context.Context, login login, original host.Original, task task) (*http.Request, error) {
	body, err := json.Marshal(hubtest.Submission{
		InvocationID: original.InvocationID,
		AgentRunID:   original.AgentRunID,
		Route:        original.Workspace,
		Tool:         original.Tool,
		Arguments:    json.RawMessage(task.arguments),
	})
	if err != nil {
		return nil, err
	}
	// The token comes from these credentials, so it is these that have to be
	// the captured ones: somebody may have logged in anew since. Sent under
	// another session, the operation could never be asked about.
	credentials, err := login.store.Credentials(ctx, login.connection.Key)
	if err != nil {
		return nil, err
	}
	if !sameBinding(credentials.Binding(), original.ExpectedBinding) {
		return nil, errors.New("the login is no longer the one that it was captured under")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, credentials.HubURL+"/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+credentials.AccessToken.Reveal())
	request.Header.Set("Content-Type", "application/json")
	request.GetBody = nil // no second body: see submit
	return request, nil
}

// sameBinding compares two bindings, the addresses of the Hub in normal form.
func sameBinding(a, b registry.Binding) bool {
	for _, binding := range []*registry.Binding{&a, &b} {
		hubURL, err := registry.NormalizeHubURL(binding.HubURL, true)
		if err != nil {
			return false
		}
		binding.HubURL = hubURL
	}
	return a == b
}

// submit sends an operation and gives what the Hub answered, for a person. That
// is how far the operation had got at that moment, and closes nothing.
func submit(request *http.Request) (answer string, err error) {
	// A connection of its own and no redirect: nothing below the host gets the
	// idea of sending an operation twice.
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
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return answered(response.StatusCode, body), err
}

// word is what a state or a code of the Hub looks like. Nothing else that it
// says is printed.
var word = regexp.MustCompile(`^[A-Za-z_]{1,64}$`)

// answered gives the state of a good answer, and else the code of the Hub.
func answered(status int, body []byte) string {
	var content struct {
		State string `json:"state"`
		Error string `json:"error"`
	}
	err := json.Unmarshal(body, &content)
	switch {
	case err == nil && status == http.StatusOK && word.MatchString(content.State):
		return content.State
	case err == nil && status != http.StatusOK && word.MatchString(content.Error):
		return fmt.Sprintf("%s (%d)", content.Error, status)
	}
	return fmt.Sprintf("nothing readable (%d)", status)
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
