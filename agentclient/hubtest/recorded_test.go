package hubtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// recorded is one answer of a real Hub.
type recorded struct {
	Name    string
	Request struct {
		Method, Path, Authorization string
	}
	Answer struct {
		Status  int
		Headers map[string]string
		Raw     string
	}
}

const (
	idA     = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	runID   = "22222222-2222-4222-8222-222222222222"
	route   = "tenant-agent"
	write   = "staff_edit"
	read    = "staff_list"
	hubSays = "Synthetic text."
)

// A world is a Hub in the situation of a recording, at rest: a write tool's
// invocation awaits its approval.
type world struct {
	*hubtest.Hub
	t       *testing.T
	session hubtest.Session
}

func newWorld(t *testing.T) *world {
	t.Helper()
	hub := hubtest.New()
	t.Cleanup(hub.Close)
	hub.EditRoute(route, func(r *hubtest.Route) {
		r.Tools[write] = hubtest.Tool{NeedsApproval: true}
		r.Tools[read] = hubtest.Tool{ReadOnly: true}
	})
	w := &world{Hub: hub, t: t, session: hub.Login(hubtest.Grant{Principal: "person", Tenant: "tenant"})}
	return w
}

// must fails the test on an error of the arrangement.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// submit hands the recorded operation to the Hub.
func (w *world) submit(tool string, plan ...hubtest.Outcome) {
	w.t.Helper()
	w.Plan(plan...)
	_, err := w.Submit(w.session.ID, hubtest.Submission{InvocationID: idA, AgentRunID: runID, Route: route, Tool: tool})
	w.must(err)
}

// free makes the write tool need no approval.
func (w *world) free() *world {
	w.EditRoute(route, func(r *hubtest.Route) { r.Tools[write] = hubtest.Tool{} })
	return w
}

// stored puts a job of the write tool into the table, with this result and a pending approval.
func (w *world) stored(dispatched hubtest.Dispatched, result map[string]any) {
	w.t.Helper()
	full := map[string]any{
		"schema_version": "bailing.agent-tool-invocation.v1", "invocation_id": idA, "route": route, "tool": write,
		"ok": false, "auto_retry_allowed": false, "text": hubSays,
	}
	for k, v := range result {
		full[k] = v
	}
	raw, err := json.Marshal(full)
	w.must(err)
	w.submit(write)
	w.edit(func(r *hubtest.Record) { r.Job.Dispatched, r.Job.Result = dispatched, raw })
}

// journal puts a journal beside the job.
func (w *world) journal(state hubtest.JournalState, response string) {
	w.t.Helper()
	w.submit(write)
	w.edit(func(r *hubtest.Record) {
		r.Job.Dispatched = hubtest.DispatchYes
		r.Journal = &hubtest.Journal{State: state, Response: json.RawMessage(response)}
	})
}

func (w *world) edit(f func(*hubtest.Record)) {
	w.t.Helper()
	w.must(w.EditRecord(idA, f))
}

func (w *world) editSession(f func(*hubtest.Session)) { w.EditSession(w.session.ID, f) }

// awaiting is a world whose invocation waits, changed by f.
func awaiting(f func(w *world)) func(w *world) {
	return func(w *world) {
		w.submit(write)
		f(w)
	}
}

func task(code string) func(w *world) {
	return awaiting(func(w *world) { w.edit(func(r *hubtest.Record) { r.Job.TaskRefusal = code }) })
}

func broken(p hubtest.Part) func(w *world) {
	return awaiting(func(w *world) { w.Break(p) })
}

func editRoute(f func(*hubtest.Route)) func(w *world) {
	return awaiting(func(w *world) { w.EditRoute(route, f) })
}

func marker(f func(*hubtest.Marker)) func(w *world) {
	return awaiting(func(w *world) { w.edit(func(r *hubtest.Record) { f(&r.Job.Marker) }) })
}

type members = map[string]any

