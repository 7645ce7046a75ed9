package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/mockhub/internal/page"
)

// A bench is a Hub with a page and two sessions.
type bench struct {
	t          *testing.T
	hub        *hubtest.Hub
	page       *page.Page
	alice, bob hubtest.Session
}

func newBench(t *testing.T) *bench {
	t.Helper()
	hub := hubtest.New()
	t.Cleanup(hub.Close)
	b := &bench{t: t, hub: hub, alice: hub.Login(hubtest.Grant{}), bob: hub.Login(hubtest.Grant{})}
	b.page = page.New(hub, page.Session{Name: "alice", ID: b.alice.ID}, page.Session{Name: "bob", ID: b.bob.ID})
	return b
}

func (b *bench) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.page.ServeHTTP(w, r)
	return w
}

// press presses a button. It gives the status and what is said.
func (b *bench) press(button, on, value string) (status int, said string) {
	b.t.Helper()
	body, err := json.Marshal(map[string]string{"on": on, "value": value})
	if err != nil {
		b.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/mockhub/do/"+button, strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	w := b.serve(r)
	var answer struct{ Said string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Said == "" {
		b.t.Errorf("%s: %d %q", button, w.Code, w.Body)
	}
	return w.Code, answer.Said
}

// do presses a button that has to work.
func (b *bench) do(button, on, value string) string {
	b.t.Helper()
	status, said := b.press(button, on, value)
	if status != http.StatusOK {
		b.t.Fatalf("%s: %d %s", button, status, said)
	}
	return said
}

// submit presses a button for a new operation and gives its id.
func (b *bench) submit(tool string) string {
	b.t.Helper()
	b.do("submit", b.alice.ID, tool)
	return b.state().Invocations[0].ID
}

type state struct {
	Run      string
	Counters struct{ Inspections, Negotiations, Performed, Before, Requests int }
	Chosen   map[string]string
	Sessions []struct {
		ID, Name, State string
		Live            bool
		Rotations       int
		Buttons         []button
	}
	Logins []struct {
		ID, Device, For, State, Page string
		Live                         bool
		Buttons                      []button
	}
	Conditions  []string
	Invocations []invocation
	Older       int
	Log         []struct {
		N                                   int
		Time, Method, Path, Status, Session string
	}
}

type invocation struct {
	ID, Tool, Session, Progress, Tone, Sentence, Advice string
	Settled                                             bool
	Steps                                               []struct{ Name, Value, Mark string }
	Facts                                               [][2]string
	Answer                                              struct{ To, Status, Body string }
	Asked                                               struct {
		Times        int
		Last, Status string
	}
	Buttons []button
}

type button struct{ Do, Value, Label string }

// fact gives a line of the receipt.
func (i invocation) fact(name string) string {
	for _, f := range i.Facts {
		if f[0] == name {
			return f[1]
		}
	}
	return ""
}

func (i invocation) marks() string {
	var all []string
	for _, s := range i.Steps {
		all = append(all, s.Mark)
	}
	return strings.Join(all, " ")
}

func (i invocation) buttons() string {
	var all []string
	for _, b := range i.Buttons {
		all = append(all, b.Do)
	}
	return strings.Join(all, " ")
}

// event is the first event that a reader gets.
func (b *bench) event() string {
	b.t.Helper()
	ctx, leave := context.WithCancel(b.t.Context())
	leave() // after one event
	w := b.serve(httptest.NewRequestWithContext(ctx, http.MethodGet, "/mockhub/events", nil))
	if w.Code != http.StatusOK {
		b.t.Fatalf("events: %d", w.Code)
	}
	return w.Body.String()
}

func (b *bench) state() state {
	b.t.Helper()
	return decode(b.t, b.event())
}

func decode(t *testing.T, event string) (s state) {
	t.Helper()
	_, data, _ := strings.Cut(event, "data: ")
	if err := json.Unmarshal([]byte(data), &s); err != nil {
		t.Fatalf("%v: %s", err, event)
	}
	return s
}

func (b *bench) invocation(id string) invocation {
	b.t.Helper()
	all := b.state().Invocations
	i := slices.IndexFunc(all, func(i invocation) bool { return i.ID == id })
	if i < 0 {
		b.t.Fatalf("invocation %s is not there", id)
	}
	return all[i]
}

func TestWhatIsThePages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/?x=1", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/mockhub/page.css", 200, "text/css; charset=utf-8"},
		{"GET", "/mockhub/page.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/mockhub/icon.svg", 200, "image/svg+xml"},
		{"HEAD", "/mockhub/events", 200, "text/event-stream"},
		{"GET", "/mockhub/", 404, "text/plain; charset=utf-8"},
		{"GET", "/mockhub/nothing.js", 404, "text/plain; charset=utf-8"},
		{"GET", "/mockhub/..%2fpage.go", 404, "text/plain; charset=utf-8"},
		{"POST", "/mockhub/page.js", 405, "text/plain; charset=utf-8"},
		{"GET", "/mockhub/do/pause", 405, "text/plain; charset=utf-8"},
		{"PUT", "/mockhub/do/pause", 405, "text/plain; charset=utf-8"},
	} {
		w := b.serve(httptest.NewRequest(test.method, test.path, nil))
		header := w.Result().Header
		if w.Code != test.status || header.Get("Content-Type") != test.kind {
			t.Errorf("%s %s: %d %q", test.method, test.path, w.Code, header.Get("Content-Type"))
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
				"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q", test.method, test.path, name, got)
			}
		}
	}
	if b.hub.Requests().Total() != 0 || b.hub.Paused() {
		t.Error("the Hub noticed")
	}
}

