package adkhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/llmagent"
	"google.golang.org/adk/model"
	"google.golang.org/adk/plugin"
	"google.golang.org/adk/plugin/retryandreflect"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/adk/tool"
	"google.golang.org/adk/tool/functiontool"
	"google.golang.org/adk/tool/toolconfirmation"
	"google.golang.org/genai"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	adkhost "github.com/bailinghub/bailinghub-go/examples/adk"
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

// where the session of every test is.
var where = &session.GetRequest{AppName: "shop", UserID: "user-1", SessionID: "session-1"}

// scripted is a model that says one thing after the other: contents as they stand,
// and for nil what the last tool said.
type scripted struct{ script *[]*genai.Content }

// script gives a model that says this.
func script(contents ...*genai.Content) scripted { return scripted{&contents} }

func (s scripted) Name() string { return "scripted" }

func (s scripted) GenerateContent(_ context.Context, request *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		content, err := s.next(request.Contents)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(&model.LLMResponse{Content: content, TurnComplete: true}, nil)
	}
}

func (s scripted) next(input []*genai.Content) (*genai.Content, error) {
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
	answer := last.Parts[0].FunctionResponse
	if answer == nil {
		return nil, fmt.Errorf("the last content is no answer of a tool: %v", last.Parts[0])
	}
	data, err := json.Marshal(answer.Response)
	return genai.NewContentFromText("The tool says: "+string(data), genai.RoleModel), err
}

// wellFormed refuses what the services behind models refuse: calls that are not
// answered, all of them, by the content right after them.
func wellFormed(contents []*genai.Content) error {
	for i, content := range contents {
		var calls, answers []string
		for _, part := range content.Parts {
			if part.FunctionCall != nil {
				calls = append(calls, part.FunctionCall.Name)
			}
		}
		if i+1 < len(contents) {
			for _, part := range contents[i+1].Parts {
				if part.FunctionResponse != nil {
					answers = append(answers, part.FunctionResponse.Name)
				}
			}
		}
		if len(calls) > 0 && !reflect.DeepEqual(calls, answers) {
			return fmt.Errorf("the calls of %v are answered by %v", calls, answers)
		}
	}
	return nil
}

// call gives a content that calls the tool that writes. ADK makes up an id where
// there is none.
func call(id string, arguments map[string]any) *genai.Content {
	return calls(&genai.FunctionCall{ID: id, Name: hubtest.WriteTool, Args: arguments})
}

func calls(calls ...*genai.FunctionCall) *genai.Content {
	content := &genai.Content{Role: genai.RoleModel}
	for _, call := range calls {
		content.Parts = append(content.Parts, &genai.Part{FunctionCall: call})
	}
	return content
}

// update is what the model is told of the tool.
var update = functiontool.Config{Name: hubtest.WriteTool, Description: "Sets the price of a product."}

// look is a tool that only looks something up: it is no operation.
func look() (tool.Tool, error) {
	return functiontool.New(functiontool.Config{Name: "look", Description: "Looks a price up."}, func(tool.Context, map[string]any) (map[string]any, error) {
		return map[string]any{"price": "12.00"}, nil
	})
}

// newRunner gives a host: an agent with the two tools, and our plugin where no others
// are given.
func newRunner(operations adkhost.Operations, config functiontool.Config, model model.LLM, sessions session.Service, plugins ...*plugin.Plugin) (*runner.Runner, error) {
	update, err := operations.Tool(config)
	if err != nil {
		return nil, err
	}
	look, err := look()
	if err != nil {
		return nil, err
	}
	shopkeeper, err := llmagent.New(llmagent.Config{Name: "shopkeeper", Description: "keeps a shop", Model: model, Tools: []tool.Tool{update, look}})
	if err != nil {
		return nil, err
	}
	if plugins == nil {
		ours, err := operations.Plugin()
		if err != nil {
			return nil, err
		}
		plugins = []*plugin.Plugin{ours}
	}
	return runner.New(runner.Config{
		AppName: where.AppName, Agent: shopkeeper, SessionService: sessions, AutoCreateSession: true,
		PluginConfig: runner.PluginConfig{Plugins: plugins},
	})
}

