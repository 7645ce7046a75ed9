package hermestest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newHermesX(t *testing.T, opts ...hermestest.Option) (*hermestest.HermesX, *http.Client, string) {
	t.Helper()
	h := hermestest.New(opts...)
	t.Cleanup(h.Close)
	key := h.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
	return h, &http.Client{Transport: h.Transport()}, key.Secret
}

type page struct {
	Receipts []hermestest.Receipt    `json:"execution_receipts"`
	Logs     []hermestest.AuditEntry `json:"audit_logs"`
	Total    int
}

func read(t *testing.T, client *http.Client, path, key string) (p page) {
	t.Helper()
	status, body := get(t, client, path, key)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// The second call with a key runs nothing and is given the first receipt,
// whatever its input is; another tenant's key is another side effect.
func TestIdempotentExecution(t *testing.T) {
	t.Parallel()
	h, _, _ := newHermesX(t)
	call := hermestest.Call{Tool: "refund", Input: map[string]any{"order": 17}, Output: `{"refunded":true}`, IdempotencyID: "refund-17"}
	first := h.Execute(call)
	call.Input, call.Output = map[string]any{"order": 18}, `{"refunded":"again"}`
	second := h.Execute(call)
	if !first.Ran || second.Ran || second.Output != `{"refunded":true}` || second.Receipt.ID != first.Receipt.ID || second.Receipt.Input != `{"order":17}` {
		t.Errorf("first %+v, second %+v", first, second)
	}
	call.TenantID = "other"
	if third := h.Execute(call); !third.Ran || third.Receipt.ID == first.Receipt.ID {
		t.Errorf("another tenant: %+v", third)
	}
	call.TenantID, call.IdempotencyID = "", ""
	if a, b := h.Execute(call), h.Execute(call); !a.Ran || !b.Ran || a.Receipt.ID == b.Receipt.ID {
		t.Errorf("without a key: %+v, %+v", a, b)
	}
	if runs, receipts := h.Runs(), len(h.Receipts("")); runs != 4 || receipts != 3 {
		t.Errorf("%d runs, %d receipts", runs, receipts)
	}
}

// Two at the same time both run: the server looks before and stores after.
func TestTwoAtOnceLeaveOneReceipt(t *testing.T) {
	t.Parallel()
	h, _, _ := newHermesX(t)
	inner := hermestest.Call{Tool: "refund", Output: "inner", IdempotencyID: "k"}
	var within hermestest.Execution
	outer := inner
	outer.Run = func() string {
		within = h.Execute(inner)
		return "outer"
	}
	if got := h.Execute(outer); !got.Ran || got.Receipt != nil || !within.Ran || within.Receipt == nil || len(h.Receipts("")) != 1 {
		t.Errorf("outer %+v, within %+v", got, within)
	}
}

func TestTextsAreCut(t *testing.T) {
	t.Parallel()
	h, _, _ := newHermesX(t)
	done := h.Execute(hermestest.Call{Tool: "big", Input: strings.Repeat("y", 5000), Output: strings.Repeat("x", 5000)})
	if len(done.Receipt.Input) != hermestest.TextLimit || len(done.Receipt.Output) != hermestest.TextLimit || len(done.Output) != 5000 {
		t.Errorf("kept %d and %d bytes, gave %d", len(done.Receipt.Input), len(done.Receipt.Output), len(done.Output))
	}
	// Cut within a character the text cannot be stored, and nobody is told.
	if lost := h.Execute(hermestest.Call{Tool: "wide", Output: strings.Repeat("界", 1366)}); !lost.Ran || lost.Receipt != nil {
		t.Errorf("%+v", lost)
	}
	if fits := h.Execute(hermestest.Call{Tool: "wide", Output: strings.Repeat("界", 1365)}); fits.Receipt == nil {
		t.Error("what fits was lost")
	}
}

func TestStatusGoesByTheOutput(t *testing.T) {
	t.Parallel()
	h, _, _ := newHermesX(t)
	for output, want := range map[string]string{`{"ok":true}`: "success", `{"error":"no"}`: "error", `{"error":null}`: "error", "Error: something broke": "success"} {
		if got := h.Execute(hermestest.Call{Tool: "t", Output: output}).Receipt.Status; got != want {
			t.Errorf("%s: %s", output, got)
		}
	}
	if got := h.Execute(hermestest.Call{Tool: "t", Status: "timeout", Duration: 30 * time.Second}).Receipt; got.Status != "timeout" || got.DurationMS != 30000 {
		t.Errorf("%+v", got)
	}
}

func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	static := h.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAdmin}, Static: true}).Secret
	call := hermestest.Call{Tool: "refund", IdempotencyID: "k"}
	known := h.Execute(call).Receipt.ID
	h.SetDatabaseDown(true)
	// The server cannot look for the key, so the side effect happens again.
	if again := h.Execute(call); !again.Ran || again.Receipt != nil {
		t.Errorf("%+v", again)
	}
	h.Chat(hermestest.Chat{RequestID: "unseen"})
	for _, test := range []struct {
		key, path string
		want      int
	}{
		{key, "/v1/execution-receipts", 401}, {key, "/v1/execution-receipts/" + known, 401}, {key, "/v1/audit-logs", 401},
		{static, "/v1/execution-receipts", 500}, {static, "/v1/execution-receipts/" + known, 404}, {static, "/v1/audit-logs", 500},
	} {
		if got, body := get(t, client, test.path, test.key); got != test.want {
			t.Errorf("%s: %d %s", test.path, got, body)
		}
	}
	h.SetDatabaseDown(false)
	if got := read(t, client, "/v1/audit-logs", key); got.Total != 0 {
		t.Errorf("%d entries were written without a database", got.Total)
	}
	if got := read(t, client, "/v1/execution-receipts", key); got.Total != 1 {
		t.Errorf("%d receipts", got.Total)
	}
}

