package page_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	performed := func(want int) {
		t.Helper()
		if got := b.state().Counters.Performed; got != want {
			t.Errorf("%d operations performed, want %d", got, want)
		}
	}
	is := func(id, progress, buttons string) {
		t.Helper()
		if got := b.invocation(id); got.Progress != progress || got.buttons() != buttons {
			t.Errorf("%s: buttons %q; want %s: %q", got.Progress, got.buttons(), progress, buttons)
		}
	}

	approved := b.submit(hubtest.GovernedTool)
	is(approved, "awaiting_approval", "approve deny ask")
	b.do("approve", approved, "")
	is(approved, "approved_not_dispatched", "resume ask")
	performed(0)
	b.do("resume", approved, "")
	is(approved, "executed", "ask")
	performed(1)

	denied := b.submit(hubtest.GovernedTool)
	b.do("deny", denied, "")
	is(denied, "denied", "resume ask")
	b.do("resume", denied, "")
	is(denied, "denied", "ask")
	performed(1)

	is(b.submit(hubtest.WriteTool), "executed", "ask")
	is(b.submit(hubtest.ReadTool), "executed", "ask")
	performed(3)

	b.do("system", "", "rejects")
	is(b.submit(hubtest.WriteTool), "business_rejected", "ask")
	b.do("system", "", "loses")
	is(b.submit(hubtest.WriteTool), "unresolved", "ask")
	is(b.submit(hubtest.ReadTool), "unresolved", "ask")
	b.do("system", "", "hangs")
	for _, tool := range []string{hubtest.WriteTool, hubtest.ReadTool} {
		for button, progress := range map[string]string{"finish": "executed", "refuse": "business_rejected", "lose": "unresolved"} {
			id := b.submit(tool)
			is(id, "in_flight", "finish refuse lose ask")
			b.do(button, id, "")
			is(id, progress, "ask")
		}
	}
	performed(12)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	waiting := b.submit(hubtest.GovernedTool)
	nowhere := strings.Repeat("0", 64)
	refused := func(button, on, value, want string) {
		t.Helper()
		before, version := b.hub.Snapshot(), b.hub.Version()
		status, said := b.press(button, on, value)
		if status != http.StatusConflict || !strings.Contains(said, want) || strings.Contains(said, "hubtest") {
			t.Errorf("%s: %d %q, want %q", button, status, said, want)
		}
		if b.hub.Snapshot() != before || b.hub.Version() != version {
			t.Errorf("%s changed the Hub", button)
		}
	}
	for _, button := range []string{"approve", "deny", "resume", "finish", "refuse", "lose"} {
		refused(button, nowhere, "", "No invocation")
	}
	refused("damage", nowhere, "approval", "No invocation")
	refused("ask", nowhere, "", "There is no such invocation.")
	refused("finish", waiting, "", "is not in flight.")
	for _, button := range []string{"expire", "revoke", "restore"} {
		refused(button, "nobody", "", "There is no such session.")
	}
	for _, button := range []string{"system", "pause", "contract", "drop", "latency"} {
		refused(button, "", "nonsense", "The button has no such value.")
		refused(button, "", "", "The button has no such value.")
	}
	refused("latency", "", "-1", "no such value")
	refused("damage", waiting, "nonsense", "no such value")
	refused("submit", "nobody", hubtest.WriteTool, "401 Unauthorized, unauthorized.")
	refused("submit", b.alice.ID, "nonsense", "409 Conflict, capability_changed.")
	b.do("approve", waiting, "")
	refused("approve", waiting, "", "is pending.")
	b.do("pause", "", "on")
	refused("submit", b.alice.ID, hubtest.WriteTool, "503 Service Unavailable, hub_paused.")
	refused("resume", waiting, "", "hub_paused")
	b.do("pause", "", "off")
	b.do("resume", waiting, "")
	b.do("revoke", b.alice.ID, "")
	refused("submit", b.alice.ID, hubtest.WriteTool, "unauthorized")
}

