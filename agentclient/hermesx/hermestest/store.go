package hermestest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Receipt is a stored receipt, with the members of the server's JSON.
type Receipt struct {
	ID            string    `json:"id"`
	TenantID      string    `json:"tenant_id"`
	SessionID     string    `json:"session_id"`
	UserID        string    `json:"user_id"`
	ToolName      string    `json:"tool_name"`
	Input         string    `json:"input"`
	Output        string    `json:"output"`
	Status        string    `json:"status"`
	DurationMS    int64     `json:"duration_ms"`
	IdempotencyID string    `json:"idempotency_id,omitempty"`
	TraceID       string    `json:"trace_id,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
}

// AuditEntry is a stored audit entry, with the members of the server's JSON.
type AuditEntry struct {
	ID         int64     `json:"id"`
	TenantID   string    `json:"tenant_id"`
	UserID     string    `json:"user_id,omitempty"`
	SessionID  string    `json:"session_id,omitempty"`
	Action     string    `json:"action"`
	Detail     string    `json:"detail,omitempty"`
	RequestID  string    `json:"request_id,omitempty"`
	StatusCode int       `json:"status_code,omitempty"`
	LatencyMS  int64     `json:"latency_ms,omitempty"`
	SourceIP   string    `json:"source_ip,omitempty"`
	ErrorCode  string    `json:"error_code,omitempty"`
	UserAgent  string    `json:"user_agent,omitempty"`
	CreatedAt  time.Time `json:"created_at"`

	// Damaged makes the server fail with every page that the entry is on, as a
	// row does that an older version wrote.
	Damaged bool `json:"-"`
}

// Store puts receipts as they are. One without an id, a tenant or a time is
// given one.
func (h *HermesX) Store(receipts ...Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range receipts {
		if r.ID == "" {
			r.ID = h.newID()
		}
		if r.CreatedAt.IsZero() {
			r.CreatedAt = h.stamp()
		}
		r.TenantID = tenant(r.TenantID)
		h.receipts = append(h.receipts, r)
	}
}

// Log puts audit entries as they are. One without an id, a tenant or a time is
// given one.
func (h *HermesX) Log(entries ...AuditEntry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		h.log(e)
	}
}

// log is Log for one entry; the caller holds the lock.
func (h *HermesX) log(e AuditEntry) {
	if e.ID == 0 {
		e.ID = h.lastEntry + 1
	}
	h.lastEntry = max(h.lastEntry, e.ID)
	if e.CreatedAt.IsZero() {
		e.CreatedAt = h.stamp()
	}
	e.TenantID = tenant(e.TenantID)
	h.entries = append(h.entries, e)
}

// Receipts returns the stored receipts of a tenant, in the order in which they
// were stored.
func (h *HermesX) Receipts(tenantID string) []Receipt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.receipts), func(r Receipt) bool { return r.TenantID != tenant(tenantID) })
}

// AuditLog returns the audit entries of a tenant, in the order in which they
// were written.
func (h *HermesX) AuditLog(tenantID string) []AuditEntry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.entries), func(e AuditEntry) bool { return e.TenantID != tenant(tenantID) })
}

// A Call is the use of a tool by an agent.
type Call struct {
	// TenantID, SessionID and UserID are whose call it is. In a [Chat] those of
	// the chat are taken for empty ones.
	TenantID, SessionID, UserID string
	// Tool is the tool's name.
	Tool string
	// Input are its arguments; they are stored as JSON.
	Input any
	// Run is what the tool does. It returns what the tool puts out. Nil does
	// nothing and puts out Output.
	Run func() string
	// Output is what a tool without Run puts out.
	Output string
	// Status is how the call ends; "" goes by the output: "error" where it has
	// a member of that name, else "success".
	Status string
	// Duration is how long it says that it took.
	Duration time.Duration
	// IdempotencyID names the side effect; "" for none.
	IdempotencyID string
	// TraceID is the distributed trace; "" for none.
	TraceID string
}

// An Execution is what became of a call.
type Execution struct {
	// Ran tells whether the tool was run: not where the side effect that the
	// idempotency key names was there already.
	Ran bool
	// Output is what the agent was given.
	Output string
	// Receipt is the receipt of the side effect, the first one; nil where none
	// was stored. The tool may have run all the same.
	Receipt *Receipt
}

// Execute executes a call as the server does: it runs the tool, unless the
// idempotency key has a receipt, and stores a receipt afterwards, if it can.
func (h *HermesX) Execute(c Call) Execution {
	if first := h.receiptOf(c); first != nil {
		return Execution{Output: first.Output, Receipt: first}
	}
	output := c.Output
	if c.Run != nil {
		output = c.Run()
	}
	input, err := json.Marshal(c.Input)
	if err != nil {
		panic("hermestest: the input of " + c.Tool + " is no JSON: " + err.Error())
	}
	r := Receipt{
		ID: h.newID(), TenantID: tenant(c.TenantID), SessionID: c.SessionID, UserID: c.UserID, ToolName: c.Tool,
		Input: cut(string(input)), Output: cut(output), Status: c.Status, DurationMS: c.Duration.Milliseconds(),
		IdempotencyID: c.IdempotencyID, TraceID: c.TraceID,
	}
	if r.Status == "" {
		r.Status = "success"
		if strings.Contains(output, `"error"`) {
			r.Status = "error"
		}
	}
	done := Execution{Ran: true, Output: output}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs++
	// The database takes no half characters, and no second receipt for a key.
	if !h.databaseDown && utf8.ValidString(r.Input) && utf8.ValidString(r.Output) && h.find(r.TenantID, r.IdempotencyID) == nil {
		r.CreatedAt = h.stamp()
		h.receipts = append(h.receipts, r)
		done.Receipt = &r
	}
	return done
}

// Runs counts the tools that were run, whether a receipt was stored or not.
func (h *HermesX) Runs() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs
}

func (h *HermesX) receiptOf(c Call) *Receipt {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.databaseDown {
		return nil // the server cannot look, and goes on
	}
	return h.find(tenant(c.TenantID), c.IdempotencyID)
}

// find gives the receipt of an idempotency key; the caller holds the lock.
func (h *HermesX) find(tenantID, idempotencyID string) *Receipt {
	for _, r := range h.receipts {
		if idempotencyID != "" && r.TenantID == tenantID && r.IdempotencyID == idempotencyID {
			return &r
		}
	}
	return nil
}

// cut keeps bytes, not characters.
func cut(text string) string { return text[:min(len(text), TextLimit)] }

// A Chat is a request to the agent, in which it uses tools.
type Chat struct {
	// TenantID, SessionID and UserID are whose request it is.
	TenantID, SessionID, UserID string
	// RequestID is its X-Request-Id. One that the server does not keep is
	// replaced.
	RequestID string
	// Calls are the tools that the agent uses.
	Calls []Call
	// StatusCode is how the server answers; 0 for 200.
	StatusCode int
	// Latency is how long that took.
	Latency time.Duration
}

// Chat executes the calls of a chat and logs the request, without its session,
// as the server does. It returns the request id that the server went by.
func (h *HermesX) Chat(c Chat) (requestID string, executions []Execution) {
	for _, call := range c.Calls {
		if call.TenantID == "" {
			call.TenantID = c.TenantID
		}
		if call.SessionID == "" {
			call.SessionID = c.SessionID
		}
		if call.UserID == "" {
			call.UserID = c.UserID
		}
		executions = append(executions, h.Execute(call))
	}
	if c.StatusCode == 0 {
		c.StatusCode = 200
	}
	requestID = keptRequestID(c.RequestID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.databaseDown {
		h.log(AuditEntry{
			TenantID: c.TenantID, UserID: c.UserID, Action: "POST /v1/agent/chat", RequestID: requestID,
			StatusCode: c.StatusCode, LatencyMS: c.Latency.Milliseconds(), SourceIP: "127.0.0.1:40000",
		})
	}
	return requestID, executions
}
