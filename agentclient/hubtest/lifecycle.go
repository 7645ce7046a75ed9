package hubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
)

// A Submission is an operation that a host hands to the Hub.
type Submission struct {
	// InvocationID is made up when empty. Where the same operation is submitted again
	// under the same id, this mock does not perform it again, and answers with its
	// outcome. A host must not rely on that; Requests().Submit also counts operations
	// that it sent again.
	InvocationID string `json:"invocation_id,omitempty"`
	// AgentRunID is made up when empty.
	AgentRunID string `json:"agent_run_id,omitempty"`
	// Route that the operation goes through; an empty one is refused.
	Route string `json:"route"`
	// Tool to call; an empty one is refused.
	Tool string `json:"tool"`
	// Arguments of the tool, as JSON; nil for none.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// A Refusal is the error of a call that the Hub refused, with the status and code of the HTTP
// answer.
type Refusal struct {
	// Status of HTTP; never 0.
	Status int
	// Code that the Hub gives as the reason, such as hub_paused; never empty.
	Code string
}

func refuse(status int, code string) *Refusal { return &Refusal{status, code} }

func (r *Refusal) Error() string {
	return fmt.Sprintf("hubtest: the Hub refused: %d %s", r.Status, r.Code)
}

var (
	invocationIDForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	routeForm        = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{1,63}$`)
	toolForm         = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// Submit hands an operation to the Hub on behalf of a session, as a POST to
// /agent-api/v1/tool-invocations does. It returns as soon as the Hub has
// nothing more to do: after the business system answered, when an approval is
// needed, or at once when the outcome is [Hanging]. The error is a *[Refusal].
func (h *Hub) Submit(sessionID string, op Submission) (invocationID string, err error) {
	h.mu.Lock()
	s := h.sessions[sessionID]
	if s == nil || !h.live(s) {
		h.mu.Unlock()
		return "", refuse(401, "unauthorized")
	}
	id, run, refusal := h.submit(s, op)
	h.mu.Unlock()
	if refusal != nil {
		return "", refusal
	}
	run()
	return id, nil
}

// submit accepts an operation and returns its invocation id, and what remains
// to be done without the lock. The caller holds the lock.
func (h *Hub) submit(s *session, op Submission) (string, func(), *Refusal) {
	nothing := func() {}
	if h.paused {
		return "", nil, refuse(503, "hub_paused")
	}
	var arguments bytes.Buffer
	if len(op.Arguments) > 0 && json.Compact(&arguments, op.Arguments) != nil {
		return "", nil, refuse(400, "invalid_request")
	}
	if op.InvocationID == "" {
		op.InvocationID = randomHex(32)
	}
	if op.AgentRunID == "" {
		op.AgentRunID = randomUUID()
	}
	switch {
	case !routeForm.MatchString(op.Route) || op.Route == "auto":
		return "", nil, refuse(400, "invalid_route")
	case !toolForm.MatchString(op.Tool), !invocationIDForm.MatchString(op.InvocationID), !uuidForm.MatchString(op.AgentRunID):
		return "", nil, refuse(400, "invalid_request")
	}
	if h.broken[ToolServiceControl] {
		return "", nil, refuse(503, "agent_tools_unavailable")
	}
	if h.broken[StateStorage] {
		return "", nil, refuse(500, "agent_tool_internal_error")
	}
	if refusal := h.authorize(s, op.Route, op.Tool); refusal != nil {
		return "", nil, refusal
	}
	if h.broken[JournalStorage] {
		return "", nil, refuse(500, "agent_tool_internal_error")
	}
	if old := h.records[op.InvocationID]; old != nil {
		m := old.Job.Marker
		if m.Damaged || m.SessionID != s.ID || m.Route != op.Route || m.Tool != op.Tool || !bytes.Equal(old.Job.Arguments, arguments.Bytes()) {
			return "", nil, refuse(409, "invocation_conflict")
		}
		return op.InvocationID, nothing, nil
	}

	h.jobs++
	r := &Record{
		InvocationID: op.InvocationID,
		Job: Job{
			ID:     h.jobs,
			Status: JobRunning,
			Marker: Marker{
				SessionID: s.ID, ClientID: s.ClientID, Principal: s.Principal, Tenant: s.Tenant, OnBehalfOf: s.OnBehalfOf,
				Route: op.Route, Tool: op.Tool, AgentRunID: op.AgentRunID,
			},
			Arguments: arguments.Bytes(),
		},
		Run: &Run{SessionID: s.ID, ClientID: s.ClientID, Route: op.Route},
	}
	h.records[r.InvocationID] = r
	h.touch()
	if !h.routes[op.Route].Tools[op.Tool].NeedsApproval {
		return op.InvocationID, h.dispatch(r), nil
	}
	h.approvals++
	r.Approval = &Approval{ID: h.approvals, Status: ApprovalPending}
	r.Job.Status = JobWaiting
	waiting := newResult(*r, stateAwaitingApproval, text(hubText))
	waiting.ApprovalID = new(float64(r.Approval.ID))
	r.Job.Result = encode(waiting)
	return op.InvocationID, nothing, nil
}

// Approve records that a person approved an invocation that waits for that. The Hub dispatches it
// only when somebody resumes it.
func (h *Hub) Approve(invocationID string) error {
	return h.setApproval(invocationID, ApprovalApproved)
}

// Deny records that a person denied an invocation that waits for an approval.
func (h *Hub) Deny(invocationID string) error {
	return h.setApproval(invocationID, ApprovalDenied)
}

func (h *Hub) setApproval(invocationID string, status ApprovalStatus) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, err := h.find(invocationID)
	if err != nil {
		return err
	}
	if r.Approval == nil || r.Approval.Status != ApprovalPending {
		return fmt.Errorf("hubtest: no approval of invocation %s is pending", invocationID)
	}
	r.Approval.Status = status
	h.touch()
	return nil
}

// Resume continues an invocation that waited, as a POST to its /resume does on behalf of its own
// session. It dispatches an invocation that was approved, or that was rejected before dispatch and
// may be retried; it ends one that was denied, and does nothing for any other. The error is a
// *[Refusal] where the Hub refused.
func (h *Hub) Resume(invocationID string) error {
	h.mu.Lock()
	r, err := h.find(invocationID)
	if err != nil {
		h.mu.Unlock()
		return err
	}
	s := h.sessions[r.Job.Marker.SessionID]
	if s == nil || !h.live(s) {
		h.mu.Unlock()
		return refuse(401, "unauthorized")
	}
	run, refusal := h.resume(s, invocationID)
	h.mu.Unlock()
	if refusal != nil {
		return refusal
	}
	run()
	return nil
}

// resume does for Resume what submit does for Submit.
func (h *Hub) resume(s *session, invocationID string) (func(), *Refusal) {
	if h.paused {
		return nil, refuse(503, "hub_paused")
	}
	r, refusal := h.admit(s, invocationID)
	if refusal != nil {
		return nil, refusal
	}
	nothing := func() {}
	result := parseResult(*r)
	switch {
	case result == nil || r.Journal != nil || r.Job.Dispatched != DispatchNo:
	case result.State == stateRejected && result.AutoRetryAllowed:
		return h.dispatch(r), nil
	case result.State != stateAwaitingApproval || r.Approval == nil:
	case r.Approval.Status == ApprovalApproved:
		return h.dispatch(r), nil
	case r.Approval.Status == ApprovalDenied:
		h.note(r, JobFinished, newResult(*r, stateDenied, text(hubText)))
	}
	return nothing, nil
}

// dispatch sends an operation to the business system and returns what remains
// to be done without the lock. The caller holds the lock.
func (h *Hub) dispatch(r *Record) func() {
	nothing := func() {}
	var planned *Outcome
	if len(h.plan) > 0 {
		planned, h.plan = new(h.plan[0]), h.plan[1:]
		if planned.kind == rejected || planned.kind == rateLimited {
			h.reject(r, *planned)
			return nothing
		}
	}
	tool := h.routes[r.Job.Marker.Route].Tools[r.Job.Marker.Tool]
	r.Job.Dispatched = DispatchYes
	if !tool.ReadOnly && !tool.Idempotent {
		r.Journal = &Journal{State: JournalDispatching}
	}
	h.business++
	h.note(r, JobRunning, newResult(*r, stateInProgress, text(hubText)))

	if planned == nil && tool.Run == nil {
		planned = new(Executed(`{"ok":true}`))
	}
	if planned != nil {
		h.settle(r, *planned)
		return nothing
	}
	id := r.InvocationID
	op := Operation{InvocationID: id, Route: r.Job.Marker.Route, Tool: r.Job.Marker.Tool, Arguments: bytes.Clone(r.Job.Arguments)}
	return func() {
		outcome := tool.Run(h.life, op)
		h.mu.Lock()
		defer h.mu.Unlock()
		if r := h.records[id]; r != nil && inFlight(*r) {
			h.settle(r, outcome)
		}
	}
}

// Finish sets the outcome of an operation in flight: one that is [Hanging], or one of
// [ResponseRecorded].
func (h *Hub) Finish(invocationID string, outcome Outcome) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, err := h.find(invocationID)
	if err != nil {
		return err
	}
	if !inFlight(*r) && (r.Journal == nil || r.Journal.State != JournalResponseRecorded) {
		return fmt.Errorf("hubtest: invocation %s is not in flight", invocationID)
	}
	h.settle(r, outcome)
	return nil
}

// inFlight reports whether an answer of the business system is awaited.
func inFlight(r Record) bool {
	if r.Journal != nil {
		return r.Journal.State == JournalDispatching
	}
	result := parseResult(r)
	return r.Job.Dispatched == DispatchYes && result != nil && result.State == stateInProgress
}

// settle records the outcome of a dispatch. An outcome of an operation that was not dispatched counts
// as a refusal by the business system here. The caller holds the lock.
func (h *Hub) settle(r *Record, o Outcome) {
	unknown := func(state JournalState) {
		if r.Journal != nil {
			r.Journal.State = state
		}
		h.note(r, JobFinished, newResult(*r, stateReconcile, text(hubText)))
	}
	switch o.kind {
	case hanging:
		return
	case answerLost:
		unknown(JournalUncertain)
		return
	case evidenceDegraded:
		unknown(JournalEvidenceDegraded)
		return
	case rejected, rateLimited:
		o.status = http.StatusTooManyRequests
	}
	if o.status == 0 {
		o.status = http.StatusOK
	}
	ok := o.status >= 200 && o.status <= 299
	body := text(o.text).safe(maxTextUnits)
	if o.text == "" {
		body = text(hubText)
	}
	if r.Journal != nil {
		r.Journal.State = JournalCompleted
		r.Journal.Response = encode(journalResponse{ok, o.status, body})
	}
	if o.kind == responseRecorded {
		unknown(JournalResponseRecorded)
		return
	}
	result := newResult(*r, stateBusinessRejected, body)
	if ok {
		result = newResult(*r, stateExecuted, body)
	}
	result.BusinessStatus = new(float64(o.status))
	h.note(r, JobFinished, result)
}

type journalResponse struct {
	OK     bool      `json:"ok"`
	Status int       `json:"status"`
	Text   utf16Text `json:"text"`
}

// reject records that the Hub rejected an operation before dispatch. The caller holds the lock.
func (h *Hub) reject(r *Record, o Outcome) {
	result := newResult(*r, stateRejected, text(hubText))
	if o.kind == rateLimited {
		result.AutoRetryAllowed = true
		result.RetryAfterMS = new(float64(o.after.Milliseconds()))
		if l := o.limit; l != nil {
			result.RateLimit = &rateLimitJSON{l.Level, float64(l.Count), float64(l.WindowSec), "tool_provider_shared", text(l.Source)}
		}
	}
	h.note(r, JobFinished, result)
}

// note stores a result on the job. The caller holds the lock.
func (h *Hub) note(r *Record, status JobStatus, result *resultJSON) {
	r.Job.Status = status
	r.Job.Result = encode(result)
	h.touch()
}

// encode writes JSON as the Hub does, without escaping for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // impossible: the values are of this package
	}
	return unescapeSeparators(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// unescapeSeparators writes U+2028 and U+2029 as the Hub does, which is not how every
// version of encoding/json does: without escapes.
func unescapeSeparators(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u202`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		switch {
		case bytes.HasPrefix(text, []byte(`\u2028`)):
			out, text = append(out, "\u2028"...), text[6:]
		case bytes.HasPrefix(text, []byte(`\u2029`)):
			out, text = append(out, "\u2029"...), text[6:]
		case text[0] == '\\': // of an escape, which has another character at least
			out, text = append(out, text[:2]...), text[2:]
		default:
			out, text = append(out, text[0]), text[1:]
		}
	}
	return out
}