func TestTheRestIsTheHubs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, request := range [][2]string{
		{"POST", "/"}, {"GET", "/mockhub"}, {"GET", "/agent-api/v1/tool-invocations/inspection-capabilities"}, {"OPTIONS", "/"}, {"GET", "/favicon.ico"}, {"GET", "//mockhub/page.js"},
	} {
		w := b.serve(httptest.NewRequest(request[0], request[1], nil))
		if w.Code != http.StatusUnauthorized || b.hub.Requests().Total() != i+1 || w.Result().Header.Get("X-Frame-Options") != "" {
			t.Errorf("%s %s: %d", request[0], request[1], w.Code)
		}
	}
}

// The page loads nothing from elsewhere, and has no script and no style of its
// own in it.
func TestFilesStandAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"index.html", "page.css", "page.js", "icon.svg"} {
		content, err := os.ReadFile(path.Join("files", name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(content), `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, never := range []string{"http:", "https:", "//cdn", "<style", "style=", "onclick", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "@import", "url("} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %q", name, never)
			}
		}
	}
}

// Looking at the page leaves no trace at the Hub.
func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.submit(hubtest.GovernedTool)
	b.submit(hubtest.WriteTool)
	b.hub.Inject(hubtest.Fault{Drop: hubtest.DropRequest})
	snapshot, version := b.hub.Snapshot(), b.hub.Version()
	for range 3 {
		b.state()
		b.serve(httptest.NewRequest("GET", "/", nil))
	}
	if b.hub.Snapshot() != snapshot || b.hub.Version() != version || b.hub.Requests().Total() != 0 || len(b.hub.Faults()) != 1 {
		t.Error("it left a trace")
	}
	if again := b.event(); again != b.event() {
		t.Error("two looks at the same Hub differ")
	}
}

func TestNoTokenIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.submit(hubtest.ReadTool)
	r := httptest.NewRequest("GET", "/agent-api/v1/"+b.alice.AccessToken+"?access_token="+b.alice.AccessToken, nil)
	r.Header.Set("Authorization", "Bearer "+b.alice.AccessToken)
	b.serve(r)
	event := b.event()
	for _, s := range []hubtest.Session{b.alice, b.bob} {
		if strings.Contains(event, s.AccessToken) || strings.Contains(event, s.RefreshToken) {
			t.Error("a token is shown")
		}
	}
	if entry := b.state().Log[0]; entry.Path != "/agent-api/v1/…" || entry.Session != "alice" {
		t.Errorf("logged %+v", entry)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(hubtest.ReadTool)
	get := func(path, token string) {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		func() {
			defer func() { _ = recover() }() // a lost connection
			b.serve(r)
		}()
	}
	receipt := "/agent-api/v1/tool-invocations/" + id + "/receipt"
	get(receipt, b.alice.AccessToken)
	get(receipt+"?q=1", b.bob.AccessToken)
	get("/a%0Ab%E2%80%AEc\u202e\\", "nobody")
	b.do("drop", "", "request")
	get(receipt, b.alice.AccessToken)
	s := b.state()
	var got []string
	for _, e := range s.Log {
		got = append(got, fmt.Sprintf("%d %s %s %s %s", e.N, e.Method, e.Path, e.Status, e.Session))
	}
	want := []string{
		"4 GET " + receipt + " lost ",
		`3 GET /a%0Ab%E2%80%AEc%E2%80%AE%5C 401 `,
		"2 GET " + receipt + " 400 bob",
		"1 GET " + receipt + " 200 alice",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if c := s.Counters; c.Inspections != 3 || c.Requests != 4 || c.Negotiations != 0 {
		t.Errorf("counters %+v", c)
	}
	if asked := s.Invocations[0].Asked; asked.Times != 3 || asked.Status != "lost" || asked.Last != s.Log[0].Time {
		t.Errorf("asked %+v", asked)
	}

	for range 600 {
		get("/", "nobody")
		b.serve(httptest.NewRequest("POST", "/", nil))
	}
	s = b.state()
	if len(s.Log) != 500 || s.Log[0].N != 604 || s.Log[499].N != 105 {
		t.Errorf("%d entries, from %d to %d", len(s.Log), s.Log[0].N, s.Log[len(s.Log)-1].N)
	}
}

func TestTheNewestInvocationsAreShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ids []string
	for range 103 {
		id, err := b.hub.Submit(b.bob.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	s := b.state()
	if len(s.Invocations) != 100 || s.Older != 3 {
		t.Fatalf("%d are shown, %d are not", len(s.Invocations), s.Older)
	}
	for i, shown := range s.Invocations {
		if shown.ID != ids[len(ids)-1-i] || shown.Session != "bob" {
			t.Errorf("number %d is %s by %s", i, shown.ID, shown.Session)
		}
	}
}

func TestCountersStartWithThePage(t *testing.T) {
	t.Parallel()
	hub := hubtest.New()
	t.Cleanup(hub.Close)
	s := hub.Login(hubtest.Grant{})
	for range 2 {
		if _, err := hub.Submit(s.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool}); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, hub: hub, page: page.New(hub), alice: s}
	if c := b.state().Counters; c.Performed != 0 || c.Before != 2 {
		t.Errorf("counters %+v", c)
	}
	if by := b.state().Invocations[0].Session; by != "synthetic-person" {
		t.Errorf("by %q", by)
	}
	b.submit(hubtest.WriteTool)
	if c := b.state().Counters; c.Performed != 1 || c.Before != 2 {
		t.Errorf("counters %+v", c)
	}
}