// Reading the log makes it longer; a fixed end makes it stand still.
func TestTheLogGrows(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t, hermestest.WithClock(func() time.Time { return time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC) }))
	id, _ := h.Chat(hermestest.Chat{RequestID: "chat-1", SessionID: "s", UserID: "u", StatusCode: 500, Latency: 26 * time.Millisecond})
	first := read(t, client, "/v1/audit-logs", key)
	second := read(t, client, "/v1/audit-logs?limit=1", key)
	if id != "chat-1" || first.Total != 1 || second.Total != 2 {
		t.Errorf("%s: %d, then %d", id, first.Total, second.Total)
	}
	entry := first.Logs[0]
	if entry.RequestID != "chat-1" || entry.SessionID != "" || entry.StatusCode != 500 || entry.LatencyMS != 26 || entry.Action != "POST /v1/agent/chat" {
		t.Errorf("%+v", entry)
	}
	to := second.Logs[0].CreatedAt.Add(time.Microsecond).Format(time.RFC3339Nano)
	for range 3 {
		if got := read(t, client, "/v1/audit-logs?to="+to, key); got.Total != 2 {
			t.Errorf("%d entries before %s", got.Total, to)
		}
	}
	if got := len(h.AuditLog("")); got != 6 {
		t.Errorf("%d entries", got)
	}
	if id, _ := h.Chat(hermestest.Chat{RequestID: "not kept"}); id == "not kept" || id == "" {
		t.Errorf("request id %q", id)
	}
}

// Of the same time, rows change places: over some requests every one of them is
// the first.
func TestTiesChangePlaces(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for _, id := range []string{"a", "b", "c"} {
		h.Store(hermestest.Receipt{ID: id, CreatedAt: at})
	}
	h.Store(hermestest.Receipt{ID: "newest", CreatedAt: at.Add(time.Microsecond)})
	seen := map[string]bool{}
	for tries := 0; len(seen) < 3 && tries < 1000; tries++ {
		got := read(t, client, "/v1/execution-receipts?limit=2", key)
		if got.Receipts[0].ID != "newest" {
			t.Fatalf("first is %s", got.Receipts[0].ID)
		}
		seen[got.Receipts[1].ID] = true
	}
	if len(seen) != 3 {
		t.Errorf("in the second place: %v", seen)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, client, key := newHermesX(t)
		h.SetRateLimit("", 2)
		for i, want := range []int{200, 200, 429, 429} {
			if got, _ := get(t, client, "/v1/execution-receipts", key); got != want {
				t.Errorf("request %d: %d", i, got)
			}
		}
		<-time.After(time.Minute)
		if got, _ := get(t, client, "/v1/audit-logs", key); got != 200 {
			t.Errorf("a minute later: %d", got)
		}
		h.Close()
	})
}

