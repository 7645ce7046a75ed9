package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// loggedIn gives a registry with one connection whose login is this session,
// as a login done elsewhere leaves it.
func loggedIn(ctx context.Context, hubURL string, session hubtest.Session) (*registry.Memory, string) {
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{HubURL: hubURL, ClientAppID: session.ClientID, Workspace: hubtest.DefaultRoute})
	if err != nil {
		log.Fatal(err)
	}
	err = store.SaveCredentials(ctx, connection.Key, registry.Credentials{
		HubURL: hubURL, ClientAppID: session.ClientID, Workspace: hubtest.DefaultRoute, SessionID: session.ID,
		AccessToken: registry.NewSecret(session.AccessToken), RefreshToken: registry.NewSecret(session.RefreshToken),
		AccessExpiresAt: session.AccessExpiresAt, RefreshExpiresAt: session.RefreshExpiresAt,
	})
	if err != nil {
		log.Fatal(err)
	}
	return store, connection.Key
}

// inspect is what a host writes: the ten lines of the README.
func inspect(ctx context.Context, store registry.Store, original host.Original) error {
	transport, err := host.New(store)
	if err != nil {
		return err
	}
	observed, err := transport.InspectInvocation(ctx, original)
	if err != nil {
		return err // always a *feedback.Error
	}
	fmt.Println(observed.Progress().Sentence())
	return nil
}

// whatNow is how a host goes on after an inspection: what it may do, and never
// "send it again".
func whatNow(observed *receipt.Receipt, err error) string {
	if err == nil && observed.Settled() {
		return "report: " + observed.Progress().Sentence()
	}
	if err == nil {
		return "say so, and look again later: " + observed.Progress().Sentence()
	}
	var failure *feedback.Error
	if !errors.As(err, &failure) {
		return "not an inspection's error"
	}
	switch failure.Feedback.NextAction {
	case feedback.NextInspectOriginal:
		if failure.Feedback.Retryable {
			return fmt.Sprintf("ask the same question again with a backoff, not before %v", failure.RetryAfter)
		}
		return "keep the id, and have an operator look at the original"
	case feedback.NextRestoreScope:
		return "bring the original connection back, then ask again"
	case feedback.NextReauthorize:
		return "have a person restore the original access"
	case feedback.NextCheckCompatibility:
		return "compare the versions of Hub and SDK"
	default:
		return "show this to a person: " + failure.Error()
	}
}

func ExampleTransport_InspectInvocation() {
	// A Hub in memory stands for the real one.
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	server := hub.Start()
	session := hub.Login(hubtest.Grant{})
	store, key := loggedIn(ctx, server.URL, session)

	transport, err := host.New(store)
	if err != nil {
		log.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	invocationID, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.GovernedTool})
	if err != nil {
		log.Fatal(err)
	}
	original, err := transport.Capture(ctx, key, invocationID)
	if err != nil {
		log.Fatal(err)
	}

	if err := hub.Approve(invocationID); err != nil { // while nobody looks
		log.Fatal(err)
	}
	observed, err := transport.InspectInvocation(ctx, original)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(observed.Approval.Status, observed.DispatchState, observed.Settled())
	fmt.Println(observed.Progress().Sentence())
	fmt.Println(hub.BusinessOperations(), "business operations")
	// Output:
	// approved not_dispatched false
	// The operation is approved, and by the evidence it has not been dispatched; approval alone does not carry it out.
	// 0 business operations
}

// shutDown is how a host ends its transport before its process ends.
func shutDown(transport *host.Transport) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := transport.Close(ctx); err != nil {
		log.Print(err) // names the connections whose sessions end with this process
	}
}

