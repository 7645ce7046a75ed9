package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
)

// world is a host with tracing at a mock Hub, and all its spans.
type world struct {
	t         *testing.T
	hub       *hubtest.Server
	session   hubtest.Session
	exporter  *tracetest.InMemoryExporter
	provider  *trace.TracerProvider
	transport *host.Transport
	original  host.Original

	mu      sync.Mutex
	headers []http.Header // of all requests
	tokens  []string      // that were ever good
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, hub: hubtest.NewServer(t), exporter: tracetest.NewInMemoryExporter()}
	w.session = w.hub.Login(hubtest.Grant{})
	w.provider = trace.NewTracerProvider(trace.WithSyncer(w.exporter))
	store, key, err := logIn(t.Context(), w.hub.URL, w.session)
	w.must(err)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	w.transport, err = host.New(store, agentclient.WithHTTPClient(newClient(roundTripper(func(r *http.Request) (*http.Response, error) {
		w.mu.Lock()
		w.headers = append(w.headers, r.Header)
		w.mu.Unlock()
		return base.RoundTrip(r)
	}), w.provider)))
	w.must(err)
	id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	w.must(err)
	w.original, err = w.transport.Capture(t.Context(), key, id)
	w.must(err)
	return w
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) inspect() error {
	w.noteTokens()
	_, err := inspect(w.t.Context(), w.provider, w.transport, w.original)
	w.noteTokens()
	return err
}

func (w *world) noteTokens() {
	s, _ := w.hub.Session(w.session.ID)
	w.tokens = append(w.tokens, s.AccessToken, s.RefreshToken)
}

// spans gives the spans since the last time, in the order in which they began,
// as "name status" with those beneath another one indented. It looks for
// secrets in them.
func (w *world) spans() (lines []string) {
	w.t.Helper()
	spans := w.exporter.GetSpans()
	w.exporter.Reset()
	var of func(parent oteltrace.SpanID, indent string)
	of = func(parent oteltrace.SpanID, indent string) {
		for _, s := range spans.Snapshots() {
			if s.Parent().SpanID() == parent {
				lines = append(lines, strings.TrimRight(indent+s.Name()+" "+said(s), " "))
				of(s.SpanContext().SpanID(), indent+"  ")
			}
		}
	}
	of(oteltrace.SpanID{}, "")
	if len(lines) != len(spans) {
		w.t.Errorf("%d of %d spans are beneath one of this test", len(lines), len(spans))
	}
	for _, s := range spans {
		shown := s.Name + "\n" + s.Status.Description
		for _, a := range s.Attributes {
			shown += "\n" + string(a.Key) + "=" + a.Value.String()
		}
		for _, e := range s.Events {
			shown += "\n" + e.Name
			for _, a := range e.Attributes {
				shown += "\n" + string(a.Key) + "=" + a.Value.String()
			}
		}
		for _, l := range s.Links {
			for _, a := range l.Attributes {
				shown += "\n" + string(a.Key) + "=" + a.Value.String()
			}
		}
		whole, err := json.Marshal(s) // and whatever else there may be
		w.must(err)
		for _, token := range w.tokens {
			if strings.Contains(shown+string(whole), token) {
				w.t.Errorf("a token is in the span %q", s.Name)
			}
		}
		if strings.Contains(shown, "synthetic-") || strings.Contains(shown, "Bearer") {
			w.t.Errorf("a credential is in the span %q", s.Name)
		}
	}
	return lines
}

