package hubtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// seen is how a receipt shows an invocation: result and its source, dispatch,
// approval, journal.
func seen(h *host, id string) string {
	h.t.Helper()
	r := h.get(receiptPath(id)).json
	result, _ := r["result"].(map[string]any)
	approval, _ := r["approval"].(map[string]any)
	return fmt.Sprintf("%v/%v/%v/%v/%v", result["state"], r["result_source"], r["dispatch_state"], approval["status"], r["journal_state"])
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	type step struct {
		do   func(hub *hubtest.Hub, id string) error
		seen string
	}
	approve, deny, resume := (*hubtest.Hub).Approve, (*hubtest.Hub).Deny, (*hubtest.Hub).Resume
	finish := func(o hubtest.Outcome) func(*hubtest.Hub, string) error {
		return func(hub *hubtest.Hub, id string) error { return hub.Finish(id, o) }
	}
	damage := func(d hubtest.Damage) func(*hubtest.Hub, string) error {
		return func(hub *hubtest.Hub, id string) error { return hub.Damage(id, d) }
	}
	limited := hubtest.RateLimited(time.Minute, nil)
	for name, tt := range map[string]struct {
		tool       string
		plan       []hubtest.Outcome
		submitted  string
		steps      []step
		operations int
	}{
		"approved and resumed": {
			tool: hubtest.GovernedTool, submitted: "awaiting_approval/job/not_dispatched/pending/absent",
			steps: []step{
				{resume, "awaiting_approval/job/not_dispatched/pending/absent"},
				{approve, "awaiting_approval/job/not_dispatched/approved/absent"},
				{resume, "executed/journal/attempted/approved/completed"},
				{resume, "executed/journal/attempted/approved/completed"},
			},
			operations: 1,
		},
		"denied": {
			tool: hubtest.GovernedTool, submitted: "awaiting_approval/job/not_dispatched/pending/absent",
			steps: []step{
				{deny, "awaiting_approval/job/not_dispatched/denied/absent"},
				{resume, "denied/job/not_dispatched/denied/absent"},
				{resume, "denied/job/not_dispatched/denied/absent"},
			},
		},
		"hangs and ends": {
			tool: hubtest.WriteTool, plan: []hubtest.Outcome{hubtest.Hanging()}, submitted: "reconciliation_required/journal/attempted/none/dispatching",
			steps: []step{
				{resume, "reconciliation_required/journal/attempted/none/dispatching"},
				{finish(hubtest.Hanging()), "reconciliation_required/journal/attempted/none/dispatching"},
				{finish(hubtest.ResponseRecorded(200, "x")), "reconciliation_required/journal/attempted/none/response_recorded"},
				{finish(hubtest.Executed("x")), "executed/journal/attempted/none/completed"},
			},
			operations: 1,
		},
		"the zero outcome": {
			tool: hubtest.WriteTool, plan: []hubtest.Outcome{{}}, submitted: "executed/journal/attempted/none/completed",
			operations: 1,
		},
		"hangs and is lost": {
			tool: hubtest.WriteTool, plan: []hubtest.Outcome{hubtest.Hanging()}, submitted: "reconciliation_required/journal/attempted/none/dispatching",
			steps: []step{
				{finish(hubtest.AnswerLost()), "reconciliation_required/journal/attempted/none/uncertain"},
				{resume, "reconciliation_required/journal/attempted/none/uncertain"},
			},
			operations: 1,
		},
		"read-only hangs and ends": {
			tool: hubtest.ReadTool, plan: []hubtest.Outcome{hubtest.Hanging()}, submitted: "in_progress/job/attempted/none/absent",
			steps:      []step{{finish(hubtest.Answered(404, "x")), "business_rejected/job/attempted/none/absent"}},
			operations: 1,
		},
		"read-only without evidence": {
			tool: hubtest.ReadTool, plan: []hubtest.Outcome{hubtest.EvidenceDegraded()}, submitted: "reconciliation_required/job/attempted/none/absent",
			operations: 1,
		},
		"read-only recorded": {
			tool: hubtest.ReadTool, plan: []hubtest.Outcome{hubtest.ResponseRecorded(200, "x")}, submitted: "reconciliation_required/job/attempted/none/absent",
			operations: 1,
		},
		"rate limited, then resumed": {
			tool: hubtest.WriteTool, plan: []hubtest.Outcome{limited, limited}, submitted: "rejected_before_dispatch/job/not_dispatched/none/absent",
			steps: []step{
				{resume, "rejected_before_dispatch/job/not_dispatched/none/absent"},
				{resume, "executed/journal/attempted/none/completed"},
			},
			operations: 1,
		},
		"approved, rate limited, then resumed": {
			tool: hubtest.GovernedTool, plan: []hubtest.Outcome{limited}, submitted: "awaiting_approval/job/not_dispatched/pending/absent",
			steps: []step{
				{approve, "awaiting_approval/job/not_dispatched/approved/absent"},
				{resume, "rejected_before_dispatch/job/not_dispatched/approved/absent"},
				{resume, "executed/journal/attempted/approved/completed"},
			},
			operations: 1,
		},
		"rejected for good": {
			tool: hubtest.WriteTool, plan: []hubtest.Outcome{hubtest.Rejected()}, submitted: "rejected_before_dispatch/job/not_dispatched/none/absent",
			steps: []step{{resume, "rejected_before_dispatch/job/not_dispatched/none/absent"}},
		},
		"refused by the business system after a hang": {
			tool: hubtest.WriteTool, plan: []hubtest.Outcome{hubtest.Hanging()}, submitted: "reconciliation_required/journal/attempted/none/dispatching",
			steps:      []step{{finish(hubtest.Rejected()), "business_rejected/journal/attempted/none/completed"}},
			operations: 1,
		},
		"the result no longer parses": {
			tool: hubtest.ReadTool, submitted: "executed/job/attempted/none/absent",
			steps: []step{
				{damage(hubtest.DamageResult), "<nil>/none/attempted/none/absent"},
				{resume, "<nil>/none/attempted/none/absent"},
			},
			operations: 1,
		},
		"the journal is of another time": {
			tool: hubtest.WriteTool, submitted: "executed/journal/attempted/none/completed",
			steps:      []step{{damage(hubtest.DamageJournal), "reconciliation_required/journal/unknown/none/unknown"}},
			operations: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t)
			s := hub.Login(hubtest.Grant{})
			host := newHost(t, hub, s)
			id := submit(t, hub, s, tt.tool, tt.plan...)
			if got := seen(host, id); got != tt.submitted {
				t.Errorf("submitted: %s, want %s", got, tt.submitted)
			}
			for i, step := range tt.steps {
				must(t, step.do(hub, id))
				before := hub.Snapshot()
				if got := seen(host, id); got != step.seen {
					t.Errorf("step %d: %s, want %s", i+1, got, step.seen)
				}
				if diff := cmp.Diff(before, hub.Snapshot()); diff != "" {
					t.Errorf("step %d: inspecting changed the Hub:\n%s", i+1, diff)
				}
			}
			if got := hub.BusinessOperations(); got != tt.operations {
				t.Errorf("%d business operations, want %d", got, tt.operations)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for how, want := range map[hubtest.Damage]string{
		hubtest.DamageMarker:   "404 invocation_not_found",
		hubtest.DamageJob:      "404 invocation_not_found",
		hubtest.DamageApproval: "503 invocation_record_invalid",
		hubtest.DamageRun:      "409 agent_run_conflict",
		hubtest.DamageIdentity: "409 invocation_conflict",
	} {
		hub := newHub(t)
		s := hub.Login(hubtest.Grant{})
		host := newHost(t, hub, s)
		id := submit(t, hub, s, hubtest.GovernedTool)
		must(t, hub.Damage(id, how))
		got := host.get(receiptPath(id))
		if got := fmt.Sprint(got.status, " ", got.text("error")); got != want {
			t.Errorf("damage %d: %s, want %s", how, got, want)
		}
		if err := hub.Resume(id); err == nil {
			t.Errorf("damage %d: resumed", how)
		}
	}
	hub := newHub(t)
	if hub.Damage(idA, hubtest.DamageMarker) == nil {
		t.Error("an invocation that nobody made was damaged")
	}
}

func TestTaskControl(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.ReadTool)
	for code, want := range map[string]string{
		"TASK_INVALID_INPUT":      "400 TASK_INVALID_INPUT",
		"TASK_DISPATCH_UNCERTAIN": "409 TASK_DISPATCH_UNCERTAIN",
		"TASK_PAUSED":             "409 TASK_PAUSED",
		"TASK_RECORD_INVALID":     "409 TASK_RECORD_INVALID",
		"private":                 "409 TASK_RECORD_INVALID",
	} {
		must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Job.TaskRefusal = code }))
		got := host.get(receiptPath(id))
		if got := fmt.Sprint(got.status, " ", got.text("error")); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}

