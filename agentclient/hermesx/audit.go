package hermesx

import (
	"encoding/json"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/inspection"
)

// AuditEntry is one entry of a HermesX server's audit log, usually about one request to its
// API. It says who called what, but not which tools ran because of that: [Receipt] does.
//
// Not every request has an entry: one whose client went away before the answer
// has none, and one whose key was refused has none in the log of a tenant.
// Entries can be removed from the log, by an archive for example.
//
// All its texts are untrusted data: print them through receipt.Printable. Its
// JSON is that of the server, with the same values, the time included; members
// that this package does not know are dropped.
type AuditEntry struct {
	// ID names the entry.
	ID int64 `json:"id"`
	// TenantID is the tenant of the key.
	TenantID string `json:"tenant_id"`
	// UserID is the id of the API key that called, which is no person's; "" where
	// the caller had none.
	UserID string `json:"user_id,omitempty"`
	// SessionID is the session of the request; "" where the entry does not say.
	// Servers do not fill it today.
	SessionID string `json:"session_id,omitempty"`
	// Action is the method and the path of a request, as in "POST
	// /v1/agent/chat", or another word for what a part of the server logged of
	// itself.
	Action string `json:"action"`
	// Detail is the query of the request, with the values of secret parameters
	// replaced; "" without one. Where Action is another word, it is whatever that
	// part of the server wrote, JSON for example.
	Detail string `json:"detail,omitempty"`
	// RequestID is the X-Request-Id of the request that the entry is about; ""
	// where it is about none.
	RequestID string `json:"request_id,omitempty"`
	// StatusCode is the HTTP status of the answer; 0 where the entry has none.
	StatusCode int `json:"status_code,omitempty"`
	// Latency is how long the answer took, in whole milliseconds; 0 also where the
	// entry has none.
	Latency time.Duration `json:"latency_ms,omitempty"`
	// SourceIP is where the request came from, with its port; "" where the entry
	// does not say. Behind a proxy it is the proxy's.
	SourceIP string `json:"source_ip,omitempty"`
	// ErrorCode is the server's code for a failure; "" where there is none.
	ErrorCode string `json:"error_code,omitempty"`
	// UserAgent is the User-Agent header of the request; "" where it had none.
	UserAgent string `json:"user_agent,omitempty"`
	// CreatedAt is when the entry was written, after the request was answered,
	// with the server's own offset.
	CreatedAt time.Time `json:"created_at"`

	// ReadRequestID is the id, in the server's log, of the request that read this
	// entry; "" where the answer named none. It is not the request that the entry is
	// about, and not part of the JSON.
	ReadRequestID string `json:"-"`

	createdAt string // CreatedAt as it was written
}

// The members of an audit entry that may not be missing.
const (
	auditID = 1 << iota
	auditTenantID
	auditAction
	auditCreatedAt
	auditRequired = 1<<iota - 1
)

func (e *AuditEntry) name() string   { return "an audit entry" }
func (e *AuditEntry) required() uint { return auditRequired }

func (e *AuditEntry) member(name string) (into any, bit uint) {
	switch name {
	case "id":
		return &e.ID, auditID
	case "tenant_id":
		return &e.TenantID, auditTenantID
	case "user_id":
		return &e.UserID, 0
	case "session_id":
		return &e.SessionID, 0
	case "action":
		return &e.Action, auditAction
	case "detail":
		return &e.Detail, 0
	case "request_id":
		return &e.RequestID, 0
	case "status_code":
		return &e.StatusCode, 0
	case "latency_ms":
		return &e.Latency, 0
	case "source_ip":
		return &e.SourceIP, 0
	case "error_code":
		return &e.ErrorCode, 0
	case "user_agent":
		return &e.UserAgent, 0
	case "created_at":
		return timeReader(&e.CreatedAt, &e.createdAt), auditCreatedAt
	}
	return nil, 0
}

// UnmarshalJSON reads an audit entry as strictly as an answer is read; see
// [Receipt.UnmarshalJSON].
func (e *AuditEntry) UnmarshalJSON(data []byte) error {
	read := AuditEntry{}
	if err := decode(data, &read); err != nil {
		return inspection.Invalid("The audit entry cannot be read: it " + err.Error() + ".")
	}
	*e = read
	return nil
}

// MarshalJSON gives the server's JSON of an audit entry. CreatedAt is written
// as it was read, unless it was changed since.
func (e AuditEntry) MarshalJSON() ([]byte, error) {
	createdAt, err := writeTime(e.CreatedAt, e.createdAt)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ID         int64  `json:"id"`
		TenantID   string `json:"tenant_id"`
		UserID     string `json:"user_id,omitempty"`
		SessionID  string `json:"session_id,omitempty"`
		Action     string `json:"action"`
		Detail     string `json:"detail,omitempty"`
		RequestID  string `json:"request_id,omitempty"`
		StatusCode int    `json:"status_code,omitempty"`
		LatencyMS  int64  `json:"latency_ms,omitempty"`
		SourceIP   string `json:"source_ip,omitempty"`
		ErrorCode  string `json:"error_code,omitempty"`
		UserAgent  string `json:"user_agent,omitempty"`
		CreatedAt  string `json:"created_at"`
	}{
		e.ID, e.TenantID, e.UserID, e.SessionID, e.Action, e.Detail, e.RequestID, e.StatusCode, e.Latency.Milliseconds(),
		e.SourceIP, e.ErrorCode, e.UserAgent, createdAt,
	})
}