// situations sets up what the name of a recording says. Names that are not
// here need no more than the waiting invocation: they are about the request.
var situations = map[string]func(w *world){
	"capabilities_hub_paused":     func(w *world) { w.SetPaused(true) },
	"capabilities_route_disabled": editRoute(func(r *hubtest.Route) { r.Disabled = true }),
	"capabilities_tools_not_wired": func(w *world) {
		w.Break(hubtest.ToolService)
	},

	"in_progress_not_dispatched": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "in_progress"})
		w.edit(func(r *hubtest.Record) { r.Approval = nil })
	},
	"in_progress_dispatched_readonly_tool_in_flight": func(w *world) { w.submit(read, hubtest.Hanging()) },
	"write_tool_in_flight_journal_dispatching":       func(w *world) { w.free().submit(write, hubtest.Hanging()) },
	"write_tool_after_flight_journal_completed": func(w *world) {
		w.free().submit(write, hubtest.Hanging())
		w.must(w.Finish(idA, hubtest.Executed("{}")))
	},
	"in_progress_dispatched":       func(w *world) { w.stored(hubtest.DispatchYes, members{"state": "in_progress"}) },
	"in_progress_dispatch_unknown": func(w *world) { w.stored(hubtest.DispatchUnrecorded, members{"state": "in_progress", "text": "x"}) },
	"awaiting_approval_pending":    func(w *world) { w.submit(write) },
	"awaiting_approval_approved":   awaiting(func(w *world) { w.must(w.Approve(idA)) }),
	"awaiting_approval_denied":     awaiting(func(w *world) { w.must(w.Deny(idA)) }),
	"denied":                       awaiting(func(w *world) { w.must(w.Deny(idA)); w.must(w.Resume(idA)) }),
	"awaiting_approval_row_absent": awaiting(func(w *world) { w.edit(func(r *hubtest.Record) { r.Approval = nil }) }),
	"approval_id_differs_from_result": awaiting(func(w *world) {
		w.must(w.Approve(idA))
		w.edit(func(r *hubtest.Record) { r.Approval.ID = 7 })
	}),
	"executed_after_approval": awaiting(func(w *world) {
		w.must(w.Approve(idA))
		w.Plan(hubtest.Executed(`{"ok":true,"updated":1}`))
		w.must(w.Resume(idA))
	}),
	"executed_readonly_tool_job":           func(w *world) { w.submit(read, hubtest.Executed(`{"ok":true,"updated":1}`)) },
	"executed_write_tool_journal":          func(w *world) { w.free().submit(write, hubtest.Executed(`{"ok":true,"updated":1}`)) },
	"business_rejected_write_tool_journal": func(w *world) { w.free().submit(write, hubtest.Answered(422, hubSays)) },
	"business_rejected_readonly_tool_job":  func(w *world) { w.submit(read, hubtest.Answered(403, hubSays)) },

	"rejected_before_dispatch_no_retry": func(w *world) { w.free().submit(write, hubtest.Rejected()) },
	"rejected_before_dispatch_tool_rate_limit": func(w *world) {
		w.free().submit(write, hubtest.RateLimited(hour, &hubtest.RateLimit{Level: "tool", Count: 120, WindowSec: 3600, Source: "provider_default"}))
	},
	"rejected_before_dispatch_provider_rate_limit": func(w *world) {
		w.free().submit(write, hubtest.RateLimited(minute, &hubtest.RateLimit{Level: "provider", Count: 5, WindowSec: 60, Source: "provider_total"}))
	},
	"rejected_before_dispatch_client_rate_limit": func(w *world) { w.free().submit(write, hubtest.RateLimited(minute, nil)) },
	"rejected_before_dispatch_retry_after_zero": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "rejected_before_dispatch", "auto_retry_allowed": true, "text": "x", "retry_after_ms": 0})
	},
	"rejected_before_dispatch_bad_limit_fields_dropped": func(w *world) {
		w.stored(hubtest.DispatchNo, members{
			"state": "rejected_before_dispatch", "auto_retry_allowed": true, "text": "x",
			"retry_after_ms": "soon", "rate_limit": members{"level": "planet", "count": -1},
		})
	},

	"reconciliation_required_job": func(w *world) { w.submit(read, hubtest.AnswerLost()) },
	"journal_uncertain":           func(w *world) { w.free().submit(write, hubtest.AnswerLost()) },
	"journal_response_recorded":   func(w *world) { w.free().submit(write, hubtest.ResponseRecorded(200, "{}")) },
	"journal_evidence_degraded":   func(w *world) { w.free().submit(write, hubtest.EvidenceDegraded()) },
	"journal_dispatching":         func(w *world) { w.journal(hubtest.JournalDispatching, ``) },
	"journal_completed_supersedes_stale_job": func(w *world) {
		w.journal(hubtest.JournalCompleted, `{"ok":true,"status":200,"text":"Synthetic text."}`)
	},
	"journal_completed_business_rejected": func(w *world) {
		w.journal(hubtest.JournalCompleted, `{"ok":false,"status":409,"text":"conflict"}`)
	},
	"journal_unknown_state": awaiting(func(w *world) { w.must(w.Damage(idA, hubtest.DamageJournal)) }),
	"journal_completed_malformed_status_zero": func(w *world) {
		w.journal(hubtest.JournalCompleted, `{"ok":true,"status":0,"text":"x"}`)
	},
	"journal_completed_ok_not_boolean": func(w *world) {
		w.journal(hubtest.JournalCompleted, `{"ok":"true","status":200,"text":"x"}`)
	},
	"journal_completed_ok_true_status_500": func(w *world) {
		w.journal(hubtest.JournalCompleted, `{"ok":true,"status":500,"text":"x"}`)
	},
	"journal_completed_status_out_of_http_range": func(w *world) {
		w.journal(hubtest.JournalCompleted, `{"ok":true,"status":9007199254740991,"text":""}`)
	},
	"journal_completed_empty_text": func(w *world) {
		w.journal(hubtest.JournalCompleted, `{"ok":true,"status":204,"text":""}`)
	},

	"malformed_result_unknown_schema": func(w *world) {
		w.stored(hubtest.DispatchYes, members{"state": "executed", "schema_version": "bailing.agent-tool-invocation.v2"})
	},
	"malformed_result_dispatch_unknown": awaiting(func(w *world) {
		w.must(w.Damage(idA, hubtest.DamageResult))
		w.edit(func(r *hubtest.Record) { r.Job.Dispatched = hubtest.DispatchUnrecorded })
	}),
	"malformed_result_not_dispatched": awaiting(func(w *world) { w.must(w.Damage(idA, hubtest.DamageResult)) }),
	"malformed_result_unknown_state":  func(w *world) { w.stored(hubtest.DispatchYes, members{"state": "levitating"}) },
	"malformed_result_text_8193": func(w *world) {
		w.stored(hubtest.DispatchYes, members{"state": "executed", "text": strings.Repeat("x", 8193)})
	},
	"malformed_result_business_status_zero": func(w *world) {
		w.stored(hubtest.DispatchYes, members{"state": "executed", "business_status": 0})
	},
	"malformed_result_tool_mismatch": func(w *world) {
		w.stored(hubtest.DispatchYes, members{"state": "executed", "tool": read})
	},

	"result_text_8192_cjk": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "awaiting_approval", "text": strings.Repeat("审", 8192), "approval_id": 1})
	},
	"result_text_lone_surrogates": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "awaiting_approval", "text": json.RawMessage(`"a\ud83db"`), "approval_id": 1})
	},
	"result_text_max_escaped": func(w *world) {
		w.stored(hubtest.DispatchNo, members{
			"state": "awaiting_approval", "text": json.RawMessage(`"` + strings.Repeat(`\ud83d`, 8192) + `"`), "approval_id": 1,
		})
	},
	"result_text_controls": func(w *world) {
		w.stored(hubtest.DispatchNo, members{
			"state": "awaiting_approval", "text": "a b [31mc d\te\nf\rg\u0085h\u009b31mi\u2028j\u202ek\u200bl\ufeffm", "approval_id": 1,
		})
	},
	"result_ok_true_with_denied": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "denied", "ok": true, "approval_id": 1})
	},
	"result_auto_retry_true_with_executed": func(w *world) {
		w.stored(hubtest.DispatchYes, members{"state": "executed", "ok": true, "auto_retry_allowed": true, "business_status": 200, "approval_id": 1})
	},
	"result_business_status_1e21": func(w *world) {
		w.stored(hubtest.DispatchYes, members{"state": "executed", "ok": true, "business_status": 1e21, "approval_id": 1})
	},
	"result_approval_id_unsafe_integer": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "awaiting_approval", "approval_id": int64(1 << 53)})
	},
	"result_executed_without_business_status": func(w *world) {
		w.stored(hubtest.DispatchYes, members{"state": "executed", "ok": true})
	},
	"result_executed_but_dispatch_flag_false": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "executed", "ok": true, "approval_id": 1})
	},
	"result_reconciliation_required_dispatch_flag_false": func(w *world) {
		w.stored(hubtest.DispatchNo, members{"state": "reconciliation_required", "approval_id": 1})
	},
	"result_rate_limit_long_source": func(w *world) {
		w.stored(hubtest.DispatchNo, members{
			"state": "rejected_before_dispatch", "ok": false, "auto_retry_allowed": true, "retry_after_ms": int64(1<<53 - 1), "approval_id": 1,
			"rate_limit": members{
				"level": "provider", "count": int64(1<<53 - 1), "window_sec": int64(1<<53 - 1), "scope": "tool_provider_shared", "source": strings.Repeat("s", 128),
			},
		})
	},

	"agent_run_id_uppercase": func(w *world) {
		w.Plan(hubtest.Executed(`{"ok":true,"updated":1}`))
		_, err := w.Submit(w.session.ID, hubtest.Submission{
			InvocationID: idA, AgentRunID: "ABCDEF12-3456-4789-8ABC-DEF012345678", Route: route, Tool: read,
		})
		w.must(err)
	},
	"runtime_run_absent": func(w *world) {
		w.free().submit(write, hubtest.Executed(`{"ok":true,"updated":1}`))
		w.edit(func(r *hubtest.Record) { r.Run = nil })
	},
	"executed_text_cut_inside_emoji_journal": func(w *world) {
		w.free().submit(write, hubtest.Executed(strings.Repeat("x", 8191)+"😀 and more"))
	},
	"executed_text_cut_inside_emoji_job": func(w *world) {
		w.submit(read, hubtest.Executed(strings.Repeat("x", 8191)+"😀 and more"))
	},
	"executed_blank_text": func(w *world) { w.free().submit(write, hubtest.Executed(" \n")) },
	"executed_status_204": func(w *world) { w.free().submit(write, hubtest.Answered(204, "")) },

	"invocation_conflict_principal":     marker(func(m *hubtest.Marker) { m.Principal = "another" }),
	"invocation_conflict_tenant_absent": marker(func(m *hubtest.Marker) { m.Tenant = "" }),
	"invocation_conflict_on_behalf_of":  marker(func(m *hubtest.Marker) { m.OnBehalfOf = "another" }),
	"invocation_marker_damaged":         awaiting(func(w *world) { w.must(w.Damage(idA, hubtest.DamageMarker)) }),
	"agent_run_conflict_session":        awaiting(func(w *world) { w.must(w.Damage(idA, hubtest.DamageRun)) }),
	"agent_run_conflict_thread":         awaiting(func(w *world) { w.edit(func(r *hubtest.Record) { r.Run.Thread = "another" }) }),
	"capability_changed":                editRoute(func(r *hubtest.Route) { delete(r.Tools, write) }),
	"capability_changed_permission":     awaiting(func(w *world) { w.editSession(func(s *hubtest.Session) { s.Tools = []string{read} }) }),
	"route_not_allowed_session":         awaiting(func(w *world) { w.editSession(func(s *hubtest.Session) { s.Routes = []string{"other"} }) }),
	"route_not_allowed_client": awaiting(func(w *world) {
		w.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.Routes = []string{"other"} })
	}),
	"route_disabled":        editRoute(func(r *hubtest.Route) { r.Disabled = true }),
	"route_missing":         awaiting(func(w *world) { w.RemoveRoute(route) }),
	"agent_direct_disabled": editRoute(func(r *hubtest.Route) { r.AgentDirectDisabled = true }),
	"audience_not_allowed":  editRoute(func(r *hubtest.Route) { r.AudienceRefused = true }),
	"client_disabled": awaiting(func(w *world) {
		w.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.Disabled = true })
	}),
	"client_without_authorize_url": awaiting(func(w *world) {
		w.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.NoAuthorizeURL = true })
	}),
	"hub_paused":                       awaiting(func(w *world) { w.SetPaused(true) }),
	"hub_paused_resume_for_contrast":   awaiting(func(w *world) { w.SetPaused(true) }),
	"invocation_record_invalid_status": awaiting(func(w *world) { w.must(w.Damage(idA, hubtest.DamageApproval)) }),
	"invocation_record_invalid_id":     awaiting(func(w *world) { w.edit(func(r *hubtest.Record) { r.Approval.ID = 0 }) }),
	"provider_disabled":                editRoute(func(r *hubtest.Route) { r.Provider = hubtest.ProviderDisabled }),
	"provider_missing":                 editRoute(func(r *hubtest.Route) { r.Provider = hubtest.ProviderMissing }),
	"provider_spec_empty":              editRoute(func(r *hubtest.Route) { r.Provider = hubtest.ProviderSpecEmpty }),
	"provider_spec_invalid_json":       editRoute(func(r *hubtest.Route) { r.Provider = hubtest.ProviderSpecInvalid }),
	"journal_storage_failure":          broken(hubtest.JournalStorage),
	"state_storage_failure":            broken(hubtest.StateStorage),
	"auth_storage_failure":             broken(hubtest.AuthStorage),

	"control_plane_missing_real_composition": broken(hubtest.ControlPlane),
	"control_plane_without_agent_auth":       broken(hubtest.AgentAuth),
	"control_plane_missing_tools_not_wired":  awaiting(func(w *world) { w.Break(hubtest.ControlPlane, hubtest.ToolService) }),
	"control_plane_missing_service":          broken(hubtest.ToolServiceControl),

	"task_unsupported":         task("TASK_UNSUPPORTED"),
	"task_required":            task("TASK_REQUIRED"),
	"task_binding_conflict":    task("TASK_BINDING_CONFLICT"),
	"task_scope_blocked":       task("TASK_SCOPE_BLOCKED"),
	"task_not_found":           task("TASK_NOT_FOUND"),
	"task_unavailable":         task("TASK_UNAVAILABLE"),
	"task_private_code_mapped": task("TASK_LEDGER_ROW_TORN"),
	"task_ok":                  task(""),
}