func TestSubmitOverHTTP(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	op := fmt.Sprintf(`{"invocation_id":%q,"agent_run_id":%q,"route":"catalog-agent","tool":"product_update","arguments":{"price": 12}}`, idA, runID)

	first := host.do(http.MethodPost, submitPath, op)
	want := map[string]any{
		"schema_version": "bailing.agent-tool-invocation.v1", "invocation_id": idA, "route": "catalog-agent", "tool": "product_update",
		"state": "executed", "ok": true, "auto_retry_allowed": false, "text": `{"ok":true}`, "business_status": 200.0,
	}
	if diff := cmp.Diff(want, first.json); first.status != 200 || diff != "" {
		t.Errorf("submit: %d\n%s", first.status, diff)
	}
	before := hub.Snapshot()
	again := host.do(http.MethodPost, submitPath, strings.ReplaceAll(op, `"price": 12`, `"price":12`))
	if diff := cmp.Diff(first, again, cmp.AllowUnexported(reply{})); diff != "" {
		t.Errorf("the same operation under the same id was told something else:\n%s", diff)
	}
	other := host.do(http.MethodPost, submitPath, strings.Replace(op, "12", "13", 1))
	if other.status != 409 || other.text("error") != "invocation_conflict" {
		t.Errorf("another operation under the same id: %d %s", other.status, other.raw)
	}
	resumed := host.do(http.MethodPost, resumePath(idA), "")
	if diff := cmp.Diff(first.raw, resumed.raw); diff != "" {
		t.Errorf("resuming what is done was told something else:\n%s", diff)
	}
	if diff := cmp.Diff(before, hub.Snapshot()); diff != "" {
		t.Errorf("asking again changed something:\n%s", diff)
	}
	if got := host.get(receiptPath(idA)).text("agent_run_id"); got != runID {
		t.Errorf("agent run %s", got)
	}
	if diff := cmp.Diff(hubtest.Counts{Receipt: 1, Submit: 3, Resume: 1}, hub.Requests()); diff != "" {
		t.Errorf("requests:\n%s", diff)
	}
	if got := hub.BusinessOperations(); got != 1 {
		t.Errorf("%d business operations, want 1", got)
	}
}