func TestHowAButtonIsPressed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		name, path, kind, body string
		status                 int
	}{
		{"well", "pause", "application/json", `{"value":"on"}`, 200},
		{"with a charset", "pause", "application/json; charset=utf-8", `{"value":"on"}`, 200},
		{"a form", "pause", "application/x-www-form-urlencoded", "value=on", 415},
		{"a form as text", "pause", "text/plain", `{"value":"on"}`, 415},
		{"no type", "pause", "", `{"value":"on"}`, 415},
		{"no button", "explode", "application/json", `{"value":"on"}`, 404},
		{"no JSON", "pause", "application/json", `value=on`, 400},
		{"nothing", "pause", "application/json", "", 400},
		{"another type", "pause", "application/json", `{"value":1}`, 400},
		{"too much", "pause", "application/json", `{"value":"on","more":"` + strings.Repeat("x", 4096) + `"}`, 400},
	} {
		b.hub.SetPaused(false)
		r := httptest.NewRequest("POST", "/mockhub/do/"+test.path, strings.NewReader(test.body))
		r.Header.Set("Content-Type", test.kind)
		w := b.serve(r)
		if w.Code != test.status || w.Result().Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", test.name, w.Code, w.Body)
		}
		if b.hub.Paused() != (test.status == 200) {
			t.Errorf("%s: the Hub is paused: %t", test.name, b.hub.Paused())
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if s := b.state(); len(s.Conditions) != 0 {
		t.Errorf("at first: %q", s.Conditions)
	}
	for _, test := range []struct{ button, value, usual, note string }{
		{"system", "rejects", "executes", "says no"},
		{"system", "hangs", "executes", "in flight"},
		{"system", "loses", "executes", "is lost"},
		{"system", "hostile", "executes", "hostile text"},
		{"contract", "old", "v1", "knows no inspection"},
		{"contract", "page", "v1", "web page"},
		{"contract", "newer", "v1", "v2"},
		{"pause", "on", "off", "Inspecting goes on"},
		{"latency", "1000", "0", "takes 1 s"},
		{"latency", "20000", "0", "takes 20 s"},
	} {
		said := b.do(test.button, "", test.value)
		s := b.state()
		if s.Chosen[test.button] != test.value || len(s.Conditions) != 1 || !strings.Contains(s.Conditions[0], test.note) || said != s.Conditions[0] {
			t.Errorf("%s %s: chosen %q, conditions %q, said %q", test.button, test.value, s.Chosen, s.Conditions, said)
		}
		b.do(test.button, "", test.usual)
		if s := b.state(); s.Chosen[test.button] != test.usual || len(s.Conditions) != 0 {
			t.Errorf("%s %s: chosen %q, conditions %q", test.button, test.usual, s.Chosen, s.Conditions)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("latency", "", "20000")
	b.do("drop", "", "request")
	b.do("drop", "", "answer")
	b.do("drop", "", "answer")
	b.do("latency", "", "1000")
	var got []hubtest.Fault
	for _, f := range b.hub.Faults() {
		got = append(got, hubtest.Fault{Drop: f.Drop, Latency: f.Latency, Times: f.Times})
	}
	want := []hubtest.Fault{{Drop: hubtest.DropRequest, Times: 1}, {Drop: hubtest.DropAnswer, Times: 1}, {Drop: hubtest.DropAnswer, Times: 1}, {Latency: time.Second, Times: -1}}
	if len(got) != len(want) {
		t.Fatalf("faults %+v", got)
	}
	for i := range want {
		if got[i].Drop != want[i].Drop || got[i].Latency != want[i].Latency || got[i].Times != want[i].Times {
			t.Errorf("fault %d is %+v", i, got[i])
		}
	}
	notes := strings.Join(b.state().Conditions, "\n")
	for _, note := range []string{"1 connection is going to be lost before", "2 connections are going to be lost with the answer", "takes 1 s"} {
		if !strings.Contains(notes, note) {
			t.Errorf("%q is not said: %q", note, notes)
		}
	}
	for range 6 {
		b.do("drop", "", "request")
	}
	if status, said := b.press("drop", "", "request"); status != http.StatusConflict || len(b.hub.Faults()) != 10 {
		t.Errorf("%d %s", status, said)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	is := func(state, buttons string) {
		t.Helper()
		s := b.state().Sessions[0]
		var all []string
		for _, press := range s.Buttons {
			all = append(all, press.Do)
		}
		if s.ID != b.alice.ID || s.Name != "alice" || s.State != state || s.Live != (state == "in force") || strings.Join(all, " ") != buttons {
			t.Errorf("%+v, want %s with %q", s, state, buttons)
		}
	}
	asks := func(status int) {
		t.Helper()
		r := httptest.NewRequest("GET", "/agent-api/v1/tool-invocations/inspection-capabilities", nil)
		r.Header.Set("Authorization", "Bearer "+b.alice.AccessToken)
		if w := b.serve(r); w.Code != status {
			t.Errorf("the Hub answers %d, want %d", w.Code, status)
		}
	}
	id := b.submit(hubtest.WriteTool)
	is("in force", "expire end revoke")
	asks(200)
	b.do("expire", b.alice.ID, "")
	is("access token expired", "restore end revoke")
	asks(401)
	if got := b.invocation(id).Progress; got != "executed" {
		t.Errorf("a host that renews its token learns %s", got)
	}
	b.do("restore", b.alice.ID, "")
	is("in force", "expire end revoke")
	asks(200)
	b.do("end", b.alice.ID, "")
	is("over", "restore")
	asks(401)
	if got := b.invocation(id).Progress; got != "agent_authorization_unavailable" {
		t.Errorf("a host whose session is over learns %s", got)
	}
	b.do("restore", b.alice.ID, "")
	is("in force", "expire end revoke")
	asks(200)
	b.do("revoke", b.alice.ID, "")
	is("revoked", "restore")
	asks(401)
	if got := b.invocation(id); got.Progress != "agent_authorization_unavailable" || got.fact("next_action") != "reauthorize" {
		t.Errorf("a host learns %+v", got)
	}
	b.do("restore", b.alice.ID, "")
	asks(200)
}

// Asking is an inspection like any other: it is counted, logged and meets
// faults, and performs nothing.
func TestAsk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := httptest.NewServer(b.page)
	t.Cleanup(server.Close)
	id := b.submit(hubtest.GovernedTool)
	b.do("approve", id, "")
	snapshot := b.hub.Snapshot()
	press := func(want string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/mockhub/do/ask", strings.NewReader(`{"on":"`+id+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var said strings.Builder
		if err := response.Write(&said); err != nil || response.StatusCode != 200 || !strings.Contains(said.String(), want) {
			t.Errorf("%s %v", &said, err)
		}
	}
	for range 10 {
		press("A host that asks is told: The operation is approved, and by the evidence it has not been dispatched")
	}
	if c := b.state().Counters; c.Inspections != 10 || c.Negotiations != 10 || c.Performed != 0 {
		t.Errorf("counters %+v", c)
	}
	b.do("drop", "", "answer")
	press("is approved") // the SDK asks once more
	b.do("damage", id, "approval")
	press("(invocation_record_invalid)")
	b.do("contract", "", "old")
	press("(agent_schema_unsupported)")
	b.do("contract", "", "v1")
	b.hub.Revoke(b.alice.ID)
	press("(agent_authorization_unavailable)")
	if b.hub.Snapshot().BusinessOperations != snapshot.BusinessOperations {
		t.Error("asking performed something")
	}
}

// Every button of the page does something, and everything has a button.
func TestThePageHasEveryButton(t *testing.T) {
	t.Parallel()
	html, err := os.ReadFile("files/index.html")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`data-do="(\w+)" data-value="(\w+)"`).FindAllStringSubmatch(string(html), -1) {
		b := newBench(t)
		button, value, on := match[1], match[2], ""
		switch button {
		case "submit":
			on = b.alice.ID
		case "damage":
			on = b.submit(hubtest.WriteTool)
		}
		b.do(button, on, value)
		found[button+" "+value] = true
	}
	for _, want := range []string{
		"submit product_publish", "submit product_update", "submit product_list",
		"system executes", "system rejects", "system hangs", "system loses", "system hostile",
		"contract v1", "contract old", "contract page", "contract newer", "pause on", "drop request", "drop answer",
		"latency 0", "latency 1000", "latency 20000",
		"damage approval", "damage result", "damage journal", "damage marker", "damage identity", "damage run",
	} {
		if !found[want] {
			t.Errorf("there is no button %q", want)
		}
	}
}