// authorization returns the header that a recording describes, empty for none.
func (w *world) authorization(described string) string {
	w.t.Helper()
	token := w.session.AccessToken
	switch described {
	case "none":
		return ""
	case "valid original session":
		return "Bearer " + token
	case "valid other session":
		return "Bearer " + w.Login(hubtest.Grant{Principal: "person", Tenant: "tenant"}).AccessToken
	case "unknown token":
		return "Bearer " + strings.Repeat("0", len(token))
	case "short token":
		return "Bearer " + token[:len(token)-1]
	case "no bha_ prefix":
		return "Bearer " + strings.TrimPrefix(token, "synthetic-")
	case "two spaces":
		return "Bearer  " + token
	case "bearer (lower case)":
		return "bearer " + token
	case "20 KB bearer":
		return "Bearer " + strings.Repeat("x", 20_000)
	}
	w.t.Fatalf("no authorization %q", described)
	return ""
}

func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "hub-recorded.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 141 {
		t.Fatalf("%d recordings, want 141", len(all))
	}
	used := map[string]bool{}
	for _, rec := range all {
		used[rec.Name] = true
		t.Run(rec.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if set := situations[rec.Name]; set != nil {
				set(w)
			} else {
				w.submit(write)
			}
			for _, way := range ways(w) {
				replay(t, w, way, rec)
			}
		})
	}
	for name := range situations {
		if !used[name] {
			t.Errorf("situation %q belongs to no recording", name)
		}
	}
}