func TestSubmitRefused(t *testing.T) {
	t.Parallel()
	const op = `{"route":"catalog-agent","tool":"product_update"}`
	nothing := func(*hubtest.Hub) {}
	for name, tt := range map[string]struct {
		set    func(*hubtest.Hub)
		body   string
		status int
		code   string
	}{
		"no JSON":        {nothing, "{", 400, "invalid_request"},
		"too large":      {nothing, op + strings.Repeat(" ", 1<<20), 400, "invalid_request"},
		"no route":       {nothing, `{"tool":"product_update"}`, 400, "invalid_route"},
		"route auto":     {nothing, `{"route":"auto","tool":"product_update"}`, 400, "invalid_route"},
		"no tool":        {nothing, `{"route":"catalog-agent"}`, 400, "invalid_request"},
		"bad id":         {nothing, `{"route":"catalog-agent","tool":"product_update","invocation_id":"x"}`, 400, "invalid_request"},
		"bad run":        {nothing, `{"route":"catalog-agent","tool":"product_update","agent_run_id":"x"}`, 400, "invalid_request"},
		"unknown route":  {nothing, `{"route":"another","tool":"product_update"}`, 404, "route_unavailable"},
		"unknown tool":   {nothing, `{"route":"catalog-agent","tool":"another"}`, 409, "capability_changed"},
		"paused":         {func(h *hubtest.Hub) { h.SetPaused(true) }, op, 503, "hub_paused"},
		"unknown client": {func(h *hubtest.Hub) { h.RemoveClient(hubtest.DefaultClient) }, op, 401, "unauthorized"},
		"no control":     {func(h *hubtest.Hub) { h.Break(hubtest.ToolServiceControl) }, op, 503, "agent_tools_unavailable"},
		"no storage":     {func(h *hubtest.Hub) { h.Break(hubtest.StateStorage) }, op, 500, "agent_tool_internal_error"},
		"tools away":     {func(h *hubtest.Hub) { h.Break(hubtest.ToolService) }, op, 503, "agent_tools_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t)
			s := hub.Login(hubtest.Grant{})
			tt.set(hub)
			got := newHost(t, hub, s).do(http.MethodPost, submitPath, tt.body)
			if got.status != tt.status || got.text("error") != tt.code {
				t.Errorf("%d %s, want %d %s", got.status, got.raw, tt.status, tt.code)
			}
			if got := hub.Snapshot(); got != (hubtest.Snapshot{}) {
				t.Errorf("a refused operation left %+v", got)
			}
		})
	}
}

