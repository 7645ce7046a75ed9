package hubtest

import (
	"encoding/json"
	"math"
)

const (
	capabilitiesSchema = "bailing.agent-invocation-inspection-capabilities."
	receiptSchema      = "bailing.agent-invocation-receipt."
	resultSchema       = "bailing.agent-tool-invocation."

	// Stand-ins for the Hub's own wording.
	hubText    = "Synthetic text."
	hubMessage = "Synthetic message."

	maxTextUnits   = 8192 // of a stored text, in UTF-16 code units
	maxSourceUnits = 128  // of the place where a rate limit is set
	// maxSafe is the largest integer that the Hub trusts.
	maxSafe int64 = 1<<53 - 1
)

// The wire forms, members in the order in which the Hub writes them.

type capabilitiesJSON struct {
	SchemaVersion string `json:"schema_version"`
	ReceiptSchema string `json:"receipt_schema"`
	ReadOnly      bool   `json:"read_only"`
}

type receiptJSON struct {
	SchemaVersion              string       `json:"schema_version"`
	ReadOnly                   bool         `json:"read_only"`
	BusinessOperationPerformed bool         `json:"business_operation_performed"`
	InvocationID               string       `json:"invocation_id"`
	AgentRunID                 string       `json:"agent_run_id"`
	Route                      string       `json:"route"`
	Tool                       string       `json:"tool"`
	ObservedAt                 string       `json:"observed_at"`
	Result                     *resultJSON  `json:"result"`
	ResultSource               string       `json:"result_source"`
	DispatchState              string       `json:"dispatch_state"`
	Approval                   approvalJSON `json:"approval"`
	JournalState               string       `json:"journal_state"`
}

type resultJSON struct {
	SchemaVersion    string         `json:"schema_version"`
	InvocationID     string         `json:"invocation_id"`
	Route            string         `json:"route"`
	Tool             string         `json:"tool"`
	State            string         `json:"state"`
	OK               bool           `json:"ok"`
	AutoRetryAllowed bool           `json:"auto_retry_allowed"`
	Text             utf16Text      `json:"text"`
	BusinessStatus   *float64       `json:"business_status,omitempty"`
	RetryAfterMS     *float64       `json:"retry_after_ms,omitempty"`
	RateLimit        *rateLimitJSON `json:"rate_limit,omitempty"`
	ApprovalID       *float64       `json:"approval_id,omitempty"`
}

type rateLimitJSON struct {
	Level     string    `json:"level"`
	Count     float64   `json:"count"`
	WindowSec float64   `json:"window_sec"`
	Scope     string    `json:"scope"`
	Source    utf16Text `json:"source"`
}

type approvalJSON struct {
	Status     string `json:"status"`
	ApprovalID *int64 `json:"approval_id,omitempty"`
}

// inspect computes the receipt of an invocation for a session, or why there is
// none. The caller holds the lock.
func (h *Hub) inspect(s *session, invocationID string) (*receiptJSON, *Refusal) {
	record, refusal := h.admit(s, invocationID)
	if refusal != nil {
		return nil, refusal
	}
	r := project(*record)
	r.ObservedAt = h.now().UTC().Format("2006-01-02T15:04:05.000Z")
	r.SchemaVersion = receiptSchema + h.schemaVersion()
	return &r, nil
}

// schemaVersion is that of the inspection contract. The caller holds the lock.
func (h *Hub) schemaVersion() string {
	if h.inspection == InspectionNewer {
		return "v2"
	}
	return "v1"
}

// admit finds the record of an invocation that the session may see, or says
// why it may not: the first reason that there is, in the order in which the Hub
// looks. The caller holds the lock.
func (h *Hub) admit(s *session, invocationID string) (*Record, *Refusal) {
	if h.broken[ToolServiceControl] {
		return nil, refuse(503, "agent_tools_unavailable")
	}
	if h.broken[StateStorage] {
		return nil, refuse(500, "agent_tool_internal_error")
	}
	r := h.records[invocationID]
	if r == nil {
		return nil, refuse(404, "invocation_not_found")
	}
	m := r.Job.Marker
	switch {
	case !m.valid() || m.SessionID != s.ID || m.ClientID != s.ClientID:
		return nil, refuse(404, "invocation_not_found")
	case m.Principal != s.Principal || m.Tenant != s.Tenant || m.OnBehalfOf != s.OnBehalfOf:
		return nil, refuse(409, "invocation_conflict")
	}
	if code := r.Job.TaskRefusal; code != "" {
		return nil, refuseTask(code)
	}
	if run := r.Run; run != nil && (run.SessionID != s.ID || run.ClientID != s.ClientID || run.Route != m.Route || run.Thread != m.Thread) {
		return nil, refuse(409, "agent_run_conflict")
	}
	if refusal := h.authorize(s, m.Route, m.Tool); refusal != nil {
		return nil, refusal
	}
	if h.broken[JournalStorage] {
		return nil, refuse(500, "agent_tool_internal_error")
	}
	if a := r.Approval; a != nil && !a.valid() {
		return nil, refuse(503, "invocation_record_invalid")
	}
	return r, nil
}