// run runs the agent and gives the last text that it says.
func run(ctx context.Context, r *runner.Runner, message *genai.Content) (last string, err error) {
	for event, err := range r.Run(ctx, where.UserID, where.SessionID, message, agent.RunConfig{}) {
		if err != nil {
			return last, err
		}
		if event.Content != nil {
			for _, part := range event.Content.Parts {
				last = part.Text
			}
		}
	}
	return last, nil
}

// please is what the user asks for.
func please() *genai.Content {
	return genai.NewContentFromText("Set the price of the blue mug to 12.00.", genai.RoleUser)
}

// fileSessions keeps the sessions of the framework's own service in memory in a
// file too, one event a line, so that they outlast the process.
type fileSessions struct {
	session.Service
	file *os.File
}

func openSessions(ctx context.Context, path string) (fileSessions, error) {
	s := fileSessions{Service: session.InMemoryService()}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, err
	}
	created, err := s.Create(ctx, &session.CreateRequest{AppName: where.AppName, UserID: where.UserID, SessionID: where.SessionID})
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(data)) {
		var event session.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return s, err
		}
		if err := s.Service.AppendEvent(ctx, created.Session, &event); err != nil {
			return s, err
		}
	}
	s.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return s, err
}

func (s fileSessions) AppendEvent(ctx context.Context, in session.Session, event *session.Event) error {
	if event.Partial {
		return s.Service.AppendEvent(ctx, in, event)
	}
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(data, '\n')); err != nil {
		return err
	}
	return s.Service.AppendEvent(ctx, in, event)
}

// world is a mock Hub and what lies on the disk of a host that is logged in to it.
type world struct {
	hub                        *hubtest.Server
	folder, file, session, key string
	t                          *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, hub: hubtest.NewServer(t)}
	d := registry.Descriptor{HubURL: w.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}
	var err error
	w.key, err = d.ConnectionKey()
	must(t, err)
	w.folder = lockport.Quiet(t.TempDir(), "registry", w.key)
	w.file, w.session = filepath.Join(t.TempDir(), "operations.jsonl"), filepath.Join(t.TempDir(), "session.jsonl")
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
func open(folder, file, key string) (adkhost.Operations, func(), error) {
	store, err := registry.OpenDir(folder, registry.AllowPlainCredentials())
	if err != nil {
		return adkhost.Operations{}, nil, err
	}
	transport, err := host.New(store)
	if err != nil {
		return adkhost.Operations{}, nil, err
	}
	operations, err := journal.OpenFile(file)
	if err != nil {
		return adkhost.Operations{}, nil, err
	}
	return adkhost.Operations{Journal: operations, Transport: transport, Connection: key}, func() {
		_ = operations.Close()
		transport.CloseIdleConnections()
	}, nil
}