func TestPauseBlocksResume(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	id := submit(t, hub, s, hubtest.GovernedTool)
	must(t, hub.Approve(id))
	hub.SetPaused(true)
	wantRefusal(t, hub.Resume(id), 503, "hub_paused")
	_, err := hub.Submit(s.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	wantRefusal(t, err, 503, "hub_paused")
	if got := hub.BusinessOperations(); got != 0 {
		t.Errorf("%d operations during the pause", got)
	}
	hub.SetPaused(false)
	must(t, hub.Resume(id))
	if got := hub.BusinessOperations(); got != 1 {
		t.Errorf("%d operations after the pause, want 1", got)
	}
}

func TestLifecycleMistakes(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	done := submit(t, hub, s, hubtest.WriteTool)
	_, err := hub.Submit(s.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool, Arguments: []byte("{")})
	wantRefusal(t, err, 400, "invalid_request")
	for name, err := range map[string]error{
		"approve what nobody made": hub.Approve(idA),
		"approve what is done":     hub.Approve(done),
		"resume what nobody made":  hub.Resume(idA),
		"finish what nobody made":  hub.Finish(idA, hubtest.Executed("")),
		"finish what is done":      hub.Finish(done, hubtest.Executed("")),
		"edit what nobody made":    hub.EditRecord(idA, func(*hubtest.Record) {}),
	} {
		var refusal *hubtest.Refusal
		if err == nil || errors.As(err, &refusal) {
			t.Errorf("%s: error %v, want one about the mistake", name, err)
		}
	}
	_, err = hub.Submit("nobody", hubtest.Submission{})
	wantRefusal(t, err, 401, "unauthorized")
	waiting := submit(t, hub, s, hubtest.GovernedTool)
	must(t, hub.Approve(waiting))
	if hub.Deny(waiting) == nil {
		t.Error("an approval was decided twice")
	}
	hub.Revoke(s.ID)
	wantRefusal(t, hub.Resume(waiting), 401, "unauthorized")
	if got, want := err.Error(), "hubtest: the Hub refused: 401 unauthorized"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	started, answer := make(chan hubtest.Operation), make(chan hubtest.Outcome)
	hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) {
		r.Tools["stock_set"] = hubtest.Tool{Run: func(ctx context.Context, op hubtest.Operation) hubtest.Outcome {
			started <- op
			return <-answer
		}}
	})
	run := func(outcome hubtest.Outcome, meanwhile func()) string {
		t.Helper()
		id := ""
		var wg sync.WaitGroup
		wg.Go(func() {
			var err error
			id, err = hub.Submit(s.ID, hubtest.Submission{InvocationID: idA, Route: hubtest.DefaultRoute, Tool: "stock_set", Arguments: json.RawMessage(`{"n":1}`)})
			if err != nil {
				t.Error(err)
			}
		})
		op := <-started
		want := hubtest.Operation{InvocationID: idA, Route: hubtest.DefaultRoute, Tool: "stock_set", Arguments: json.RawMessage(`{"n":1}`)}
		if diff := cmp.Diff(want, op); diff != "" {
			t.Errorf("operation:\n%s", diff)
		}
		meanwhile()
		answer <- outcome
		wg.Wait()
		out := seen(host, id)
		hub.RemoveRecord(id)
		return out
	}
	inFlight := func() {
		t.Helper()
		if got, want := seen(host, idA), "reconciliation_required/journal/attempted/none/dispatching"; got != want {
			t.Errorf("while it runs: %s, want %s", got, want)
		}
	}
	if got, want := run(hubtest.Executed("done"), inFlight), "executed/journal/attempted/none/completed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := run(hubtest.RateLimited(time.Second, nil), inFlight), "business_rejected/journal/attempted/none/completed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Somebody else settled it first.
	finished := func() { must(t, hub.Finish(idA, hubtest.AnswerLost())) }
	if got, want := run(hubtest.Executed("late"), finished), "reconciliation_required/journal/attempted/none/uncertain"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestResumedOnceByMany(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.GovernedTool)
	must(t, hub.Approve(id))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := hub.Resume(id); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if got, err := host.try(t.Context(), http.MethodPost, resumePath(id), ""); err != nil || got.text("state") != "executed" {
				t.Errorf("resume: %v %s", err, got.raw)
			}
		})
		wg.Go(func() {
			if _, err := host.try(t.Context(), http.MethodGet, receiptPath(id), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := hub.BusinessOperations(); got != 1 {
		t.Errorf("%d business operations, want 1", got)
	}
}

// A submit over HTTP whose outcome hangs is answered when it ends, and one
// whose client gave up leaves the operation in flight.
func TestHangingOverHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := newHub(t)
		host := newHost(t, hub, hub.Login(hubtest.Grant{}))
		op := fmt.Sprintf(`{"invocation_id":%q,"route":"catalog-agent","tool":"product_update"}`, idA)
		hub.Plan(hubtest.Hanging())
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, err := host.try(ctx, http.MethodPost, submitPath, op)
			gaveUp <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("giving up: %v", err)
		}
		answers := make(chan reply, 1)
		go func() { answers <- host.do(http.MethodPost, submitPath, op) }()
		synctest.Wait()
		if len(answers) != 0 {
			t.Error("a hanging operation was answered")
		}
		must(t, hub.Finish(idA, hubtest.Executed("done")))
		if got := <-answers; got.text("state") != "executed" {
			t.Errorf("after the end: %s", got.raw)
		}
		if got := hub.BusinessOperations(); got != 1 {
			t.Errorf("%d business operations, want 1", got)
		}
	})
}

