package hermestest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
)

// recorded is one answer of a running server.
type recorded struct {
	Name, Note string
	Request    struct {
		Method, Path string
		Headers      map[string]string
		Body         string
	}
	Status  int
	Headers map[string]string
	Body    string
}

func recordings(t *testing.T) (all []recorded) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "hermesx-recorded.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The tenants of the recordings.
const (
	tenantA = "3988b646-9df5-4d4d-92c3-f88572b0ea9f"
	tenantB = "50f8200c-1e3d-41bb-a825-497369751af1"
	tenantC = "01d58f64-38c9-4da3-8c82-c41f57ccf502"
	tenantR = "33333333-3333-4333-8333-333333333333"
	tenantD = "44444444-4444-4444-8444-444444444444"
	tenantE = "469a51c9-84fd-41ab-aa7e-8e737fca0c93"
)

// keys are those of the recordings, in whose place their names stand. Of those
// that are not here none is good.
var keys = []hermestest.Key{
	{Secret: "<key-a-auditor>", TenantID: tenantA, Roles: []string{hermestest.RoleAuditor}},
	{Secret: "<key-a-auditor-scoped>", TenantID: tenantA, Roles: []string{hermestest.RoleAuditor}},
	{Secret: "<key-a-auditor-chat-scope>", TenantID: tenantA, Roles: []string{hermestest.RoleAuditor}},
	{Secret: "<key-a-user-auditor>", TenantID: tenantA, Roles: []string{hermestest.RoleUser, hermestest.RoleAuditor}},
	{Secret: "<key-a-admin>", TenantID: tenantA, Roles: []string{hermestest.RoleAdmin}},
	{Secret: "<key-a-user>", TenantID: tenantA, Roles: []string{hermestest.RoleUser}},
	{Secret: "<key-a-default-roles>", TenantID: tenantA, Roles: []string{hermestest.RoleUser}},
	{Secret: "<key-a-user-audit-scope>", TenantID: tenantA, Roles: []string{hermestest.RoleUser}},
	{Secret: "<key-b-auditor>", TenantID: tenantB, Roles: []string{hermestest.RoleAuditor}},
	{Secret: "<key-c-auditor>", TenantID: tenantC, Roles: []string{hermestest.RoleAuditor}},
	{Secret: "<key-d-auditor>", TenantID: tenantD, Roles: []string{hermestest.RoleAuditor}},
	{Secret: "<key-r-auditor>", TenantID: tenantR, Roles: []string{hermestest.RoleAuditor}},
	{Secret: "<acp-token>", Roles: []string{hermestest.RoleAdmin}, Static: true},
}

