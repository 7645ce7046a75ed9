package hermestest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Receipt is a stored receipt, with the members of the server's JSON.
type Receipt struct {
	// ID names the receipt; "" has one made up when it is stored.
	ID string `json:"id"`
	// TenantID is whose receipt it is; "" for [DefaultTenant].
	TenantID string `json:"tenant_id"`
	// SessionID is the session that caused the call; "" for none.
	SessionID string `json:"session_id"`
	// UserID is the user behind the call; "" for none.
	UserID string `json:"user_id"`
	// ToolName is the tool that was run.
	ToolName string `json:"tool_name"`
	// Input is what went into the tool, as it is kept; [HermesX.Store] cuts
	// nothing.
	Input string `json:"input"`
	// Output is what came out, likewise.
	Output string `json:"output"`
	// Status is how the call ended: "success", "error" or "timeout" on a server of
	// today.
	Status string `json:"status"`
	// DurationMS is how long the tool ran, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// IdempotencyID names the side effect; "" leaves the member out.
	IdempotencyID string `json:"idempotency_id,omitempty"`
	// TraceID is the distributed trace; "" leaves the member out.
	TraceID string `json:"trace_id,omitempty"`
	// CreatedAt is when the receipt was stored; the zero time has the server's
	// clock taken.
	CreatedAt time.Time `json:"created_at"`
}

// AuditEntry is a stored audit entry, with the members of the server's JSON. The
// zero values of those that the server may leave out leave them out.
type AuditEntry struct {
	// ID names the entry; 0 has the next number taken when it is logged.
	ID int64 `json:"id"`
	// TenantID is whose entry it is; "" for [DefaultTenant].
	TenantID string `json:"tenant_id"`
	// UserID is the id of the key that called.
	UserID string `json:"user_id,omitempty"`
	// SessionID is the session of the request. The server itself does not fill
	// it.
	SessionID string `json:"session_id,omitempty"`
	// Action is the method and the path of the request.
	Action string `json:"action"`
	// Detail is the query of the request, the values of secret parameters
	// replaced.
	Detail string `json:"detail,omitempty"`
	// RequestID is the X-Request-Id of the request.
	RequestID string `json:"request_id,omitempty"`
	// StatusCode is the HTTP status of the answer.
	StatusCode int `json:"status_code,omitempty"`
	// LatencyMS is how long the answer took, in milliseconds.
	LatencyMS int64 `json:"latency_ms,omitempty"`
	// SourceIP is where the request came from, with its port.
	SourceIP string `json:"source_ip,omitempty"`
	// ErrorCode is the server's code for a failure.
	ErrorCode string `json:"error_code,omitempty"`
	// UserAgent is what the caller called itself.
	UserAgent string `json:"user_agent,omitempty"`
	// CreatedAt is when the entry was written; the zero time has the server's
	// clock taken.
	CreatedAt time.Time `json:"created_at"`

	// Damaged makes the server fail with every page that the entry is on, as a
	// row does that an older version wrote. The zero value is a whole row.
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

// Remove takes away the receipts and the audit entries of a tenant that are older
// than a time, as an archive does.
func (h *HermesX) Remove(tenantID string, before time.Time) {
	h.RemoveRows(
		func(r Receipt) bool { return r.TenantID == tenant(tenantID) && r.CreatedAt.Before(before) },
		func(e AuditEntry) bool { return e.TenantID == tenant(tenantID) && e.CreatedAt.Before(before) },
	)
}

// RemoveRows takes away the receipts and the audit entries that a function
// chooses, of all tenants; nil chooses none.
func (h *HermesX) RemoveRows(receipts func(Receipt) bool, entries func(AuditEntry) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Copies, because a request may be reading.
	if receipts != nil {
		h.receipts = slices.DeleteFunc(slices.Clone(h.receipts), receipts)
	}
	if entries != nil {
		h.entries = slices.DeleteFunc(slices.Clone(h.entries), entries)
	}
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
	// TenantID, SessionID and UserID are whose call it is; "" for
	// [DefaultTenant] and for none. In a [Chat] those of the chat are taken for
	// empty ones.
	TenantID, SessionID, UserID string
	// Tool is the tool's name.
	Tool string
	// Input are its arguments; they are stored as JSON, nil as null.
	Input any
	// Run is what the tool does. It returns what the tool puts out. Nil does
	// nothing and puts out Output.
	Run func() string
	// Output is what a tool without Run puts out.
	Output string
	// Status is how the call ends; "" goes by the output: "error" where it has
	// a member of that name, else "success". The agent of today never says
	// "timeout".
	Status string
	// Duration is how long it says that it took, kept in whole milliseconds.
	Duration time.Duration
	// IdempotencyID names the side effect; "" for none, as with the agent of
	// today.
	IdempotencyID string
	// TraceID is the distributed trace; "" for none, as with the agent of today.
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
	// The database takes no NUL and no half characters, and no second receipt for
	// a key.
	if !h.databaseDown && storable(r.Input) && storable(r.Output) && h.find(r.TenantID, r.IdempotencyID) == nil {
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
	// TenantID, SessionID and UserID are whose request it is; "" for
	// [DefaultTenant] and for none.
	TenantID, SessionID, UserID string
	// RequestID is its X-Request-Id. One that the server does not keep, "" too,
	// is replaced.
	RequestID string
	// Calls are the tools that the agent uses, one after the other; none for a
	// request that used no tool.
	Calls []Call
	// StatusCode is how the server answers; 0 for 200.
	StatusCode int
	// Latency is how long that took, logged in whole milliseconds.
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