func ExampleTransport_Close() {
	transport, err := host.New(registry.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	shutDown(transport)
	_, err = transport.InspectInvocation(context.Background(), host.Original{})
	fmt.Println(errors.Is(err, feedback.CodeInvalidRequest))
	// Output:
	// true
}

func ExampleTransport_Unsaved() {
	transport, err := host.New(registry.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	defer shutDown(transport)
	for _, session := range transport.Unsaved() { // in a health check
		fmt.Println(session.ConnectionKey, "not saved since", session.Since)
	}
	fmt.Println(len(transport.Unsaved()), "sessions are not saved")
	// Output:
	// 0 sessions are not saved
}

func ExampleTransport_Capture() {
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{SessionID: "11111111-1111-4111-8111-111111111111"})
	store, key := loggedIn(ctx, "https://hub.example.com", session)
	transport, err := host.New(store)
	if err != nil {
		log.Fatal(err)
	}

	invocationID := "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	original, err := transport.Capture(ctx, key, invocationID)
	if err != nil {
		log.Fatal(err)
	}
	// Keep it with the operation, then send the operation.
	fmt.Printf("%+v\n", original.ExpectedBinding)
	// Output:
	// {HubURL:https://hub.example.com ClientAppID:synthetic-host Workspace:catalog-agent SessionID:11111111-1111-4111-8111-111111111111}
}

func ExampleNew() {
	_, err := host.New(nil)
	fmt.Println(err)
	transport, err := host.New(registry.NewMemory(), agentclient.WithMaxRetries(1))
	fmt.Println(transport != nil, err)
	// Output:
	// inspect: invalid_request: The store is missing.
	// true <nil>
}

// The test that the README shows to whoever tests a host.
func TestMyHostNeverRepeatsAnOperation(t *testing.T) {
	hub := hubtest.NewServer(t)
	session := hub.Login(hubtest.Grant{})
	store, key := loggedIn(t.Context(), hub.URL, session)
	original := capture(t, store, key, strings.Repeat("a", 64)) // before it is sent, and kept

	hub.Plan(hubtest.AnswerLost()) // the business system's answer gets lost
	_, err := hub.Submit(session.ID, hubtest.Submission{InvocationID: original.InvocationID, Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	if err != nil {
		t.Fatal(err)
	}

	before, sent := hub.Snapshot(), hub.Requests()
	said := reopen(t, store, original) // your host, after its restart
	after := hub.Requests()
	if hub.Snapshot() != before || after.Submit != sent.Submit || after.Resume != sent.Resume {
		t.Error("the restart sent something, or changed something")
	}
	if want := receipt.ProgressUnresolved.Sentence(); said != want {
		t.Errorf("the user is told %q", said)
	}
}

func capture(t *testing.T, store registry.Store, key, invocationID string) host.Original {
	transport, err := host.New(store)
	if err != nil {
		t.Fatal(err)
	}
	original, err := transport.Capture(t.Context(), key, invocationID)
	if err != nil {
		t.Fatal(err)
	}
	return original
}

// reopen is a host that looks at its one open operation.
func reopen(t *testing.T, store registry.Store, original host.Original) string {
	transport, err := host.New(store)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	observed, err := transport.InspectInvocation(t.Context(), original)
	if err != nil {
		t.Fatal(err)
	}
	return observed.Progress().Sentence()
}

func TestTheREADMEsHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := w.hub.Start()
	store, key := loggedIn(t.Context(), server.URL, w.session)
	transport, err := host.New(store, agentclient.WithHTTPClient(server.Client()))
	w.must(err)
	original, err := transport.Capture(t.Context(), key, w.original.InvocationID)
	w.must(err)
	w.must(inspect(t.Context(), store, original))

	answer := func(code feedback.Code, event failures.Event, status int) error {
		return failures.New(failures.Failure{Event: event, Step: failures.Receipt, Status: status, HubCode: code, RetryAfter: 3 * time.Second})
	}
	settled, err := transport.InspectInvocation(t.Context(), original)
	w.must(err)
	for want, got := range map[string]string{
		"report: The operation was executed.":                                    whatNow(settled, nil),
		"say so, and look again later: " + receipt.ProgressUnresolved.Sentence(): whatNow(&receipt.Receipt{}, nil),
		"ask the same question again with a backoff, not before 3s":              whatNow(nil, answer(feedback.CodeHubPaused, failures.Answered, 503)),
		"keep the id, and have an operator look at the original":                 whatNow(nil, answer(feedback.CodeInvocationNotFound, failures.Answered, 404)),
		"bring the original connection back, then ask again":                     whatNow(nil, answer("", failures.BindingChanged, 0)),
		"have a person restore the original access":                              whatNow(nil, answer("", failures.Answered, 401)),
		"compare the versions of Hub and SDK":                                    whatNow(nil, answer("", failures.UnknownSchema, 200)),
		"show this to a person: inspect: unknown_failure: The Hub did not answer the question, for a reason that this SDK does not know. That says nothing about the operation.": whatNow(nil, answer("", failures.Answered, 400)),
		"not an inspection's error": whatNow(nil, errors.New("something else")),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func ExampleExplain() {
	// A Hub in memory stands for the real one.
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	server := hub.Start()
	session := hub.Login(hubtest.Grant{})
	store, key := loggedIn(ctx, server.URL, session)
	transport, err := host.New(store)
	if err != nil {
		log.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	invocationID, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.GovernedTool})
	if err != nil {
		log.Fatal(err)
	}
	original, err := transport.Capture(ctx, key, invocationID)
	if err != nil {
		log.Fatal(err)
	}

	observed, err := transport.InspectInvocation(ctx, original)
	report := host.Explain(original, observed, err) // whatever came
	fmt.Println(report.Progress, report.Next)
	fmt.Println(report.Sentence)
	fmt.Println(report.Advice)

	hub.Revoke(session.ID)
	observed, err = transport.InspectInvocation(ctx, original)
	report = host.Explain(original, observed, err)
	fmt.Println(report.Code, report.Next)
	// Output:
	// awaiting_approval have_person_decide
	// The operation waits for a person's approval; by the evidence it has not been dispatched.
	// Say that a person has to decide on approval 1, and look at the original later.
	// agent_authorization_unavailable have_access_restored
}

func ExampleTransport_WatchInvocations() {
	// A Hub in memory stands for the real one.
	ctx := context.Background()
	hub := hubtest.New()
	defer hub.Close()
	server := hub.Start()
	session := hub.Login(hubtest.Grant{})
	store, key := loggedIn(ctx, server.URL, session)
	transport, err := host.New(store)
	if err != nil {
		log.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	var originals []host.Original
	for range 3 {
		invocationID, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.GovernedTool})
		if err != nil {
			log.Fatal(err)
		}
		original, err := transport.Capture(ctx, key, invocationID)
		if err != nil {
			log.Fatal(err)
		}
		originals = append(originals, original)
	}

	settled := 0
	for o := range transport.WatchInvocations(ctx, originals, host.WithInterval(time.Millisecond, time.Second)) {
		report := o.Report() // of a receipt, or of why there is none
		if report.Settled {
			settled++
			continue
		}
		// A person approves it, and the host's own code has it continued.
		if err := errors.Join(hub.Approve(o.Original.InvocationID), hub.Resume(o.Original.InvocationID)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(settled, "settled,", hub.BusinessOperations(), "business operations")
	// Output:
	// 3 settled, 3 business operations
}