// A way is one of the paths on which a request reaches a Hub.
type way struct {
	name, url string
	client    *http.Client
}

func ways(w *world) []way {
	plain, secure := w.Start(), w.StartTLS()
	return []way{
		{"in process", "https://hub.example", &http.Client{Transport: w.Transport()}},
		{"plain", plain.URL, plain.Client()},
		{"TLS", secure.URL, secure.Client()},
	}
}

var (
	observedAt = regexp.MustCompile(`"observed_at":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"`)
	uuid       = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	requestID  = regexp.MustCompile(`"request_id":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)
)

// replay sends the request of a recording and compares the answer: the bytes
// of the body, once what differs from one answer to the next is blotted out.
func replay(t *testing.T, w *world, way way, rec recorded) {
	t.Helper()
	var body io.Reader
	switch rec.Name {
	case "get_with_body":
		body = strings.NewReader(`{"tool":"another"}`)
	case "get_with_large_body":
		body = strings.NewReader(strings.Repeat("x", 1<<20))
	}
	req, err := http.NewRequestWithContext(t.Context(), rec.Request.Method, way.url+rec.Request.Path, body)
	if err != nil {
		t.Fatal(err)
	}
	if auth := w.authorization(rec.Request.Authorization); auth != "" {
		req.Header.Set("Authorization", auth)
	}
	if rec.Name == "if_none_match" {
		req.Header.Set("If-None-Match", "*")
	}
	res, err := way.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", way.name, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", way.name, err)
	}

	type answer struct {
		Status  int
		Headers map[string]string
		Body    string
	}
	blot := func(s string) string {
		return requestID.ReplaceAllString(observedAt.ReplaceAllString(s, `"observed_at":"…"`), `"request_id":"…"`)
	}
	got := answer{res.StatusCode, map[string]string{}, blot(string(raw))}
	for name, values := range res.Header {
		switch name {
		case "Date", "Connection":
		default:
			got.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	if got.Status == 500 {
		// The recorder did not keep this header.
		if !uuid.MatchString(got.Headers["x-request-id"]) {
			t.Errorf("%s: a 500 without the id of the request: %v", way.name, got.Headers)
		}
		delete(got.Headers, "x-request-id")
	}
	want := answer{rec.Answer.Status, rec.Answer.Headers, blot(rec.Answer.Raw)}
	if res.ProtoMajor == 1 {
		if len(res.TransferEncoding) > 0 {
			got.Headers["transfer-encoding"] = strings.Join(res.TransferEncoding, ", ")
		}
	} else {
		delete(want.Headers, "transfer-encoding") // HTTP/2 has frames for it
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-recorded +mock):\n%s", way.name, diff)
	}
}
