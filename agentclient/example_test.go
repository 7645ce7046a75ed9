package agentclient_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// asked is a Hub in memory with one executed operation, and a client of it.
func asked(opts ...agentclient.Option) (hub *hubtest.Hub, client *agentclient.BailingHubAgentClient, invocationID string) {
	hub = hubtest.New()
	session := hub.Login(hubtest.Grant{})
	invocationID, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	if err != nil {
		log.Fatal(err)
	}
	client, err = agentclient.New(agentclient.Config{
		HubURL:      "https://hub.example.com",
		Workspace:   hubtest.DefaultRoute,
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: session.AccessToken}),
	}, append([]agentclient.Option{agentclient.WithHTTPClient(&http.Client{Transport: hub.Transport()})}, opts...)...)
	if err != nil {
		log.Fatal(err)
	}
	return hub, client, invocationID
}

func ExampleNew() {
	client, err := agentclient.New(agentclient.Config{
		HubURL:      "https://hub.example.com",
		Workspace:   "inventory",
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "synthetic-access"}),
	})
	fmt.Println(client != nil, err)

	_, err = agentclient.New(agentclient.Config{HubURL: "http://hub.example.com"})
	fmt.Println(feedback.CodeOf(err))
	// Output:
	// true <nil>
	// invalid_request
}

func ExampleBailingHubAgentClient_InspectInvocation() {
	hub, client, invocationID := asked()
	defer hub.Close()

	observed, err := client.InspectInvocation(context.Background(), invocationID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(observed.Progress() == receipt.ProgressExecuted, observed.Settled())
	fmt.Println(observed.Progress().Sentence())
	// Output:
	// true true
	// The operation was executed.
}

func ExampleBailingHubAgentClient_InvocationInspectionCapabilities() {
	hub, client, _ := asked()
	defer hub.Close()

	capabilities, err := client.InvocationInspectionCapabilities(context.Background())
	fmt.Println(capabilities.ReceiptSchema, err)

	hub.SetInspection(hubtest.InspectionAbsent) // an older Hub
	_, err = client.InvocationInspectionCapabilities(context.Background())
	fmt.Println(feedback.CodeOf(err), feedback.CategoryOf(err))
	// Output:
	// bailing.agent-invocation-receipt.v1 <nil>
	// agent_schema_unsupported unsupported
}

func ExampleWithMaxRetries() {
	hub, client, invocationID := asked(agentclient.WithMaxRetries(0))
	defer hub.Close()
	hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Drop: hubtest.DropRequest})

	_, err := client.InspectInvocation(context.Background(), invocationID)
	fmt.Println(feedback.CodeOf(err), hub.Requests().Capabilities, hub.Requests().Receipt)
	// Output: agent_transport_unavailable 1 1
}

func ExampleWithTimeout() {
	hub, client, invocationID := asked(agentclient.WithTimeout(10 * time.Millisecond))
	defer hub.Close()
	hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Latency: time.Hour})

	_, err := client.InspectInvocation(context.Background(), invocationID)
	fmt.Println(feedback.CodeOf(err))
	// Output: agent_request_timeout
}

func ExampleWithNegotiationReuse() {
	hub, client, invocationID := asked(agentclient.WithNegotiationReuse(time.Minute))
	defer hub.Close()

	for range 3 {
		if _, err := client.InspectInvocation(context.Background(), invocationID); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(hub.Requests().Capabilities, hub.Requests().Receipt)
	// Output: 1 3
}

func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "duration" || a.Key == "invocation_id" {
			return slog.Attr{} // they differ from run to run
		}
		return a
	}}))
	hub, client, invocationID := asked(agentclient.WithLogger(logger))
	defer hub.Close()

	_, _ = client.InspectInvocation(context.Background(), invocationID)
	hub.RemoveRecord(invocationID)
	_, _ = client.InspectInvocation(context.Background(), invocationID)
	// Output:
	// level=INFO msg="inspection answered" code="" status=200
	// level=WARN msg="inspection failed" code=invocation_not_found status=404
}

func ExampleWithHTTPClient() {
	hub := hubtest.New()
	defer hub.Close()
	server := hub.StartTLS()
	session := hub.Login(hubtest.Grant{})

	client, err := agentclient.New(agentclient.Config{
		HubURL:      server.URL,
		Workspace:   hubtest.DefaultRoute,
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: session.AccessToken}),
	}, agentclient.WithHTTPClient(server.Client())) // it trusts the server's certificate
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.InvocationInspectionCapabilities(context.Background())
	fmt.Println(err)
	// Output: <nil>
}
