package einohost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	einohost "github.com/bailinghub/bailinghub-go/examples/eino"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestMain(m *testing.M) {
	childtest.RunOnly("host", childHost)
	os.Exit(m.Run())
}

// scripted is a model that says one thing after the other: a message that calls
// tools as it stands, and for nil what the last tool said.
type scripted struct{ script *[]*schema.Message }

// script gives a model that says this.
func script(messages ...*schema.Message) scripted { return scripted{&messages} }

func (s scripted) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return s, nil }

func (s scripted) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	if err := wellFormed(input); err != nil {
		return nil, err
	}
	if len(*s.script) == 0 {
		return nil, errors.New("the script is over")
	}
	next := (*s.script)[0]
	*s.script = (*s.script)[1:]
	if next != nil {
		return next, nil
	}
	last := input[len(input)-1]
	if last.Role != schema.Tool {
		return nil, fmt.Errorf("the last message is of the %s, not of a tool", last.Role)
	}
	return schema.AssistantMessage("The tool says: "+last.Content, nil), nil
}

func (s scripted) Stream(ctx context.Context, input []*schema.Message, options ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	message, err := s.Generate(ctx, input, options...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{message}), nil
}

// wellFormed refuses what the services behind models refuse: a call that is not
// answered by the messages right after it.
func wellFormed(messages []*schema.Message) error {
	for i, message := range messages {
		for j, call := range message.ToolCalls {
			if at := i + 1 + j; at >= len(messages) || messages[at].Role != schema.Tool || messages[at].ToolCallID != call.ID {
				return fmt.Errorf("the call %q is not answered", call.ID)
			}
		}
	}
	return nil
}

// call gives a message that calls the tool that writes.
func call(id, arguments string) *schema.Message {
	return calls(schema.ToolCall{ID: id, Type: "function", Function: schema.FunctionCall{Name: hubtest.WriteTool, Arguments: arguments}})
}

func calls(calls ...schema.ToolCall) *schema.Message { return schema.AssistantMessage("", calls) }

// updateTool is what the model is told of the tool.
var updateTool = &schema.ToolInfo{Name: hubtest.WriteTool, Desc: "Sets the price of a product."}

// lookTool only looks something up: it is no operation.
type lookTool struct{}

func (lookTool) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: "look"}, nil
}

func (lookTool) InvokableRun(context.Context, string, ...tool.Option) (string, error) {
	return "12.00", nil
}

// world is a mock Hub and what lies on the disk of a host that is logged in to it.
type world struct {
	hub                             *hubtest.Server
	folder, file, conversation, key string
	t                               *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, hub: hubtest.NewServer(t)}
	d := registry.Descriptor{HubURL: w.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}
	var err error
	w.key, err = d.ConnectionKey()
	must(t, err)
	w.folder = lockport.Quiet(t.TempDir(), "registry", w.key)
	w.file, w.conversation = filepath.Join(t.TempDir(), "operations.jsonl"), filepath.Join(t.TempDir(), "conversation.json")
	store, err := registry.OpenDir(w.folder, registry.AllowPlainCredentials())
	must(t, err)
	_, err = store.Register(t.Context(), d)
	must(t, err)
	session := w.hub.Login(hubtest.Grant{})
	must(t, store.SaveCredentials(t.Context(), w.key, registry.Credentials{
		HubURL: w.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute, SessionID: session.ID,
		AccessToken: registry.NewSecret(session.AccessToken), RefreshToken: registry.NewSecret(session.RefreshToken),
		AccessExpiresAt: session.AccessExpiresAt, RefreshExpiresAt: session.RefreshExpiresAt,
	}))
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens what lies on the disk. The function closes it.
func open(folder, file, key string) (einohost.Operations, func(), error) {
	store, err := registry.OpenDir(folder, registry.AllowPlainCredentials())
	if err != nil {
		return einohost.Operations{}, nil, err
	}
	transport, err := host.New(store)
	if err != nil {
		return einohost.Operations{}, nil, err
	}
	operations, err := journal.OpenFile(file)
	if err != nil {
		return einohost.Operations{}, nil, err
	}
	return einohost.Operations{Journal: operations, Transport: transport, Connection: key, Conversation: "conversation-1"}, func() {
		_ = operations.Close()
		transport.CloseIdleConnections()
	}, nil
}

// operations opens them for a test.
func (w *world) operations() einohost.Operations {
	w.t.Helper()
	operations, done, err := open(w.folder, w.file, w.key)
	must(w.t, err)
	w.t.Cleanup(done)
	return operations
}