// operations opens them for a test.
func (w *world) operations() adkhost.Operations {
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

// childHost FOLDER JOURNAL SESSION KEY SCRIPT is a host in a process of its own. It
// goes on with its session and prints what the model says at last.
func childHost(args []string) error {
	ctx := context.Background()
	var said []*genai.Content
	if err := json.Unmarshal([]byte(args[4]), &said); err != nil {
		return err
	}
	operations, done, err := open(args[0], args[1], args[3])
	if err != nil {
		return err
	}
	defer done()
	sessions, err := openSessions(ctx, args[2])
	if err != nil {
		return err
	}
	defer sessions.file.Close()
	reopened, err := operations.Reopen(ctx, sessions, where)
	if err != nil {
		return err
	}
	r, err := newRunner(operations, update, scripted{&said}, sessions)
	if err != nil {
		return err
	}
	var message *genai.Content // none: the model goes on with what was reopened
	if reopened == 0 {
		message = please()
	}
	last, err := run(ctx, r, message)
	if err != nil {
		return err
	}
	fmt.Println(last)
	return nil
}

// host starts a host whose model says this.
func (w *world) host(contents ...*genai.Content) *childtest.Child {
	w.t.Helper()
	data, err := json.Marshal(contents)
	must(w.t, err)
	return childtest.Start(w.t, "host", w.folder, w.file, w.session, w.key, string(data))
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

// A host is killed while its operation is out. What starts over its session and
// its journal tells the model what became of it, and nothing is sent again: neither
// then, nor when the model repeats the call.
func TestAfterAKill(t *testing.T) {
	for name, test := range map[string]struct {
		outcome hubtest.Outcome
		want    receipt.Progress
	}{
		"carried out":     {hubtest.Executed("the price is 12.00"), receipt.ProgressExecuted},
		"refused":         {hubtest.Answered(409, "the price is fixed"), receipt.ProgressBusinessRejected},
		"answer lost":     {hubtest.AnswerLost(), receipt.ProgressUnresolved},
		"still under way": {hubtest.Hanging(), receipt.ProgressInFlight},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hub.Plan(test.outcome)
			hold := w.hub.Hold(hubtest.SubmitRequest, hubtest.AtAnswer)
			ask := call("call-1", map[string]any{"sku": "MUG-01", "price": 12.5})
			child := w.host(calls(ask.Parts[0].FunctionCall, &genai.FunctionCall{ID: "call-2", Name: "look", Args: map[string]any{}}))
			out := hold.Arrived() // the Hub's answer, which is held back
			if test.want == receipt.ProgressInFlight {
				out = w.performed() // there is none
			}
			kill(t, child, out)
			hold.Release()
			w.sent(1, 1)

			// The next message of the model is about the report.
			reports(t, w.host(nil).Done(), test.want)
			w.sent(1, 1)
			data, err := os.ReadFile(w.session)
			must(t, err)
			if n := strings.Count(string(data), "What the call did is not known."); n != 1 {
				t.Errorf("the call that is no operation is answered %d times:\n%s", n, data)
			}

			// The model makes the very same call again.
			reports(t, w.host(ask, nil).Done(), test.want)
			w.sent(1, 1)
		})
	}
}