// valid reports whether the Hub takes a job with this marker for one of its own.
func (m Marker) valid() bool {
	return !m.Damaged && uuidForm.MatchString(m.SessionID) && uuidForm.MatchString(m.AgentRunID) && m.OnBehalfOf != "" &&
		routeForm.MatchString(m.Route) && toolForm.MatchString(m.Tool)
}

// valid reports whether the Hub knows what this approval says.
func (a Approval) valid() bool {
	known := a.Status == ApprovalPending || a.Status == ApprovalApproved || a.Status == ApprovalDenied
	return known && a.ID >= 1 && a.ID <= maxSafe
}

// refuseTask answers with a code of the task control. A code that is not meant
// for the outside becomes TASK_RECORD_INVALID.
func refuseTask(code string) *Refusal {
	switch code {
	case "TASK_UNSUPPORTED":
		return refuse(501, code)
	case "TASK_UNAVAILABLE":
		return refuse(503, code)
	case "TASK_NOT_FOUND":
		return refuse(404, code)
	case "TASK_INVALID_INPUT":
		return refuse(400, code)
	case "TASK_REQUIRED", "TASK_SCOPE_BLOCKED", "TASK_MEMBER_MISMATCH", "TASK_BINDING_CONFLICT",
		"TASK_PAUSED", "TASK_CANCELLED", "TASK_EXPIRED", "TASK_WRITE_BUDGET_EXHAUSTED",
		"TASK_CONCURRENCY_EXHAUSTED", "TASK_TOOL_NOT_ALLOWED", "TASK_REVISION_CONFLICT",
		"TASK_RUN_INACTIVE", "TASK_DISPATCH_UNCERTAIN":
		return refuse(409, code)
	default:
		return refuse(409, "TASK_RECORD_INVALID")
	}
}

// project shows what the stored parts of an invocation say.
func project(r Record) receiptJSON {
	m := r.Job.Marker
	out := receiptJSON{
		ReadOnly:     true,
		InvocationID: r.InvocationID,
		AgentRunID:   m.AgentRunID,
		Route:        m.Route,
		Tool:         m.Tool,
		Approval:     approvalJSON{Status: "none"},
		JournalState: "absent",
		ResultSource: "none",
	}
	if a := r.Approval; a != nil {
		out.Approval = approvalJSON{Status: string(a.Status), ApprovalID: new(a.ID)}
	}
	if j := r.Journal; j != nil {
		out.Result, out.ResultSource, out.DispatchState, out.JournalState = projectJournal(r, *j)
		return out
	}
	if out.Result = parseResult(r); out.Result != nil {
		out.ResultSource = "job"
	}
	out.DispatchState = dispatchOf(r.Job, out.Result)
	return out
}

// dispatchOf says whether an operation without a journal may have reached the
// business system. What the result says comes before the job's own note.
func dispatchOf(job Job, result *resultJSON) string {
	if result != nil {
		switch result.State {
		case stateExecuted, stateBusinessRejected:
			return "attempted"
		case stateAwaitingApproval, stateDenied, stateRejected:
			return "not_dispatched"
		}
	}
	switch job.Dispatched {
	case DispatchNo:
		return "not_dispatched"
	case DispatchYes:
		return "attempted"
	}
	return "unknown"
}

// The states of a result.
const (
	stateExecuted         = "executed"
	stateBusinessRejected = "business_rejected"
	stateAwaitingApproval = "awaiting_approval"
	stateDenied           = "denied"
	stateRejected         = "rejected_before_dispatch"
	stateReconcile        = "reconciliation_required"
	stateInProgress       = "in_progress"
)

