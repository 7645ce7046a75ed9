package hermesx_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// played is a server for which an agent has done something, and a client of it.
func played() (*hermestest.Server, *hermesx.Client) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	server := hermestest.New(hermestest.WithClock(func() time.Time { return now })).Start()
	key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
	server.Chat(hermestest.Chat{
		RequestID: "chat-001",
		SessionID: "sess_demo",
		Calls: []hermestest.Call{
			{Tool: "read_file", Input: map[string]any{"path": "SECURITY.md"}, Output: `{"bytes":512}`, Duration: 17 * time.Millisecond, TraceID: "0af7651916cd43dd8448eb211c80319c"},
			{Tool: "refund", Input: map[string]any{"order": 17}, Output: `{"refunded":true}`, Duration: 240 * time.Millisecond, IdempotencyID: "chat-001/refund/17"},
			{Tool: "refund", Input: map[string]any{"order": 17}, Output: `{"refunded":true}`, IdempotencyID: "chat-001/refund/17"},
		},
	})
	client, err := hermesx.New(hermesx.Config{
		BaseURL:     server.URL,
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: key.Secret}),
	}, agentclient.WithHTTPClient(server.Client()))
	if err != nil {
		panic(err)
	}
	return server, client
}

func ExampleNew() {
	_, err := hermesx.New(hermesx.Config{
		BaseURL:     "http://hermesx.example.com",
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "synthetic-access-key"}),
	})
	fmt.Println(err)
	// Output: inspect: invalid_request: Config.BaseURL must be https: http goes only to localhost, 127.0.0.1 and [::1], or where insecure HTTP is explicitly allowed.
}