func TestRecords(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	id := submit(t, hub, s, hubtest.GovernedTool)
	r, ok := hub.Record(id)
	if !ok {
		t.Fatal("no record")
	}
	r.InvocationID = idA
	r.Approval.ID = 40
	r.Journal = &hubtest.Journal{State: hubtest.JournalUncertain}
	hub.Store(r)
	if now, _ := hub.Record(id); now.Approval.ID == 40 || now.Journal != nil {
		t.Error("a copy of a record reaches into the Hub")
	}
	if got := hub.Records(); len(got) != 2 {
		t.Errorf("%d records, want 2", len(got))
	}
	if got := seen(newHost(t, hub, s), idA); got != "reconciliation_required/journal/attempted/pending/uncertain" {
		t.Errorf("the stored record shows %s", got)
	}
	next, _ := hub.Record(submit(t, hub, s, hubtest.GovernedTool))
	if next.Approval.ID != 41 {
		t.Errorf("the next approval is %d, want 41", next.Approval.ID)
	}
	hub.RemoveRecord(idA)
	if _, ok := hub.Record(idA); ok {
		t.Error("a removed record is there")
	}
	if got := newHost(t, hub, s).get(receiptPath(idA)).status; got != 404 {
		t.Errorf("a removed record: %d", got)
	}
}

// An attempt that may have been made is never made again, whatever else the
// records say.
func TestResumeTrustsTheFlag(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	id := submit(t, hub, s, hubtest.GovernedTool)
	must(t, hub.Approve(id))
	for _, dispatched := range []hubtest.Dispatched{hubtest.DispatchYes, hubtest.DispatchUnrecorded} {
		must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Job.Dispatched = dispatched }))
		must(t, hub.Resume(id))
	}
	must(t, hub.EditRecord(id, func(r *hubtest.Record) {
		r.Job.Dispatched, r.Journal = hubtest.DispatchNo, &hubtest.Journal{State: hubtest.JournalUncertain}
	}))
	must(t, hub.Resume(id))
	if got := hub.BusinessOperations(); got != 0 {
		t.Errorf("%d business operations, want none", got)
	}
}

func TestStoredJournal(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.WriteTool)
	for response, want := range map[string]string{
		`{"ok":true,"status":200,"text":"x"}`:                                 "executed",
		`{"ok":false,"status":200,"text":"x"}`:                                "business_rejected",
		`{"ok":true,"status":9007199254740992,"text":"x"}`:                    "reconciliation_required",
		`{"ok":true,"status":1.5,"text":"x"}`:                                 "reconciliation_required",
		`{"ok":true,"status":200}`:                                            "executed",
		`{"ok":true,"status":200,"text":null}`:                                "executed",
		`{"ok":true,"status":200,"text":"` + strings.Repeat("x", 8192) + `"}`: "executed",
		`{"ok":true,"status":200,"text":"` + strings.Repeat("x", 8193) + `"}`: "executed",
		`{"status":200,"text":"x"}`:                                           "reconciliation_required",
		`damaged`:                                                             "reconciliation_required",
	} {
		must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Journal.Response = []byte(response) }))
		if got := seen(host, id); got != want+"/journal/attempted/none/completed" {
			t.Errorf("%.60s: %s, want %s", response, got, want)
		}
	}
}