// worldOf gives a server in the situation of a recording.
func worldOf(t *testing.T, all []recorded, r recorded) *hermestest.HermesX {
	t.Helper()
	location := time.UTC
	if strings.HasPrefix(r.Name, "tz_shanghai") {
		location = time.FixedZone("", 8*60*60)
	}
	h := hermestest.New(hermestest.WithLocation(location), hermestest.WithClock(func() time.Time {
		return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	}))
	t.Cleanup(h.Close)
	for _, key := range keys {
		h.AddKey(key)
	}
	const defaultTenant = "00000000-0000-0000-0000-000000000001"
	if strings.HasPrefix(r.Name, "bypassrls_") {
		h.AddKey(hermestest.Key{Secret: "<key-auditor>", TenantID: tenantE, Roles: []string{hermestest.RoleAuditor}})
		for _, secret := range []string{"<acp-token>", "<bootstrap-admin-key>"} {
			h.AddKey(hermestest.Key{Secret: secret, TenantID: defaultTenant, Roles: []string{hermestest.RoleAdmin}})
		}
	}

	// The receipts are those that the recordings show, and what they only count;
	// none in those that were made first.
	stored := map[string]bool{}
	for _, other := range all {
		var page struct {
			ExecutionReceipts []hermestest.Receipt `json:"execution_receipts"`
			hermestest.Receipt
		}
		if strings.HasPrefix(r.Name, "receipts_list_empty") || other.Status != http.StatusOK || json.Unmarshal([]byte(other.Body), &page) != nil {
			continue
		}
		for _, receipt := range append(page.ExecutionReceipts, page.Receipt) {
			if receipt.ID != "" && !stored[receipt.ID] {
				stored[receipt.ID] = true
				h.Store(receipt)
			}
		}
	}
	for i := range 130 {
		h.Store(hermestest.Receipt{TenantID: tenantC, SessionID: "sess_many", ToolName: "many", Input: "{}", Output: "{}", Status: "success", CreatedAt: time.Date(2026, 2, 1, 0, 0, i/10, 0, time.UTC)})
	}
	for i := range 9 {
		h.Store(hermestest.Receipt{TenantID: tenantE, CreatedAt: time.Date(2026, 2, 1, 0, 0, i, 0, time.UTC)})
	}

	at := func(text string) time.Time {
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	for _, tenantID := range []string{tenantA, tenantC} {
		for i := range 100 {
			h.Log(hermestest.AuditEntry{TenantID: tenantID, Action: "GET /v1/execution-receipts", Detail: "limit=1", RequestID: fmt.Sprint("r", i), StatusCode: 200, CreatedAt: at("2026-11-30T08:00:00Z").Add(time.Duration(i) * time.Second)})
		}
	}
	h.Log(
		hermestest.AuditEntry{ID: 130, TenantID: tenantA, UserID: "c41177c6-860a-4fea-9fd3-ed53470e6976", Action: "GET /v1/execution-receipts", Detail: "limit=1", RequestID: "demo-agent-first-001", StatusCode: 200, SourceIP: "127.0.0.1:38630", CreatedAt: at("2026-11-30T08:18:52.649851Z")},
		hermestest.AuditEntry{ID: 135, TenantID: tenantA, UserID: "1121cca6-09c5-4a72-a06e-e53ada5947fa", Action: "GET /v1/execution-receipts", RequestID: "on-403", StatusCode: 403, SourceIP: "127.0.0.1:38676", CreatedAt: at("2026-11-30T08:18:52.661489Z")},
		hermestest.AuditEntry{ID: 205, TenantID: tenantB, SessionID: "sess_x", Action: "FULL", Detail: "d", RequestID: "r", StatusCode: 200, LatencyMS: 1, CreatedAt: at("2026-11-30T08:19:47.161076Z")},
		hermestest.AuditEntry{TenantID: tenantB, Action: "OLD", Damaged: true},
		hermestest.AuditEntry{TenantID: tenantB, Action: "OLD2", Damaged: true},
	)
	if r.Name == "audit_entry_of_a_chat_call" {
		h.Log(hermestest.AuditEntry{ID: 220, TenantID: tenantA, UserID: "1121cca6-09c5-4a72-a06e-e53ada5947fa", Action: "POST /v1/agent/chat", RequestID: "chat-req-001", StatusCode: 500, LatencyMS: 26, SourceIP: "127.0.0.1:47660", UserAgent: "probe/1.0", CreatedAt: at("2026-11-30T08:22:10.16927Z")})
	}
	h.SetRateLimit(tenantR, 3)
	h.SetDatabaseDown(strings.HasPrefix(r.Name, "db_down"))
	return h
}

// ofTheMinute are the recordings that were made when the tenant's requests of
// the minute were used up.
var ofTheMinute = regexp.MustCompile(`^rate_limit_(call_[45]|audit_same_bucket|window_start_429|after_25s_429)$`)

// onlyShape are the audit logs of which the recordings show a part: what the
// entries are depends on the requests before.
func onlyShape(r recorded) bool {
	return strings.HasPrefix(r.Request.Path, "/v1/audit-logs") && r.Status == http.StatusOK &&
		!strings.HasPrefix(r.Name, "audit_entry_of_") && r.Name != "audit_row_with_session_id"
}

var itemsReturned = regexp.MustCompile(`^(\d+) items returned`)

func TestRecorded(t *testing.T) {
	t.Parallel()
	all := recordings(t)
	if len(all) != 159 {
		t.Fatalf("%d recordings", len(all))
	}
	for _, r := range all {
		if strings.HasPrefix(r.Request.Path, "/health/") {
			continue // not of the interface that this server is for
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			h := worldOf(t, all, r)
			client := &http.Client{Transport: h.Transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			if ofTheMinute.MatchString(r.Name) {
				for range 3 {
					get(t, client, "/v1/execution-receipts", "<key-r-auditor>")
				}
			}
			request, err := http.NewRequestWithContext(t.Context(), r.Request.Method, "http://hermesx.example"+r.Request.Path, strings.NewReader(r.Request.Body))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range r.Request.Headers {
				request.Header.Set(name, value)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != r.Status {
				t.Fatalf("status %d, want %d: %s", response.StatusCode, r.Status, body)
			}
			for _, name := range []string{"Content-Type", "Retry-After", "Location", "X-Content-Type-Options"} {
				if got := response.Header.Get(name); got != r.Headers[name] {
					t.Errorf("%s: %q, want %q", name, got, r.Headers[name])
				}
			}
			for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Request-Id"} {
				if got := response.Header.Get(name); (got == "") != (r.Headers[name] == "") {
					t.Errorf("%s: %q, want %q", name, got, r.Headers[name])
				}
			}
			if sent := r.Request.Headers["X-Request-ID"]; (response.Header.Get("X-Request-Id") == sent) != (r.Headers["X-Request-Id"] == sent) {
				t.Errorf("request id %q for %q, want %q", response.Header.Get("X-Request-Id"), sent, r.Headers["X-Request-Id"])
			}
			compareBodies(t, r, string(body))
		})
	}
}

func compareBodies(t *testing.T, r recorded, body string) {
	t.Helper()
	switch {
	case body == r.Body: // the very bytes: order of members, escapes and the line end too
		return
	case r.Headers["Content-Type"] != "application/json" || r.Note == "" && !onlyShape(r):
		t.Errorf("body %.300s, want %.300s", body, r.Body)
		return
	}
	var want, got struct {
		ExecutionReceipts []any            `json:"execution_receipts"`
		Logs              []map[string]any `json:"audit_logs"`
		Limit, Offset     *int
		Total             int
	}
	for text, into := range map[string]any{r.Body: &want, body: &got} { // two different texts
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]*int{want.Limit, want.Offset}, []*int{got.Limit, got.Offset}); diff != "" {
		t.Errorf("limit and offset (-want +got):\n%s", diff)
	}
	if onlyShape(r) {
		if (want.Logs == nil) != (got.Logs == nil) || strings.Contains(body, `"audit_logs":[]`) {
			t.Errorf("entries: %d, want %d", len(got.Logs), len(want.Logs))
		}
		for _, entry := range got.Logs {
			for _, always := range []string{"id", "tenant_id", "action", "request_id", "created_at"} {
				if entry[always] == nil {
					t.Errorf("an entry lacks %s", always)
				}
			}
		}
		return
	}
	if want.Total != got.Total {
		t.Errorf("total %d, want %d", got.Total, want.Total)
	}
	if n := itemsReturned.FindStringSubmatch(r.Note); n != nil && want.Logs == nil && n[1] != fmt.Sprint(len(got.ExecutionReceipts)) {
		t.Errorf("%d items, want %s", len(got.ExecutionReceipts), n[1])
	}
	n := min(len(want.ExecutionReceipts), len(got.ExecutionReceipts))
	if diff := cmp.Diff(want.ExecutionReceipts, got.ExecutionReceipts[:n]); n > 0 && diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Logs, got.Logs); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// get reads with a key and gives status and body.
func get(t *testing.T, client *http.Client, path, key string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hermesx.example"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