func (w *world) want(lines ...string) {
	w.t.Helper()
	if diff := cmp.Diff(lines, w.spans()); diff != "" {
		w.t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.inspect())
	w.want("inspect an original executed", "  negotiate 200", "  read the receipt 200")

	w.hub.ExpireAccess(w.session.ID)
	w.must(w.inspect())
	w.want("inspect an original executed", "  negotiate 401", "  refresh the session 200", "  negotiate 200", "  read the receipt 200")

	w.hub.Inject(hubtest.Fault{On: hubtest.ReceiptRequest, Status: http.StatusServiceUnavailable}, hubtest.Fault{On: hubtest.ReceiptRequest, Drop: hubtest.DropRequest})
	w.must(w.inspect())
	lines := w.spans()
	lost := regexp.MustCompile(`^  read the receipt .*(EOF|malformed)`)
	if len(lines) != 5 || !lost.MatchString(lines[3]) {
		t.Errorf("a lost connection is not told: %q", lines)
	} else if diff := cmp.Diff([]string{"inspect an original executed", "  negotiate 200", "  read the receipt 503", lines[3], "  read the receipt 200"}, lines); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}

	w.hub.RemoveRecord(w.original.InvocationID)
	if err := w.inspect(); feedback.CodeOf(err) != feedback.CodeInvocationNotFound {
		t.Errorf("%v", err)
	}
	w.want("inspect an original invocation_not_found", "  negotiate 200", "  read the receipt 404")

	w.hub.Revoke(w.session.ID)
	if err := w.inspect(); feedback.CodeOf(err) != feedback.CodeAgentAuthorizationUnavailable {
		t.Errorf("%v", err)
	}
	w.want("inspect an original agent_authorization_unavailable", "  negotiate 401", "  refresh the session 400")
}

// One refresh serves all who wait for it: it is beneath the first of them.
func TestSharedRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.ExpireAccess(w.session.ID)
	w.noteTokens()
	hold := w.hub.Hold(hubtest.RefreshRequest, hubtest.AtRequest)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := inspect(t.Context(), w.provider, w.transport, w.original); err != nil {
				t.Error(err)
			}
		})
	}
	<-hold.Arrived()
	for { // until both have asked
		changed := w.hub.Changed()
		if w.hub.Requests().Capabilities == 2 {
			break
		}
		<-changed
	}
	hold.Release()
	both.Wait()
	w.noteTokens()
	refreshes := 0
	for _, line := range w.spans() {
		if line == "  refresh the session 200" {
			refreshes++
		}
	}
	if refreshes != 1 {
		t.Errorf("%d spans of refreshes", refreshes)
	}
}

// The Hub gets nothing of the trace, whatever the host has set globally.
func TestNothingOfTheTraceLeaves(t *testing.T) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	w := newWorld(t)
	w.hub.ExpireAccess(w.session.ID)
	w.must(w.inspect())
	for _, header := range w.headers {
		for name := range header {
			switch name {
			case "Accept", "Accept-Encoding", "Authorization", "Content-Type", "User-Agent":
			default:
				t.Errorf("a request has a header %s", name)
			}
		}
	}
	if len(w.headers) != 4 {
		t.Errorf("%d requests", len(w.headers))
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), nil, &stdout, &stderr); status != cli.OK || stderr.Len() > 0 {
		t.Errorf("status %d, stderr %q", status, &stderr)
	}
	var lines []string
	for line := range strings.Lines(regexp.MustCompile(` +[\d.]+(s|ms|µs)\n`).ReplaceAllString(stdout.String(), "\n")) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	if diff := cmp.Diff([]string{
		"the operation as it is",
		"inspect an original executed", "negotiate 200", "read the receipt 200",
		"with an access token that the Hub takes no more: it is refreshed",
		"inspect an original executed", "negotiate 401", "refresh the session 200", "negotiate 200", "read the receipt 200",
		"while the Hub cannot answer at first: it is asked again",
		"inspect an original executed", "negotiate 200", "read the receipt 503", "read the receipt 200",
	}, lines); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx    context.Context
		args   []string
		status int
		stderr string
	}{
		{t.Context(), []string{"-h"}, cli.OK, ""},
		{t.Context(), []string{"now"}, cli.Usage, "tracing: it takes no argument (tracing -h helps)\n"},
		{ended, nil, cli.Failed, ""},
	} {
		var stdout, stderr bytes.Buffer
		status := run(test.ctx, test.args, &stdout, &stderr)
		if status != test.status || test.stderr != "" && stderr.String() != test.stderr {
			t.Errorf("%q: status %d, stderr %q", test.args, status, &stderr)
		}
	}
}
