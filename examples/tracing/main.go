// Tracing shows the requests of inspections as spans of OpenTelemetry. The SDK
// has no part in that and depends on none of it: the host gives it an HTTP
// client whose transport makes the spans, and a context that has one already.
//
//	cd examples/tracing && go run .
//
// A host does the same with what is in trace.go: newClient, passed to host.New
// through agentclient.WithHTTPClient, and a span of its own around the
// inspection, as in inspect. Then
//
//   - each of the two reads, each repeat of one, and the refresh of the session
//     is a span beneath the host's own;
//   - a refresh that several inspections wait for is beneath the one that
//     started it, and may end after it;
//   - no token is in any span: otelhttp notes method, URL and status, and the
//     SDK puts tokens in a header and a body only;
//   - nothing of the trace reaches the Hub, because newClient passes no
//     propagator. Without that, otelhttp sends trace ids, and baggage, as
//     headers wherever the host has set a global propagator.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

const help = `Tracing inspects an operation at a mock Hub and prints the spans of the requests.

  tracing

  -h, --help    this

Exit status: 0 it is done, 1 it failed or was stopped, 2 the command line makes no sense.
`

func main() {
	cli.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := cli.NewFlags("tracing")
	rest, status, goOn := cli.Parse(flags, args, help, stdout, stderr)
	switch {
	case !goOn:
		return status
	case len(rest) > 0:
		return cli.Complain(flags, stderr, "it takes no argument")
	}
	out := &cli.Output{To: stdout}
	err := play(ctx, &printer{to: out}, func(what string) { fmt.Fprintln(out, what) })
	if err = cmp.Or(err, out.Err); err != nil {
		fmt.Fprintln(stderr, "tracing:", err)
		return cli.Failed
	}
	return cli.OK
}

// play inspects one operation three times: as it is, with an access token that
// the Hub takes no more, and while the Hub cannot answer at first.
func play(ctx context.Context, exporter trace.SpanExporter, announce func(string)) error {
	hub := hubtest.New().Start()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	store, key, err := logIn(ctx, hub.URL, session)
	if err != nil {
		return err
	}

	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	defer func() { _ = provider.Shutdown(context.WithoutCancel(ctx)) }()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	transport, err := host.New(store, agentclient.WithHTTPClient(newClient(base, provider)))
	if err != nil {
		return err
	}

	id, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	if err != nil {
		return err
	}
	original, err := transport.Capture(ctx, key, id)
	if err != nil {
		return err
	}
	for _, scene := range []struct {
		what   string
		before func()
	}{
		{"the operation as it is", func() {}},
		{"with an access token that the Hub takes no more: it is refreshed", func() { hub.ExpireAccess(session.ID) }},
		{"while the Hub cannot answer at first: it is asked again", func() {
			hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: http.StatusServiceUnavailable})
		}},
	} {
		announce(scene.what)
		scene.before()
		if _, err := inspect(ctx, provider, transport, original); err != nil {
			return err
		}
	}
	return nil
}

// logIn makes a registry with a login that was done elsewhere.
func logIn(ctx context.Context, hubURL string, s hubtest.Session) (store *registry.Memory, key string, err error) {
	store = registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{HubURL: hubURL, ClientAppID: s.ClientID, Workspace: hubtest.DefaultRoute})
	if err != nil {
		return nil, "", err
	}
	return store, connection.Key, store.SaveCredentials(ctx, connection.Key, s.Credentials(hubURL, hubtest.DefaultRoute))
}