// sent checks how many operations were sent to the Hub and carried out in all.
func (w *world) sent(submits, performed int) {
	w.t.Helper()
	if counts := w.hub.Requests(); counts.Submit != submits || counts.Resume != 0 || w.hub.BusinessOperations() != performed {
		w.t.Errorf("the Hub had %d operations sent, %d resumed and %d carried out, want %d, 0 and %d",
			counts.Submit, counts.Resume, w.hub.BusinessOperations(), submits, performed)
	}
}

// reports checks that a text of the model has a report of this progress.
func reports(t *testing.T, text string, want receipt.Progress) {
	t.Helper()
	var report host.Report
	if err := json.Unmarshal([]byte(strings.TrimPrefix(text, "The tool says: ")), &report); err != nil {
		t.Errorf("the model says %q: %v", text, err)
	}
	if report.Progress != want || report.Sentence != want.Sentence() {
		t.Errorf("the model says %q, want a report of %s", text, want)
	}
}

// childHost FOLDER JOURNAL CONVERSATION KEY SCRIPT is a host in a process of its
// own. It goes on with its conversation and prints what the model says at last.
func childHost(args []string) error {
	ctx := context.Background()
	folder, file, conversation, key := args[0], args[1], args[2], args[3]
	var said []*schema.Message
	if err := json.Unmarshal([]byte(args[4]), &said); err != nil {
		return err
	}
	operations, done, err := open(folder, file, key)
	if err != nil {
		return err
	}
	defer done()

	messages, err := load(conversation)
	if err != nil {
		return err
	}
	if messages, err = operations.Patch(ctx, messages); err != nil {
		return err
	}
	if len(messages) == 0 || messages[len(messages)-1].Role != schema.Tool {
		messages = append(messages, schema.UserMessage("Set the price of the blue mug to 12.00."))
	}
	if err := save(conversation, messages); err != nil {
		return err
	}
	last, err := chat(ctx, operations, scripted{&said}, messages, func(_ context.Context, messages []*schema.Message) error {
		return save(conversation, messages)
	})
	if err != nil {
		return err
	}
	fmt.Println(last)
	return nil
}

// chat runs an agent on a conversation and gives the last text.
func chat(ctx context.Context, operations einohost.Operations, model scripted, messages []*schema.Message, save func(context.Context, []*schema.Message) error) (last string, err error) {
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "shopkeeper", Description: "keeps a shop", Model: model,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{operations.Tool(updateTool), lookTool{}}}},
		Middlewares: []adk.AgentMiddleware{operations.AgentMiddleware(save)},
	})
	if err != nil {
		return "", err
	}
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent}).Run(ctx, messages)
	for {
		event, ok := events.Next()
		if !ok {
			return last, nil
		}
		if event.Err != nil {
			return last, event.Err
		}
		message, err := event.Output.MessageOutput.GetMessage()
		if err != nil {
			return last, err
		}
		last = message.Content
	}
}

// load reads a conversation; one that is not there is new.
func load(path string) (messages []*schema.Message, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return messages, json.Unmarshal(data, &messages)
}

// save replaces a conversation. A process that ends in the middle leaves the old
// one; a host whose machine can lose power also syncs the file and its folder.
func save(path string, messages []*schema.Message) error {
	data, err := json.Marshal(messages)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// host starts a host whose model says this.
func (w *world) host(messages ...*schema.Message) *childtest.Child {
	w.t.Helper()
	data, err := json.Marshal(messages)
	must(w.t, err)
	return childtest.Start(w.t, "host", w.folder, w.file, w.conversation, w.key, string(data))
}

// performed is closed when the Hub has had an operation carried out.
func (w *world) performed() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			changed := w.hub.Changed()
			if w.hub.BusinessOperations() > 0 {
				return
			}
			select {
			case <-changed:
			case <-w.t.Context().Done():
				return
			}
		}
	}()
	return done
}

// kill kills a host once its operation is out, while it waits for an answer.
func kill(t *testing.T, child *childtest.Child, out <-chan struct{}) {
	t.Helper()
	ended := make(chan string, 1)
	go func() {
		said, err := child.End()
		ended <- fmt.Sprintf("%s (%v)", said, err)
	}()
	select {
	case <-out:
	case said := <-ended:
		t.Fatalf("the host ended before it had sent anything: %s", said)
	}
	must(t, child.Process.Kill())
	if said := <-ended; child.ProcessState.Exited() {
		t.Fatalf("the host was not killed: %s", said)
	}
}

