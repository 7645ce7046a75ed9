package hubtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

func TestCountsAndLog(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	host.get(capabilitiesPath + "?secret=" + s.AccessToken)
	host.get(receiptPath(idA))
	host.get("/agent-api/v1/" + s.AccessToken)
	host.do(http.MethodPost, resumePath(idA), "")
	host.do(http.MethodPost, submitPath, `{"route":"catalog-agent","tool":"product_list"}`)
	host.token = ""
	host.get("/" + strings.Repeat("y", 1000))
	host.refresh(s.ClientID, s.RefreshToken)

	want := hubtest.Counts{Capabilities: 1, Receipt: 1, Refresh: 1, Submit: 1, Resume: 1, Other: 2}
	if got := hub.Requests(); got != want || got.Total() != 7 {
		t.Errorf("requests %+v, want %+v", got, want)
	}
	log := []hubtest.LogEntry{
		{N: 1, Kind: hubtest.CapabilitiesRequest, Method: "GET", Path: capabilitiesPath, Status: 400, SessionID: s.ID},
		{N: 2, Kind: hubtest.ReceiptRequest, Method: "GET", Path: receiptPath(idA), Status: 404, SessionID: s.ID},
		{N: 3, Kind: hubtest.OtherRequest, Method: "GET", Path: "/agent-api/v1/…", Status: 404, SessionID: s.ID},
		{N: 4, Kind: hubtest.ResumeRequest, Method: "POST", Path: resumePath(idA), Status: 404, SessionID: s.ID},
		{N: 5, Kind: hubtest.SubmitRequest, Method: "POST", Path: submitPath, Status: 200, SessionID: s.ID},
		{N: 6, Kind: hubtest.OtherRequest, Method: "GET", Path: "/" + strings.Repeat("y", 255), Status: 401},
		{N: 7, Kind: hubtest.RefreshRequest, Method: "POST", Path: tokenPath, Status: 200, SessionID: s.ID},
	}
	if diff := cmp.Diff(log, hub.Log(), cmpopts.IgnoreFields(hubtest.LogEntry{}, "Time")); diff != "" {
		t.Errorf("log:\n%s", diff)
	}
	if shown := fmt.Sprintf("%+v", hub.Log()); strings.Contains(shown, s.AccessToken) || strings.Contains(shown, s.RefreshToken) {
		t.Error("the log shows a token")
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	host := newHost(t, hub, hub.Login(hubtest.Grant{}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 130 {
				if _, err := host.try(t.Context(), http.MethodGet, capabilitiesPath, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(hub.Log()); got != 500 {
		t.Errorf("%d log entries, want 500", got)
	}
	for i, entry := range hub.Log() {
		if want := 1040 - 500 + i + 1; entry.N != want {
			t.Fatalf("entry %d has the number %d, want %d", i, entry.N, want)
		}
	}
	if got := hub.Requests().Capabilities; got != 1040 {
		t.Errorf("%d requests, want 1040", got)
	}
}

func TestRequestKindString(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(hubtest.AnyRequest, hubtest.CapabilitiesRequest, hubtest.ReceiptRequest, hubtest.RefreshRequest,
		hubtest.SubmitRequest, hubtest.ResumeRequest, hubtest.OtherRequest, hubtest.RequestKind(99), hubtest.RequestKind(-1))
	if want := "any capabilities receipt refresh submit resume other invalid invalid"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.GovernedTool)
	before := hub.Snapshot()
	if before.Invocations != 1 || before.Approvals != 1 || before.Journals != 0 || before.BusinessOperations != 0 {
		t.Errorf("snapshot %+v", before)
	}
	host.get(capabilitiesPath)
	host.get(receiptPath(id))
	host.refresh(s.ClientID, s.RefreshToken)
	if diff := cmp.Diff(before, hub.Snapshot()); diff != "" || before != hub.Snapshot() {
		t.Errorf("inspecting changed the Hub:\n%s", diff)
	}
	for name, change := range map[string]func(r *hubtest.Record){
		"approval":  func(r *hubtest.Record) { r.Approval.Status = hubtest.ApprovalApproved },
		"arguments": func(r *hubtest.Record) { r.Job.Arguments = []byte(`{}`) },
		"result":    func(r *hubtest.Record) { r.Job.Result = []byte(`{`) },
		"journal":   func(r *hubtest.Record) { r.Journal = &hubtest.Journal{Response: []byte("damaged")} },
		"response":  func(r *hubtest.Record) { r.Journal.Response = nil },
		"run":       func(r *hubtest.Record) { r.Run = nil },
	} {
		if name == "response" {
			must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Journal = &hubtest.Journal{Response: []byte("x")} }))
		}
		before := hub.Snapshot()
		must(t, hub.EditRecord(id, change))
		if before == hub.Snapshot() {
			t.Errorf("a change of the %s does not show", name)
		}
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := newHub(t)
		s := hub.Login(hubtest.Grant{})
		id := submit(t, hub, s, hubtest.GovernedTool)
		for name, act := range map[string]func(){
			"an approval": func() { must(t, hub.Approve(id)) },
			"a request":   func() { newHost(t, hub, s).get(capabilitiesPath) },
			"a setting":   func() { hub.SetPaused(true) },
		} {
			version, changed := hub.Version(), hub.Changed()
			if changed != hub.Changed() {
				t.Error("two channels for the same change")
			}
			act()
			<-changed
			if hub.Version() <= version {
				t.Errorf("%s did not count as a change", name)
			}
		}
		version, changed := hub.Version(), hub.Changed()
		hub.Snapshot()
		hub.Log()
		hub.Records()
		select {
		case <-changed:
			t.Error("looking changed the Hub")
		default:
		}
		if hub.Version() != version {
			t.Error("looking counts as a change")
		}
	})
}