func TestKeysAndOptions(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t, hermestest.WithLocation(time.FixedZone("", -5*60*60)))
	var before []string
	h.Before(func(r *http.Request) {
		before = append(before, r.URL.Path)
		h.Store(hermestest.Receipt{ID: "rcpt_1"})
	})
	status, body := get(t, client, "/v1/execution-receipts", key)
	h.Before(nil)
	if status != 200 || !strings.Contains(body, `-05:00"`) || len(before) != 1 {
		t.Errorf("%d %s, %v", status, body, before)
	}
	if status, _ := get(t, client, "/v1/execution-receipts/rcpt_1?x=%2F", key); status != 200 {
		t.Errorf("an id that is no UUID: %d", status)
	}
	h.RemoveKey(key)
	if status, _ := get(t, client, "/v1/execution-receipts", key); status != 401 {
		t.Errorf("a removed key: %d", status)
	}
	if got := strings.Join(h.Requests(), "\n"); got != "GET /v1/execution-receipts\nGET /v1/execution-receipts/rcpt_1?x=%2F\nGET /v1/execution-receipts" {
		t.Errorf("requests:\n%s", got)
	}
	if status, body := get(t, client, "/v1/audit-logs?a=%zz", h.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAdmin}}).Secret); status != 200 {
		t.Errorf("a broken query: %d %s", status, body)
	}
	if log := h.AuditLog(""); log[len(log)-1].Detail != "[redacted:parse_error]" {
		t.Errorf("%+v", log[len(log)-1])
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	var all sync.WaitGroup
	for _, use := range []func(){
		func() { h.RemoveKey(h.AddKey(hermestest.Key{}).Secret) },
		func() { h.SetRateLimit("other", 1) },
		func() { h.SetDatabaseDown(false) },
		func() { h.Before(nil) },
		func() { h.Store(hermestest.Receipt{}) },
		func() { h.Log(hermestest.AuditEntry{}) },
		func() { h.Chat(hermestest.Chat{Calls: []hermestest.Call{{Tool: "t", IdempotencyID: "k"}}}) },
		func() { _, _, _ = h.Receipts(""), h.AuditLog(""), h.Requests() },
		func() { _ = h.Runs() },
		func() { get(t, client, "/v1/execution-receipts", key) },
		func() { get(t, client, "/v1/audit-logs", key) },
	} {
		all.Go(func() {
			for range 20 {
				use()
			}
		})
	}
	all.Wait()
	used := 0
	for _, r := range h.Receipts("") {
		if r.IdempotencyID == "k" {
			used++
		}
	}
	if used != 1 {
		t.Errorf("%d receipts for one key", used)
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for _, start := range []func(*hermestest.HermesX) *hermestest.Server{(*hermestest.HermesX).Start, (*hermestest.HermesX).StartTLS} {
		s := start(hermestest.New())
		response, err := s.Client().Get(s.URL + "/v1/audit-logs")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 401 {
			t.Errorf("%s: %d", s.URL, response.StatusCode)
		}
		s.Close()
	}
}

func TestAnInputThatIsNoJSON(t *testing.T) {
	t.Parallel()
	h, _, _ := newHermesX(t)
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "hermestest: ") {
			t.Errorf("panic %q", text)
		}
	}()
	h.Execute(hermestest.Call{Tool: "t", Input: make(chan int)})
}

// What the database does not take is lost without a word: half characters and
// NULs; of a filter it is an error of the server.
func TestWhatTheDatabaseDoesNotTake(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	if lost := h.Execute(hermestest.Call{Tool: "binary", Output: "a\x00b"}); !lost.Ran || lost.Receipt != nil || len(h.Receipts("")) != 0 {
		t.Errorf("%+v", lost)
	}
	for path, want := range map[string]string{
		"/v1/execution-receipts?session_id=%00": "list failed\n", "/v1/execution-receipts?tool_name=%ff": "list failed\n", "/v1/execution-receipts?status=a%00": "list failed\n",
		"/v1/audit-logs?action=%00": "internal error\n", "/v1/audit-logs?action=%ff": "internal error\n",
	} {
		if status, body := get(t, client, path, key); status != 500 || body != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := get(t, client, "/v1/execution-receipts/%00", key); status != 404 || body != "not found\n" {
		t.Errorf("an id with a NUL: %d %s", status, body)
	}
}

func TestIDsAreReadInEverySpelling(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	h.Store(hermestest.Receipt{ID: "f2eb2710-8e82-464d-a68f-e4f82731a797"})
	for id, want := range map[string]int{
		"f2eb2710-8e82-464d-a68f-e4f82731a797": 200, "F2EB2710-8E82-464D-A68F-E4F82731A797": 200, "f2eb27108e82464da68fe4f82731a797": 200,
		"%7Bf2eb2710-8e82-464d-a68f-e4f82731a797%7D": 200, "%7Bf2eb2710-8e82-464d-a68f-e4f82731a797": 404, "f2eb2710-8e82-464d-a68f-e4f82731a79": 404,
	} {
		if status, _ := get(t, client, "/v1/execution-receipts/"+id, key); status != want {
			t.Errorf("%s: %d", id, status)
		}
	}
}

// A row that is stored between the two statements of a list is on the page and
// not in the count.
func TestCountAndSelectAreTwoStatements(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	h.BetweenStatements(func(*http.Request) { h.Store(hermestest.Receipt{}); h.Log(hermestest.AuditEntry{Action: "X"}) })
	if got := read(t, client, "/v1/execution-receipts", key); got.Total != 0 || len(got.Receipts) != 1 {
		t.Errorf("%+v", got)
	}
	if got := read(t, client, "/v1/audit-logs?action=X", key); got.Total != 1 || len(got.Logs) != 2 {
		t.Errorf("%+v", got)
	}
	h.BetweenStatements(nil)
	if got := read(t, client, "/v1/execution-receipts", key); got.Total != 2 || len(got.Receipts) != 2 {
		t.Errorf("%+v", got)
	}
}

// What the outer router answers by itself has no request id and no entry in the
// log, and asks for no key.
func TestOutsideOfTheInterfaces(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	for path, want := range map[string]struct {
		status int
		named  bool
	}{
		"/": {404, false}, "/hermesx/v1/execution-receipts": {404, false}, "/metrics-x": {404, false}, "/v1/execution-receipts//x": {307, false},
		"/v1/nope": {403, true}, "/v1/v1/execution-receipts/x": {403, true}, "/admin/v1/execution-receipts": {403, true},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hermesx.example"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := client.Transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if named := response.Header.Get("X-Request-Id") != ""; response.StatusCode != want.status || named != want.named {
			t.Errorf("%s: %d, named %v", path, response.StatusCode, named)
		}
	}
	if got := len(h.AuditLog("")); got != 3 {
		t.Errorf("%d entries", got)
	}
}

