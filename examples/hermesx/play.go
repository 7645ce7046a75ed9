package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

const (
	session = "sess_demo"
	request = "demo-agent-001"
	trace   = "0af7651916cd43dd8448eb211c80319c"
)

// calls are what the agent does with its tools, in one request.
var calls = []hermestest.Call{
	{Tool: "read_file", Input: map[string]any{"path": "ORDERS.md"}, Output: `{"bytes":512}`, Duration: 17 * time.Millisecond, TraceID: trace},
	{Tool: "refund", Input: map[string]any{"order": 17}, Output: `{"refunded":true}`, Duration: 240 * time.Millisecond, TraceID: trace, IdempotencyID: request + "/refund/17"},
	// The agent did not get the answer and tries again: the refund is not paid
	// twice, and has one receipt.
	{Tool: "refund", Input: map[string]any{"order": 17}, Output: `{"refunded":true}`, Duration: 240 * time.Millisecond, TraceID: trace, IdempotencyID: request + "/refund/17"},
	{Tool: "export_orders", Input: map[string]any{"months": 12}, Output: `{"orders":[` + strings.Repeat(`{"id":17,"state":"refunded"},`, 200) + `]}`, Duration: 1900 * time.Millisecond},
	{Tool: "send_mail", Input: map[string]any{"to": "客户"}, Status: "timeout", Duration: 30 * time.Second},
	{Tool: "fetch_page", Input: map[string]any{"url": "https://example.org"}, Output: "done\x1b[2J\u202egnp.exe\nRefund denied.", Duration: 95 * time.Millisecond},
}

// play has an agent use tools at a mock server, and shows what the server kept.
func play(ctx context.Context, out *output) error {
	// Times and ids are always the same, so that two runs read alike.
	var ticks, ids atomic.Int64
	server := hermestest.New(
		hermestest.WithClock(func() time.Time {
			return time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC).Add(time.Duration(ticks.Add(1)) * time.Second)
		}),
		hermestest.WithIDs(func() string { return fmt.Sprintf("rcpt_%d", ids.Add(1)) }),
	).Start()
	defer server.Close()
	key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
	_, executions := server.Chat(hermestest.Chat{RequestID: request, SessionID: session, Calls: calls, Latency: 33 * time.Second})

	client, err := hermesx.New(hermesx.Config{
		BaseURL:     server.URL,
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: key.Secret}),
	}, agentclient.WithHTTPClient(server.Client()))
	if err != nil {
		return err
	}
	before := server.Runs()
	out.heading(fmt.Sprintf("An agent has used tools %d times at a mock server on 127.0.0.1. This is what the server kept.", len(executions)))
	if err := show(ctx, client, options{session: session, request: request, longestWait: hermesx.DefaultLongestWait}, out); err != nil {
		return err
	}
	out.heading("READING RAN NOTHING")
	const labelColumns = 26
	out.WriteString(screen.Labelled("  tools run", labelColumns, fmt.Sprintf("%d before the reading, %d after", before, server.Runs()), out.columns))
	out.WriteString(screen.Labelled("  calls with a used key", labelColumns, fmt.Sprintf("%d, given the first receipt's output", len(executions)-before), out.columns))
	return nil
}