func ExampleClient_Receipts() {
	server, client := played()
	defer server.Close()

	page, err := client.Receipts(context.Background(), hermesx.ReceiptQuery{SessionID: "sess_demo", ToolName: "read_file", Limit: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, execution := range page.Receipts {
		fmt.Println(receipt.Printable(execution.ToolName), execution.Status, execution.Duration, receipt.Printable(execution.Input))
	}
	fmt.Println("in all:", page.Total)
	// Output:
	// read_file success 17ms {"path":"SECURITY.md"}
	// in all: 1
}

func ExampleClient_AllReceipts() {
	server, client := played()
	defer server.Close()

	for execution, err := range client.AllReceipts(context.Background(), hermesx.ReceiptQuery{SessionID: "sess_demo"}) {
		switch {
		case errors.Is(err, hermesx.ErrIncomplete):
			fmt.Println("do not present this as all of them")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println(receipt.Printable(execution.ToolName), execution.Status)
		}
	}
	// Output:
	// refund success
	// read_file success
}

// Is there a receipt for an idempotency key? A server has no such filter, so
// this looks through the receipts of the session that the key was used in.
//
// The key names one side effect within a tenant. Its first receipt is
// authoritative: whoever comes with the same key again is given that receipt's
// output and nothing is run, even where the input is another one.
//
// No receipt is no permission to run anything again. The tool may be running, a
// receipt may not have been stored, and a list that ends with an error has not
// been seen to its end.
func ExampleClient_AllReceipts_idempotencyKey() {
	server, client := played()
	defer server.Close()

	receiptOf := func(ctx context.Context, sessionID, key string) (*hermesx.Receipt, error) {
		for execution, err := range client.AllReceipts(ctx, hermesx.ReceiptQuery{SessionID: sessionID}) {
			if err != nil {
				return nil, err // not known; in particular not "there is none"
			}
			if execution.IdempotencyID == key {
				return execution, nil
			}
		}
		return nil, nil
	}
	for _, key := range []string{"chat-001/refund/17", "chat-001/refund/18"} {
		switch execution, err := receiptOf(context.Background(), "sess_demo", key); {
		case err != nil:
			fmt.Println(key, "is not known:", feedback.CodeOf(err))
		case execution == nil:
			fmt.Println(key, "has no receipt: have the original looked at, run nothing")
		default:
			fmt.Println(key, "was used:", execution.Status, receipt.Printable(execution.Output))
		}
	}
	fmt.Println("tools run:", server.Runs())
	// Output:
	// chat-001/refund/17 was used: success {"refunded":true}
	// chat-001/refund/18 has no receipt: have the original looked at, run nothing
	// tools run: 2
}

func ExampleClient_Receipt() {
	server, client := played()
	defer server.Close()

	_, err := client.Receipt(context.Background(), "5106fb39-410f-4e1d-a6a2-68a9581b9fde")
	if errors.Is(err, feedback.CodeReceiptNotFound) {
		fmt.Println("no receipt is no proof that the tool did not run")
	}
	known := server.Receipts("")[0].ID
	execution, err := client.Receipt(context.Background(), known)
	fmt.Println(execution.ID == known, execution.InputTruncated(), err)
	// Output:
	// no receipt is no proof that the tool did not run
	// true false <nil>
}

func ExampleClient_AuditLogs() {
	server, client := played()
	defer server.Close()

	page, err := client.AuditLogs(context.Background(), hermesx.AuditQuery{Action: "POST /v1/agent/chat", Limit: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(page.Entries[0].RequestID, page.Entries[0].StatusCode, page.Total)
	// Output: chat-001 200 1
}

func ExampleClient_AllAuditLogs() {
	server, client := played()
	defer server.Close()

	for range 2 {
		// Reading is logged as well, and a look for its own entries: the second time
		// there is more to see.
		for entry, err := range client.AllAuditLogs(context.Background(), hermesx.AuditQuery{}) {
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(entry.Action, entry.StatusCode)
		}
		fmt.Println("-")
	}
	// Output:
	// POST /v1/agent/chat 200
	// -
	// GET /v1/audit-logs 200
	// GET /v1/audit-logs 200
	// POST /v1/agent/chat 200
	// -
}

func ExampleClient_Correlate() {
	server, client := played()
	defer server.Close()

	trail, err := client.Correlate(context.Background(), hermesx.Correlation{RequestID: "chat-001", SessionID: "sess_demo"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("request to audit entry:", trail.Request)
	fmt.Println("entry to session:", trail.Session)
	fmt.Println("session to receipts:", trail.Execution)
	fmt.Println("receipts to traces:", trail.Telemetry)
	for _, execution := range trail.Receipts {
		fmt.Printf("%s trace=%q\n", receipt.Printable(execution.ToolName), execution.TraceID)
	}
	// Output:
	// request to audit entry: recorded
	// entry to session: absent
	// session to receipts: recorded
	// receipts to traces: partly_recorded
	// read_file trace="0af7651916cd43dd8448eb211c80319c"
	// refund trace=""
}

func ExampleReceipt_InputTruncated() {
	whole := hermesx.Receipt{Input: `{"path":"SECURITY.md"}`}
	cut := hermesx.Receipt{Input: `{"data":"` + string(make([]byte, hermesx.TextLimit))}
	fmt.Println(whole.InputTruncated(), cut.InputTruncated())
	// Output: false true
}

// A long list waits for the rate limit of its server, and says so. A reading
// that ends with an error is gone on with later: here where it had waited for
// nothing.
func ExampleWithProgress() {
	server, client := played()
	defer server.Close()
	server.SetRateLimit("", 1) // 60 by default; others use it up too

	query := hermesx.ReceiptQuery{SessionID: "sess_demo", Limit: 1}
	read := func(opts ...hermesx.ListOption) error {
		for execution, err := range client.AllReceipts(context.Background(), query, opts...) {
			if err != nil {
				return err
			}
			fmt.Println(receipt.Printable(execution.ToolName))
		}
		return nil
	}
	err := read(hermesx.WithLongestWait(0), hermesx.WithProgress(func(p hermesx.Progress) {
		fmt.Printf("%d of %d\n", p.Rows, p.Counted)
	}))
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		fmt.Println(failure.StatusCode, "asks to wait", failure.RetryAfter)
		query.Cursor = failure.Cursor
	}
	server.SetRateLimit("", 60)
	fmt.Println(read())
	// Output:
	// refund
	// 1 of 2
	// 429 asks to wait 1m0s
	// read_file
	// <nil>
}

func ExampleWithLongestWait() {
	server, client := played()
	defer server.Close()
	server.SetRateLimit("", 0)

	_, err := client.Correlate(context.Background(), hermesx.Correlation{RequestID: "chat-001"}, hermesx.WithLongestWait(10*time.Second))
	fmt.Println(err)
	// Output: inspect: agent_transport_unavailable: The rate limit of the HermesX server is used up: it takes only so many requests a minute for all keys of a tenant together. It can be asked again after a pause.
}

func ExampleStatus() {
	fmt.Println(hermesx.StatusSuccess, hermesx.Status("error\x1b[2J"))
	// Output: success error\x1b[2J
}