// newResult is a result in this state, without its optional members.
func newResult(r Record, state string, text utf16Text) *resultJSON {
	return &resultJSON{
		SchemaVersion: resultSchema + "v1",
		InvocationID:  r.InvocationID,
		Route:         r.Job.Marker.Route,
		Tool:          r.Job.Marker.Tool,
		State:         state,
		OK:            state == stateExecuted,
		Text:          text,
	}
}

// projectJournal tells the result from the journal: what the business system
// answered once the journal is complete, and until then that nobody knows.
func projectJournal(r Record, j Journal) (result *resultJSON, source, dispatch, state string) {
	result, source, dispatch, state = newResult(r, stateReconcile, text(hubText)), "journal", "attempted", string(j.State)
	switch j.State {
	case JournalDispatching, JournalResponseRecorded, JournalUncertain, JournalEvidenceDegraded:
	case JournalCompleted:
		members, _ := parseObject(j.Response, len(j.Response))
		ok, okGood := boolean(members["ok"])
		status, statusGood := number(members["status"])
		if okGood && statusGood && isID(status) && status <= float64(maxSafe) {
			outcome := stateBusinessRejected
			if ok {
				outcome = stateExecuted
			}
			result = newResult(r, outcome, members.units("text").safe(maxTextUnits)) // a lost text is an empty one
			result.OK = ok
			result.BusinessStatus = &status
		}
	case JournalUnknown:
		dispatch = "unknown"
	default:
		state = string(JournalUncertain)
	}
	return result, source, dispatch, state
}

// parseResult reads the stored result of a job, nil when it is not one.
func parseResult(r Record) *resultJSON {
	var members map[string]json.RawMessage
	if json.Unmarshal(r.Job.Result, &members) != nil {
		return nil
	}
	is := func(name, want string) bool {
		got, ok := parseText(members[name])
		return ok && got.String() == want
	}
	out := newResult(r, "", nil)
	if !is("schema_version", out.SchemaVersion) || !is("invocation_id", out.InvocationID) || !is("route", out.Route) || !is("tool", out.Tool) {
		return nil
	}
	for _, state := range []string{stateExecuted, stateBusinessRejected, stateAwaitingApproval, stateDenied, stateRejected, stateReconcile, stateInProgress} {
		if is("state", state) {
			out.State = state
		}
	}
	var okGood, retryGood, textGood bool
	out.OK, okGood = boolean(members["ok"])
	out.AutoRetryAllowed, retryGood = boolean(members["auto_retry_allowed"])
	out.Text, textGood = parseText(members["text"])
	if out.State == "" || !okGood || !retryGood || !textGood || len(out.Text) > maxTextUnits {
		return nil
	}
	out.Text = out.Text.safe(maxTextUnits)
	for name, to := range map[string]**float64{"business_status": &out.BusinessStatus, "approval_id": &out.ApprovalID} {
		raw, present := members[name]
		if !present {
			continue
		}
		n, ok := number(raw)
		if !ok || !isID(n) {
			return nil
		}
		*to = &n
	}
	// Hints that are not of their form are dropped without harm.
	if n, ok := number(members["retry_after_ms"]); ok && (n == 0 || isID(n)) && n <= float64(maxSafe) {
		out.RetryAfterMS = &n
	}
	out.RateLimit = parseRateLimit(members["rate_limit"])
	return out
}

func parseRateLimit(raw json.RawMessage) *rateLimitJSON {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	level, _ := parseText(members["level"])
	scope, _ := parseText(members["scope"])
	source, sourceGood := parseText(members["source"])
	count, countGood := number(members["count"])
	window, windowGood := number(members["window_sec"])
	out := &rateLimitJSON{Level: level.String(), Count: count, WindowSec: window, Scope: scope.String(), Source: source.safe(maxSourceUnits)}
	if out.Level != "tool" && out.Level != "provider" || out.Scope != "tool_provider_shared" ||
		!sourceGood || !countGood || !isID(count) || count > float64(maxSafe) || !windowGood || !isID(window) || window > float64(maxSafe) {
		return nil
	}
	return out
}

func boolean(raw json.RawMessage) (value, ok bool) {
	switch string(raw) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// number reads a JSON number, as the Hub does: as a double.
func number(raw json.RawMessage) (float64, bool) {
	if len(raw) == 0 || raw[0] == 'n' {
		return 0, false
	}
	var n float64
	err := json.Unmarshal(raw, &n)
	return n, err == nil
}

// isID reports whether n is an integer from 1.
func isID(n float64) bool { return n >= 1 && n == math.Trunc(n) }