// A host is killed while its operation is out. What starts over its conversation
// and its journal tells the model what became of it, and nothing is sent again:
// neither then, nor when the model repeats the call.
func TestAfterAKill(t *testing.T) {
	for name, test := range map[string]struct {
		outcome   hubtest.Outcome
		want      receipt.Progress
		performed int
	}{
		"carried out":     {hubtest.Executed("the price is 12.00"), receipt.ProgressExecuted, 1},
		"refused":         {hubtest.Answered(409, "the price is fixed"), receipt.ProgressBusinessRejected, 1},
		"answer lost":     {hubtest.AnswerLost(), receipt.ProgressUnresolved, 1},
		"still under way": {hubtest.Hanging(), receipt.ProgressInFlight, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hub.Plan(test.outcome)
			hold := w.hub.Hold(hubtest.SubmitRequest, hubtest.AtAnswer)
			ask := call("call-1", `{"sku":"MUG-01","price":"12.00"}`)
			child := w.host(calls(ask.ToolCalls[0], schema.ToolCall{ID: "call-2", Function: schema.FunctionCall{Name: "look", Arguments: "{}"}}))
			out := hold.Arrived() // the Hub's answer, which is held back
			if test.want == receipt.ProgressInFlight {
				out = w.performed() // there is none
			}
			kill(t, child, out)
			hold.Release()
			w.sent(1, test.performed)

			if said := w.host(schema.AssistantMessage("I have read it.", nil)).Done(); said != "I have read it." {
				t.Errorf("the model says %q", said)
			}
			messages, err := load(w.conversation)
			must(t, err)
			if len(messages) != 5 {
				t.Fatalf("%d messages: %v", len(messages), messages)
			}
			reports(t, messages[2].Content, test.want)
			if messages[3].ToolCallID != "call-2" || !strings.Contains(messages[3].Content, "is not known") {
				t.Errorf("the call that was no operation is answered with %q", messages[3].Content)
			}
			w.sent(1, test.performed)

			// The model makes the very same call again.
			reports(t, w.host(ask, nil).Done(), test.want)
			w.sent(1, test.performed)
		})
	}
}

// A host is killed before its model has said anything about the answer: the next
// message of the model is about the report.
func TestNextMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hold := w.hub.Hold(hubtest.SubmitRequest, hubtest.AtAnswer)
	child := w.host(call("call-1", `{}`))
	kill(t, child, hold.Arrived())
	hold.Release()
	reports(t, w.host(nil).Done(), receipt.ProgressExecuted)
	w.sent(1, 1)
}

// reactAgent gives the other agent of the framework, with the same middleware.
func reactAgent(t *testing.T, operations einohost.Operations, model model.ToolCallingChatModel) *react.Agent {
	t.Helper()
	agent, err := react.NewAgent(t.Context(), &react.AgentConfig{
		ToolCallingModel: model,
		ToolsConfig: compose.ToolsNodeConfig{
			Tools:               []tool.BaseTool{operations.Tool(updateTool)},
			ToolCallMiddlewares: []compose.ToolMiddleware{operations.ToolMiddleware()},
		},
	})
	must(t, err)
	return agent
}

// ask runs the agent on one message of a user, as a stream too.
func ask(t *testing.T, agent *react.Agent, stream bool) (string, error) {
	t.Helper()
	input := []*schema.Message{schema.UserMessage("Set the price of the blue mug to 12.00.")}
	if !stream {
		message, err := agent.Generate(t.Context(), input)
		if err != nil {
			return "", err
		}
		return message.Content, nil
	}
	messages, err := agent.Stream(t.Context(), input)
	if err != nil {
		return "", err
	}
	message, err := schema.ConcatMessageStream(messages)
	if err != nil {
		return "", err
	}
	return message.Content, nil
}