// What a model hears of a call, and what is sent, while the host lives.
func TestCalls(t *testing.T) {
	first, other := call("call-1", map[string]any{"price": 12}), call("call-1", map[string]any{"price": 13})
	for name, test := range map[string]struct {
		drop      hubtest.Drop
		script    []*genai.Content
		want      receipt.Progress // of the report in the model's last message
		says      string           // where that is none
		submits   int
		performed int
	}{
		"carried out":          {script: []*genai.Content{first, nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"answer lost":          {drop: hubtest.DropAnswer, script: []*genai.Content{first, nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"request lost":         {drop: hubtest.DropRequest, script: []*genai.Content{first, nil}, says: `"answered":false`, submits: 1},
		"same call again":      {script: []*genai.Content{first, first, nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"same call twice":      {script: []*genai.Content{calls(first.Parts[0].FunctionCall, first.Parts[0].FunctionCall), nil}, says: `"answered":`, submits: 1, performed: 1},
		"id of another call":   {script: []*genai.Content{first, other, nil}, says: journal.ErrExists.Error(), submits: 1, performed: 1},
		"id that ADK makes up": {script: []*genai.Content{call("", map[string]any{}), nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"no arguments":         {script: []*genai.Content{call("call-1", nil), nil}, want: receipt.ProgressExecuted, submits: 1, performed: 1},
		"asked for anew":       {script: []*genai.Content{first, call("call-2", map[string]any{"price": 12}), nil}, want: receipt.ProgressExecuted, submits: 2, performed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hub.Inject(hubtest.Fault{On: hubtest.SubmitRequest, Drop: test.drop})
			r, err := newRunner(w.operations(), update, script(test.script...), session.InMemoryService())
			must(t, err)
			said, err := run(t.Context(), r, please())
			must(t, err)
			if test.want != "" {
				reports(t, said, test.want)
			} else if !strings.Contains(said, test.says) {
				t.Errorf("the model says %q, want %q", said, test.says)
			}
			w.sent(test.submits, test.performed)
		})
	}
}

// An operation that could not be sent at all leaves nothing open, and its error is
// left to the plugins after.
func TestNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.operations()
	operations.Connection = "conn_" + strings.Repeat("0", 32)
	ours, err := operations.Plugin()
	must(t, err)
	r, err := newRunner(operations, update, script(call("call-1", nil), nil), session.InMemoryService(), ours, retryandreflect.MustNew())
	must(t, err)
	said, err := run(t.Context(), r, please())
	must(t, err)
	if !strings.Contains(said, "reflection_guidance") {
		t.Errorf("the model says %q", said)
	}
	for entry, err := range operations.Journal.Open(t.Context()) {
		t.Errorf("open: %v, %v", entry, err)
	}
	w.sent(0, 0)
}

// The retry plugin has the model ask anew for what failed. It does not get to see an
// error of an operation that was sent, unless it stands before ours.
func TestRetryPlugin(t *testing.T) {
	t.Parallel()
	for _, retryFirst := range []bool{false, true} {
		w := newWorld(t)
		operations := w.operations()
		ours, err := operations.Plugin()
		must(t, err)
		plugins := []*plugin.Plugin{ours, retryandreflect.MustNew()}
		if retryFirst {
			plugins[0], plugins[1] = plugins[1], plugins[0]
		}
		r, err := newRunner(operations, update, script(call("call-1", nil), call("call-1", nil), nil), session.InMemoryService(), plugins...)
		must(t, err)
		said, err := run(t.Context(), r, please())
		must(t, err)
		if retryFirst {
			if !strings.Contains(said, "reflection_guidance") {
				t.Errorf("the model says %q; the README warns of the order", said)
			}
		} else {
			reports(t, said, receipt.ProgressExecuted)
		}
		w.sent(1, 1)
	}
}

// A run is cancelled while its operation is out. ADK records an answer to the call
// all the same: it is the report, not "context canceled".
func TestCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.operations()
	sessions := session.InMemoryService()
	hold := w.hub.Hold(hubtest.SubmitRequest, hubtest.AtAnswer)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hold.Arrived()
		cancel()
	}()
	r, err := newRunner(operations, update, script(call("call-1", nil), nil), sessions)
	must(t, err)
	_, _ = run(ctx, r, please()) // how it ends is not what matters here
	hold.Release()
	got, err := sessions.Get(t.Context(), where)
	must(t, err)
	var answers []string
	for event := range got.Session.Events().All() {
		for _, part := range event.Content.Parts {
			if part.FunctionResponse != nil {
				data, err := json.Marshal(part.FunctionResponse.Response)
				must(t, err)
				answers = append(answers, string(data))
			}
		}
	}
	if len(answers) != 1 {
		t.Fatalf("the call is answered %d times: %q", len(answers), answers)
	}
	reports(t, answers[0], receipt.ProgressExecuted)
	reopened, err := operations.Reopen(t.Context(), sessions, where)
	if err != nil || reopened != 0 {
		t.Errorf("%d calls were reopened: %v", reopened, err)
	}
	w.sent(1, 1)
}

// A person confirms the call first. ADK runs the tool twice for that, under one id,
// and the operation is sent once it is confirmed. A session that is reopened
// meanwhile goes on waiting for the person.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.operations()
	sessions := session.InMemoryService()
	config := update
	config.RequireConfirmation = true
	r, err := newRunner(operations, config, script(call("call-1", nil), nil), sessions)
	must(t, err)
	if _, err := run(t.Context(), r, please()); err != nil {
		t.Fatal(err)
	}
	w.sent(0, 0)
	if reopened, err := operations.Reopen(t.Context(), sessions, where); err != nil || reopened != 0 {
		t.Errorf("%d calls were reopened: %v", reopened, err)
	}
	got, err := sessions.Get(t.Context(), where)
	must(t, err)
	confirmed := &genai.Content{Role: genai.RoleUser}
	for event := range got.Session.Events().All() {
		for _, part := range event.Content.Parts {
			if part.FunctionCall != nil && part.FunctionCall.Name == toolconfirmation.FunctionCallName {
				confirmed.Parts = append(confirmed.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
					ID: part.FunctionCall.ID, Name: part.FunctionCall.Name, Response: map[string]any{"confirmed": true},
				}})
			}
		}
	}
	said, err := run(t.Context(), r, confirmed)
	must(t, err)
	reports(t, said, receipt.ProgressExecuted)
	w.sent(1, 1)
}