// What a journal says of the text: one that is lost is empty, one that is too
// long is cut, and none has control characters.
func TestJournalText(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.WriteTool)
	for stored, want := range map[string]string{
		`null`: "",
		`3`:    "",
		`"` + strings.Repeat("x", 8191) + ` and more"`: strings.Repeat("x", 8191) + " ",
		`" a\u0007b "`: "a b",
	} {
		must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Journal.Response = []byte(`{"ok":true,"status":200,"text":` + stored + `}`) }))
		result, _ := host.get(receiptPath(id)).json["result"].(map[string]any)
		if result["text"] != want {
			t.Errorf("stored %.40s: %.40q, want %.40q", stored, result["text"], want)
		}
	}
}

// A word that is no state of a journal reads as uncertain.
func TestJournalOfAnOddState(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.WriteTool)
	for state, want := range map[hubtest.JournalState]string{
		"levitating": "reconciliation_required/journal/attempted/none/uncertain",
		"":           "reconciliation_required/journal/attempted/none/uncertain",
		"unknown":    "reconciliation_required/journal/unknown/none/unknown",
	} {
		must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Journal.State = state }))
		if got := seen(host, id); got != want {
			t.Errorf("%q: %s, want %s", state, got, want)
		}
	}
}

// A tool that may be called twice keeps no journal.
func TestIdempotentTool(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) { r.Tools[hubtest.WriteTool] = hubtest.Tool{Idempotent: true} })
	id := submit(t, hub, s, hubtest.WriteTool)
	if got, want := seen(newHost(t, hub, s), id), "executed/job/attempted/none/absent"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The Hub gives the first reason that it meets.
func TestOrderOfReasons(t *testing.T) {
	t.Parallel()
	edit := func(f func(*hubtest.Record)) func(*hubtest.Hub, string) {
		return func(hub *hubtest.Hub, id string) { _ = hub.EditRecord(id, f) }
	}
	breaks := func(p hubtest.Part) func(*hubtest.Hub, string) {
		return func(hub *hubtest.Hub, _ string) { hub.Break(p) }
	}
	// In the order in which the Hub looks.
	reasons := []struct {
		want string
		make func(hub *hubtest.Hub, id string)
	}{
		{"401 unauthorized", breaks(hubtest.ControlPlane)},
		{"500 internal_error", breaks(hubtest.AuthStorage)},
		{"503 agent_tools_unavailable", breaks(hubtest.ToolServiceControl)},
		{"500 agent_tool_internal_error", breaks(hubtest.StateStorage)},
		{"404 invocation_not_found", edit(func(r *hubtest.Record) { r.Job.Marker.AgentRunID = "no" })},
		{"409 invocation_conflict", edit(func(r *hubtest.Record) { r.Job.Marker.Principal = "another" })},
		{"409 TASK_PAUSED", edit(func(r *hubtest.Record) { r.Job.TaskRefusal = "TASK_PAUSED" })},
		{"409 agent_run_conflict", edit(func(r *hubtest.Record) { r.Run.Thread = "another" })},
		{"404 route_unavailable", func(hub *hubtest.Hub, _ string) { hub.RemoveRoute(hubtest.DefaultRoute) }},
		{"500 agent_tool_internal_error", breaks(hubtest.JournalStorage)},
		{"503 invocation_record_invalid", edit(func(r *hubtest.Record) { r.Approval.Status = "perhaps" })},
	}
	for i, first := range reasons {
		for _, second := range reasons[i:] {
			hub := newHub(t)
			s := hub.Login(hubtest.Grant{})
			id := submit(t, hub, s, hubtest.GovernedTool)
			second.make(hub, id)
			first.make(hub, id)
			got := newHost(t, hub, s).get(receiptPath(id))
			if said := fmt.Sprint(got.status, " ", got.text("error")); said != first.want {
				t.Errorf("%s with %s: %s", first.want, second.want, said)
			}
		}
	}
}

