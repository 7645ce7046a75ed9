package hubtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// inspect is a stand-in for the host under test: it reads one receipt.
func inspect(client *http.Client, url, token, id string) {
	req, err := http.NewRequest(http.MethodGet, url+"/agent-api/v1/tool-invocations/"+id+"/receipt", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := client.Do(req)
	if err != nil {
		fmt.Println("the connection was lost")
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		fmt.Println("the answer was cut off")
		return
	}
	var receipt struct {
		Error    string
		Result   *struct{ State string }
		Approval struct{ Status string }
		Dispatch string `json:"dispatch_state"`
		Journal  string `json:"journal_state"`
	}
	if err := json.Unmarshal(body, &receipt); err != nil || receipt.Result == nil {
		fmt.Println(res.StatusCode, receipt.Error)
		return
	}
	fmt.Printf("result %s, approval %s, dispatch %s, journal %s\n",
		receipt.Result.State, receipt.Approval.Status, receipt.Dispatch, receipt.Journal)
}

func Example() {
	hub := hubtest.New()
	defer hub.Close()
	server := hub.Start()
	session := hub.Login(hubtest.Grant{})

	id, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.GovernedTool})
	if err != nil {
		fmt.Println(err)
		return
	}
	look := func() { inspect(server.Client(), server.URL, session.AccessToken, id) }
	look()
	_ = hub.Approve(id)
	look()
	_ = hub.Resume(id)
	look()
	fmt.Println(hub.BusinessOperations(), "business operation")
	// Output:
	// result awaiting_approval, approval pending, dispatch not_dispatched, journal absent
	// result awaiting_approval, approval approved, dispatch not_dispatched, journal absent
	// result executed, approval approved, dispatch attempted, journal completed
	// 1 business operation
}

func ExampleHub_Transport() {
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	hub.Plan(hubtest.Hanging())
	id, _ := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.ReadTool})

	client := &http.Client{Transport: hub.Transport()}
	inspect(client, "https://any.example", session.AccessToken, id)
	_ = hub.Finish(id, hubtest.Executed(`{"items":[]}`))
	inspect(client, "https://any.example", session.AccessToken, id)
	// Output:
	// result in_progress, approval none, dispatch attempted, journal absent
	// result executed, approval none, dispatch attempted, journal absent
}

func ExampleHub_Inject() {
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	id, _ := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})

	hub.Inject(
		hubtest.Fault{On: hubtest.ReceiptRequest, Drop: hubtest.DropRequest},
		hubtest.Fault{On: hubtest.ReceiptRequest, Drop: hubtest.DropMidBody},
		hubtest.Fault{On: hubtest.ReceiptRequest, Status: 503, Body: []byte(`{"error":"hub_paused"}`), Header: http.Header{"Retry-After": {"1"}}},
	)
	client := &http.Client{Transport: hub.Transport()}
	for range 4 {
		inspect(client, "https://any.example", session.AccessToken, id)
	}
	// Output:
	// the connection was lost
	// the answer was cut off
	// 503 hub_paused
	// result executed, approval none, dispatch attempted, journal completed
}

func ExampleHub_Hold() {
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	id, _ := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})

	hold := hub.Hold(hubtest.ReceiptRequest, hubtest.AtRequest)
	done := make(chan struct{})
	go func() {
		defer close(done)
		inspect(&http.Client{Transport: hub.Transport()}, "https://any.example", session.AccessToken, id)
	}()
	<-hold.Arrived()
	hub.Revoke(session.ID) // while the request is under way
	hold.Release()
	<-done
	// Output: 401 unauthorized
}

func ExampleHub_Snapshot() {
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	id, _ := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})

	before := hub.Snapshot()
	inspect(&http.Client{Transport: hub.Transport()}, "https://any.example", session.AccessToken, id)
	fmt.Println("nothing changed:", hub.Snapshot() == before)
	fmt.Printf("%+v\n", hub.Requests())
	// Output:
	// result executed, approval none, dispatch attempted, journal completed
	// nothing changed: true
	// {Capabilities:0 Receipt:1 Refresh:0 Submit:0 Resume:0 Start:0 Exchange:0 Session:0 Revoke:0 Consent:0 Other:0}
}

func ExampleHub_EditRoute() {
	hub := hubtest.New()
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})

	stock := 0
	hub.EditRoute("warehouse", func(r *hubtest.Route) {
		r.Tools["stock_add"] = hubtest.Tool{Run: func(_ context.Context, op hubtest.Operation) hubtest.Outcome {
			var in struct{ N int }
			if json.Unmarshal(op.Arguments, &in) != nil || in.N < 1 {
				return hubtest.Answered(422, "n must be a number from 1")
			}
			stock += in.N
			return hubtest.Executed(fmt.Sprintf(`{"stock":%d}`, stock))
		}}
	})
	body := []byte(`{"route":"warehouse","tool":"stock_add","arguments":{"n":3}}`)
	req, err := http.NewRequest(http.MethodPost, "https://any.example/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+session.AccessToken)
	res, err := (&http.Client{Transport: hub.Transport()}).Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	var result struct{ State, Text string }
	if err := json.NewDecoder(res.Body).Decode(&result); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State, result.Text)
	// Output: executed {"stock":3}
}

// A person logs a program in: here the test presses the button, and brings the
// address that the browser would be sent to.
func ExampleConsent() {
	hub := hubtest.New().Start()
	defer hub.Close()
	page := &hubtest.Consent{Hub: hub.Hub, Account: hubtest.Account{ID: "account-7", Name: "Synthetic Person"}}

	ctx := context.Background()
	client, err := agentauth.New(agentauth.Config{
		HubURL: hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute, DeviceLabel: "laptop",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()
	login, err := client.Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer login.Close()

	callback, err := page.Agree(ctx, login.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := login.Paste(ctx, callback); err != nil {
		fmt.Println(err)
		return
	}
	_, session, err := login.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(session.SubjectName, "acts for", session.OnBehalfOf, "in", session.Workspaces)
	fmt.Printf("%+v\n", hub.Requests())
	// Output:
	// Synthetic Person acts for account-7 in [catalog-agent]
	// {Capabilities:0 Receipt:0 Refresh:0 Submit:0 Resume:0 Start:1 Exchange:1 Session:1 Revoke:0 Consent:2 Other:0}
}