// What a model hears of a call, and what is sent, while the host lives.
func TestCalls(t *testing.T) {
	first, other := call("call-1", `{"price":"12.00"}`), call("call-1", `{"price":"13.00"}`)
	for name, test := range map[string]struct {
		drop      hubtest.Drop
		script    []*schema.Message
		want      receipt.Progress // of the report in the model's last message
		err       error            // that ends the run
		submits   int
		performed int
	}{
		"carried out":           {script: []*schema.Message{first, nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"answer lost":           {drop: hubtest.DropAnswer, script: []*schema.Message{first, nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"request lost":          {drop: hubtest.DropRequest, script: []*schema.Message{first, nil}, submits: 1},
		"same call again":       {script: []*schema.Message{first, first, nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"id of another call":    {script: []*schema.Message{first, other, nil}, err: journal.ErrExists, submits: 1, performed: 1},
		"call without an id":    {script: []*schema.Message{call("", `{}`), nil}, err: errAny},
		"arguments are no JSON": {script: []*schema.Message{call("call-1", `{"price`), nil}, err: errAny},
		"no arguments":          {script: []*schema.Message{call("call-1", ""), nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"asked for anew":        {script: []*schema.Message{first, call("call-2", `{"price":"12.00"}`), nil}, want: receipt.ProgressExecuted, submits: 2, performed: 2},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.hub.Inject(hubtest.Fault{On: hubtest.SubmitRequest, Drop: test.drop})
				said, err := ask(t, reactAgent(t, w.operations(), script(test.script...)), stream)
				switch {
				case test.err == nil && err != nil, test.err != nil && err == nil, test.err != nil && test.err != errAny && !errors.Is(err, test.err):
					t.Errorf("the run ends with %v, want %v", err, test.err)
				case test.err != nil:
				case test.want != "":
					reports(t, said, test.want)
				case !strings.Contains(said, `"answered":false`):
					t.Errorf("the model says %q", said)
				}
				w.sent(test.submits, test.performed)
			})
		}
	}
}

// errAny is any error.
var errAny = errors.New("any error")

// An operation that could not be sent at all leaves nothing open, and the same
// call may be made again.
func TestNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.operations()
	before := operations.Connection
	operations.Connection = "conn_" + strings.Repeat("0", 32)
	if said, err := ask(t, reactAgent(t, operations, script(call("call-1", `{}`), nil)), false); err == nil {
		t.Errorf("without a connection the model says %q", said)
	}
	for entry, err := range operations.Journal.Open(t.Context()) {
		t.Errorf("open: %v, %v", entry, err)
	}
	w.sent(0, 0)
	operations.Connection = before
	said, err := ask(t, reactAgent(t, operations, script(call("call-1", `{}`), nil)), false)
	must(t, err)
	reports(t, said, receipt.ProgressExecuted)
	w.sent(1, 1)
}

// What the model said cannot be saved, so no tool is called.
func TestUnsaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := errors.New("the disk is full")
	said, err := chat(t.Context(), w.operations(), script(call("call-1", `{}`), nil), []*schema.Message{schema.UserMessage("Do it.")}, func(context.Context, []*schema.Message) error {
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("the run ends with %q, %v", said, err)
	}
	w.sent(0, 0)
}

// A run that is cancelled leaves its call unanswered. Patch answers it.
func TestCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.operations()
	hold := w.hub.Hold(hubtest.SubmitRequest, hubtest.AtAnswer)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hold.Arrived()
		cancel()
	}()
	message := call("call-1", `{}`)
	if said, err := reactAgent(t, operations, script(message, nil)).Generate(ctx, []*schema.Message{schema.UserMessage("Do it.")}); !errors.Is(err, context.Canceled) {
		t.Errorf("the run ends with %v, %v", said, err)
	}
	hold.Release()
	patched, err := operations.Patch(t.Context(), []*schema.Message{schema.UserMessage("Do it."), message})
	must(t, err)
	if err := wellFormed(patched); err != nil || len(patched) != 3 {
		t.Fatalf("patched: %v, %v", patched, err)
	}
	reports(t, patched[2].Content, receipt.ProgressExecuted)
	again, err := operations.Patch(t.Context(), patched)
	must(t, err)
	if len(again) != 3 {
		t.Errorf("patched again: %v", again)
	}
	w.sent(1, 1)
}

// What Patch says of calls that are not in the journal, and what it leaves alone.
func TestPatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.operations()
	_, err := operations.Do(t.Context(), operations.Call("call-1", hubtest.WriteTool, `{"price":"12.00"}`), `{"price":"12.00"}`)
	must(t, err)
	messages := []*schema.Message{
		schema.UserMessage("Do it."),
		calls(call("call-1", `{"price":"13.00"}`).ToolCalls[0], call("", `{}`).ToolCalls[0], call("call-3", `{}`).ToolCalls[0]),
		schema.ToolMessage("It is done.", "call-3"),
		schema.UserMessage("And?"),
	}
	patched, err := operations.Patch(t.Context(), messages)
	must(t, err)
	var got []string
	for _, message := range patched {
		got = append(got, string(message.Role)+" "+message.ToolCallID)
		if message.Role == schema.Tool && message.ToolCallID != "call-3" && !strings.Contains(message.Content, "has no record of an operation for it") {
			t.Errorf("the call %q is answered with %q", message.ToolCallID, message.Content)
		}
	}
	if want := "user |assistant |tool call-3|tool call-1|tool |user "; strings.Join(got, "|") != want {
		t.Errorf("patched: %s, want %s", strings.Join(got, "|"), want)
	}
	w.sent(1, 1)
}