// What damage of the job itself does: its status and number are of no account,
// and one that is not whole is none of the Hub's.
func TestOddJob(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*hubtest.Record)
		want string
	}{
		"status":          {func(r *hubtest.Record) { r.Job.Status = "odd" }, "200 "},
		"number":          {func(r *hubtest.Record) { r.Job.ID = -1 }, "200 "},
		"run":             {func(r *hubtest.Record) { r.Job.Marker.AgentRunID = "odd" }, "404 invocation_not_found"},
		"route":           {func(r *hubtest.Record) { r.Job.Marker.Route = "Odd" }, "404 invocation_not_found"},
		"tool":            {func(r *hubtest.Record) { r.Job.Marker.Tool = "9" }, "404 invocation_not_found"},
		"for nobody":      {func(r *hubtest.Record) { r.Job.Marker.OnBehalfOf = "" }, "404 invocation_not_found"},
		"approval status": {func(r *hubtest.Record) { r.Approval.Status = "odd" }, "503 invocation_record_invalid"},
		"approval 0":      {func(r *hubtest.Record) { r.Approval.ID = 0 }, "503 invocation_record_invalid"},
		"approval 2^53-1": {func(r *hubtest.Record) { r.Approval.ID = 1<<53 - 1 }, "200 "},
		"approval 2^53":   {func(r *hubtest.Record) { r.Approval.ID = 1 << 53 }, "503 invocation_record_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t)
			s := hub.Login(hubtest.Grant{})
			id := submit(t, hub, s, hubtest.GovernedTool)
			must(t, hub.EditRecord(id, tt.edit))
			got := newHost(t, hub, s).get(receiptPath(id))
			if said := fmt.Sprint(got.status, " ", got.text("error")); said != tt.want {
				t.Errorf("%s, want %s", said, tt.want)
			}
		})
	}
}

// An invocation is its own session's and its own client's.
func TestMarker(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.ReadTool)
	for name, change := range map[string]func(*hubtest.Marker){
		"session": func(m *hubtest.Marker) { m.SessionID = runID },
		"client":  func(m *hubtest.Marker) { m.ClientID = "another" },
	} {
		before, _ := hub.Record(id)
		must(t, hub.EditRecord(id, func(r *hubtest.Record) { change(&r.Job.Marker) }))
		if got := host.get(receiptPath(id)); got.status != 404 || got.text("error") != "invocation_not_found" {
			t.Errorf("another %s: %d %s", name, got.status, got.raw)
		}
		hub.Store(before)
	}
	must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.InvocationID = idA }))
	if r, _ := hub.Record(id); r.InvocationID != id {
		t.Error("the id of a record was changed")
	}
}

// What edit was given is not the Hub's own.
func TestEditGivesCopies(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	routes := []string{hubtest.DefaultRoute}
	hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.Routes = routes })
	routes[0] = "another"
	var tools map[string]hubtest.Tool
	hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) { tools = r.Tools })
	clear(tools)
	submit(t, hub, s, hubtest.ReadTool)
	// What stays after an edit of something else.
	hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.NoAuthorizeURL = false })
	hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) { r.Disabled = false })
	submit(t, hub, s, hubtest.ReadTool)
	hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.Routes = []string{} })
	_, err := hub.Submit(s.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.ReadTool})
	wantRefusal(t, err, 403, "route_not_allowed")
}

// A wait, a denial or a rejection was before any dispatch, whatever the job notes
// of it.
func TestResultBeforeTheFlag(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.GovernedTool)
	for state, want := range map[string]string{
		"awaiting_approval": "not_dispatched", "denied": "not_dispatched", "rejected_before_dispatch": "not_dispatched",
		"executed": "attempted", "in_progress": "attempted", "reconciliation_required": "attempted",
	} {
		must(t, hub.EditRecord(id, func(r *hubtest.Record) {
			r.Job.Dispatched = hubtest.DispatchYes
			r.Job.Result = []byte(fmt.Sprintf(`{"schema_version":"bailing.agent-tool-invocation.v1","invocation_id":%q,"route":"catalog-agent",`+
				`"tool":"product_publish","state":%q,"ok":false,"auto_retry_allowed":false,"text":""}`, id, state))
		}))
		if got := host.get(receiptPath(id)).text("dispatch_state"); got != want {
			t.Errorf("%s: dispatch %s, want %s", state, got, want)
		}
	}
}

// What a job says without a flag: a wait or a rejection was before any
// dispatch, and nothing else is known.
func TestDispatchWithoutFlag(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	id := submit(t, hub, s, hubtest.GovernedTool)
	must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Job.Dispatched = hubtest.DispatchUnrecorded }))
	if got, want := seen(newHost(t, hub, s), id), "awaiting_approval/job/not_dispatched/pending/absent"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A stored text goes out as the Hub writes it: escaped where it must be and