func TestDetailsAreRedacted(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	get(t, client, "/v1/audit-logs?limit=1&token=synthetic-access-x&API_KEY=synthetic-access-y&a=b", key)
	if got := h.AuditLog("")[0].Detail; got != "API_KEY=%5BREDACTED%5D&a=b&limit=1&token=%5BREDACTED%5D" {
		t.Errorf("%s", got)
	}
}

// The entry of a request whose client went away is lost; that of a refused key
// is of no tenant.
func TestRequestsThatAreNotInTheLog(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	h.BetweenStatements(func(r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(ended)
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hermesx.example/v1/execution-receipts", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	if response, err := client.Do(request); err == nil {
		response.Body.Close()
		t.Error("an answer to who went away")
	}
	<-ended
	h.BetweenStatements(nil)
	get(t, client, "/v1/execution-receipts", "synthetic-access-unknown")
	if got := read(t, client, "/v1/audit-logs", key); got.Total != 0 {
		t.Errorf("%+v", got.Logs)
	}
}

func TestRowsThatAreHidden(t *testing.T) {
	t.Parallel()
	h, client, key := newHermesX(t)
	h.Chat(hermestest.Chat{Calls: []hermestest.Call{{Tool: "t"}}})
	id := h.Receipts("")[0].ID
	h.SetRowsHidden(true)
	for path, want := range map[string]string{
		"/v1/execution-receipts": `{"execution_receipts":null,"total":0}`, "/v1/audit-logs": `{"audit_logs":null,"limit":50,"offset":0,"total":0}`,
	} {
		if status, body := get(t, client, path, key); status != 200 || body != want+"\n" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := get(t, client, "/v1/execution-receipts/"+id, key); status != 404 {
		t.Errorf("%d", status)
	}
	h.SetRowsHidden(false)
	if got := read(t, client, "/v1/audit-logs", key); got.Total != 4 {
		t.Errorf("%d entries", got.Total)
	}
}

func TestRowsAreRemoved(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	h, _, _ := newHermesX(t)
	for n := range 4 {
		h.Store(hermestest.Receipt{ID: string(rune('a' + n)), CreatedAt: at.Add(time.Duration(n) * time.Hour)})
		h.Log(hermestest.AuditEntry{ID: int64(n + 1), CreatedAt: at.Add(time.Duration(n) * time.Hour)})
	}
	h.Remove("another", at.Add(time.Hour))
	h.Remove("", at.Add(time.Hour))
	h.RemoveRows(func(r hermestest.Receipt) bool { return r.ID == "c" }, nil)
	h.RemoveRows(nil, func(e hermestest.AuditEntry) bool { return e.ID == 4 })
	receipts, entries := h.Receipts(""), h.AuditLog("")
	if len(receipts) != 2 || receipts[0].ID != "b" || receipts[1].ID != "d" || len(entries) != 2 || entries[1].ID != 3 {
		t.Errorf("%+v, %+v", receipts, entries)
	}
}

// The rate limit is 60 requests a minute, and the headers say what is left.
func TestTheUsualRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, client, key := newHermesX(t)
		for n := range hermestest.DefaultRateLimit + 1 {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hermesx.example/v1/audit-logs", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+key)
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			status, left, wait := 200, hermestest.DefaultRateLimit-1-n, ""
			if left < 0 {
				status, left, wait = 429, 0, "60"
			}
			if header := response.Header; response.StatusCode != status || header.Get("X-Ratelimit-Limit") != "60" || header.Get("X-Ratelimit-Remaining") != strconv.Itoa(left) || header.Get("Retry-After") != wait {
				t.Errorf("request %d: %d %v", n, response.StatusCode, header)
			}
		}
		h.Close()
	})
}