// nowhere else, and no code unit is lost.
func TestStoredText(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.ReadTool)
	for stored, want := range map[string]string{
		`"a\b\f\n\r\t\"\\\/\u0001b"`:          `"a  \n\r\t\"\\/ b"`,
		`"<&>\u003c\u2028\u00e9\u007f!"`:      "\"<&><\u2028é !\"",
		`" \n\u0001\ufeff\u00a0a \u007f"`:     `"a"`,
		`" \u0085 "`:                          "\"\u0085\"",
		`"😀\ud83d\ude00\ud83d\ude00"`:         `"😀😀😀"`,
		`"\ude00\ud83d \udfff\ud83d"`:         `"\ude00\ud83d \udfff\ud83d"`,
		"\"a\xffb\"":                          "\"a\ufffdb\"",
		`"` + strings.Repeat("审", 8192) + `"`: `"` + strings.Repeat("审", 8192) + `"`,
	} {
		must(t, hub.EditRecord(id, func(r *hubtest.Record) {
			r.Job.Result = []byte(fmt.Sprintf(`{"schema_version":"bailing.agent-tool-invocation.v1","invocation_id":%q,"route":"catalog-agent",`+
				`"tool":"product_list","state":"executed","ok":true,"auto_retry_allowed":false,"text":%s}`, id, stored))
		}))
		if got := host.get(receiptPath(id)).raw; !strings.Contains(got, `"text":`+want+`}`) {
			t.Errorf("stored %s: %s", stored, got)
		}
	}
}

// What a result needs, and what it may lack.
func TestStoredResult(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	host := newHost(t, hub, s)
	id := submit(t, hub, s, hubtest.ReadTool)
	good := map[string]any{
		"schema_version": "bailing.agent-tool-invocation.v1", "invocation_id": id, "route": "catalog-agent", "tool": "product_list",
		"state": "executed", "ok": true, "auto_retry_allowed": false, "text": "x", "business_status": 200.0, "approval_id": 3.0,
	}
	limit := map[string]any{"level": "tool", "count": 1.0, "window_sec": 2.0, "scope": "tool_provider_shared", "source": "x"}
	show := func(change map[string]any) any {
		t.Helper()
		stored := maps.Clone(good)
		for k, v := range change {
			if stored[k] = v; v == "absent" {
				delete(stored, k)
			}
		}
		raw, err := json.Marshal(stored)
		must(t, err)
		must(t, hub.EditRecord(id, func(r *hubtest.Record) { r.Job.Result = raw }))
		return host.get(receiptPath(id)).json["result"]
	}
	with := func(base map[string]any, k string, v any) map[string]any {
		out := maps.Clone(base)
		if out[k] = v; v == "absent" {
			delete(out, k)
		}
		return out
	}
	if diff := cmp.Diff(any(good), show(nil)); diff != "" {
		t.Errorf("a good result:\n%s", diff)
	}
	for _, name := range []string{"schema_version", "invocation_id", "route", "tool", "state", "ok", "auto_retry_allowed", "text"} {
		for _, v := range []any{"absent", nil, 1, "another"} {
			if name == "text" && v == "another" {
				continue
			}
			if got := show(map[string]any{name: v}); got != nil {
				t.Errorf("%s %v: shown as %v", name, v, got)
			}
		}
	}
	for _, name := range []string{"business_status", "approval_id"} {
		if diff := cmp.Diff(any(with(good, name, "absent")), show(map[string]any{name: "absent"})); diff != "" {
			t.Errorf("without %s:\n%s", name, diff)
		}
		for _, v := range []any{nil, 0, -1, 1.5, "1"} {
			if got := show(map[string]any{name: v}); got != nil {
				t.Errorf("%s %v: shown as %v", name, v, got)
			}
		}
	}
	for _, v := range []float64{0, 1, 1<<53 - 1} {
		if diff := cmp.Diff(any(with(good, "retry_after_ms", v)), show(map[string]any{"retry_after_ms": v})); diff != "" {
			t.Errorf("retry_after_ms %v:\n%s", v, diff)
		}
	}
	for _, v := range []any{nil, -1, 1.5, int64(1 << 53), "1"} {
		if diff := cmp.Diff(any(good), show(map[string]any{"retry_after_ms": v})); diff != "" {
			t.Errorf("retry_after_ms %v:\n%s", v, diff)
		}
	}
	if diff := cmp.Diff(any(with(good, "rate_limit", limit)), show(map[string]any{"rate_limit": limit})); diff != "" {
		t.Errorf("a good rate limit:\n%s", diff)
	}
	for name, values := range map[string][]any{
		"level": {"absent", "planet"}, "scope": {"absent", "private"}, "source": {"absent", nil, 1},
		"count": {"absent", 0, 1.5, int64(1 << 53)}, "window_sec": {"absent", 0, 1.5, int64(1 << 53)},
	} {
		for _, v := range values {
			if diff := cmp.Diff(any(good), show(map[string]any{"rate_limit": with(limit, name, v)})); diff != "" {
				t.Errorf("rate limit with %s %v:\n%s", name, v, diff)
			}
		}
	}
}
