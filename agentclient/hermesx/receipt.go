package hermesx

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
)

// Receipt is a HermesX server's record of one execution of a tool. The server never changes a
// stored receipt, but may remove it.
//
// All its texts are untrusted data, the ids too: print them through
// receipt.Printable. Its JSON is that of the server, with the same values, the
// time included; members that this package does not know are dropped.
type Receipt struct {
	// ID identifies the receipt. It is never empty. Today's servers use UUIDs, which they do
	// not promise.
	ID string `json:"id"`
	// TenantID is the tenant of the key.
	TenantID string `json:"tenant_id"`
	// SessionID is the agent's or workflow's session that caused the call; ""
	// where it had none.
	SessionID string `json:"session_id"`
	// UserID is the user or actor who caused the call; for calls over the API it is the id of
	// the API key. "" where there was none.
	UserID string `json:"user_id"`
	// ToolName is the tool.
	ToolName string `json:"tool_name"`
	// Input and Output are what went into the tool and what came out, each cut
	// by the server at [TextLimit] bytes without a mark: JSON that does not
	// parse is normal. See [Receipt.InputTruncated].
	Input  string `json:"input"`
	Output string `json:"output"`
	// Status is how the call ended.
	Status Status `json:"status"`
	// Duration is how long the tool ran, in whole milliseconds.
	Duration time.Duration `json:"duration_ms"`
	// IdempotencyID names the one logical side effect that the call was for,
	// within the tenant; "" where the call had none. The agent of today sets
	// none.
	IdempotencyID string `json:"idempotency_id,omitempty"`
	// TraceID is the distributed trace that the call belongs to; "" where
	// nothing says so. The agent of today sets none.
	TraceID string `json:"trace_id,omitempty"`
	// CreatedAt is when the receipt was stored, with the server's own offset.
	CreatedAt time.Time `json:"created_at"`

	// ReadRequestID is the id, in the server's audit log, of the request that read this
	// receipt; "" where the answer named none. It is not the request that the tool was run
	// for, and not part of the JSON.
	ReadRequestID string `json:"-"`

	createdAt string // CreatedAt as it was written
}

// TextLimit is how many bytes of a tool's input and of its output a server
// keeps.
const TextLimit = 4096

// InputTruncated reports whether Input looks cut: it has at least [TextLimit]
// bytes and is not valid JSON. The server leaves no mark, so a text that is no
// JSON and just as long as the limit counts as cut.
func (r *Receipt) InputTruncated() bool { return truncated(r.Input) }

// OutputTruncated does for Output what InputTruncated does for Input. An output may be plain text,
// so that a long one may count as cut although it is whole.
func (r *Receipt) OutputTruncated() bool { return truncated(r.Output) }

// truncated accepts texts longer than the limit, because a server sends U+FFFD, which is longer, for
// a character that it has cut in half.
func truncated(text string) bool { return len(text) >= TextLimit && !json.Valid([]byte(text)) }

// Receipt reads one receipt by its id.
//
// The id is sent as one escaped segment of the path. An id that a server could read as another path
// even when it is escaped is an invalid request: one that is empty, consists of slashes, or has "."
// or ".." between its slashes. So is an id of more than 2,048 bytes.
//
// The code of the error is [feedback.CodeReceiptNotFound] where the server gives no such receipt. That
// does not prove that the tool did not run, nor that the receipt is not stored: the server gives the
// same answer for a receipt of another tenant, and while its database is down.
func (c *Client) Receipt(ctx context.Context, id string) (*Receipt, error) {
	path, ok := boundary.ExecutionReceiptPath(id)
	if !ok {
		return nil, inspection.Invalid("The receipt's id cannot be sent: it has to be 1 to 2,048 bytes of valid UTF-8 without a NUL, not slashes alone, and without . or .. between slashes.")
	}
	receipt := &Receipt{}
	err := c.ask(ctx, inspection.Question{Step: failures.ExecutionReceipt, Path: path}, func(got reply) error {
		receipt.ReadRequestID = got.RequestID
		if err := decode(got.Body, receipt); err != nil {
			return err
		}
		if !sameID(receipt.ID, id) {
			return flaw("is a receipt with another id")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return receipt, nil
}

// sameID compares ids byte by byte, and UUIDs in any of their spellings: asked
// for one in capitals or without hyphens, a server answers in its own.
func sameID(a, b string) bool {
	return a == b || uuidDigits(a) != "" && uuidDigits(a) == uuidDigits(b)
}

// uuidDigits gives the 32 digits of a UUID, in small letters; "" for any other
// text.
func uuidDigits(id string) string {
	digits := strings.ToLower(strings.ReplaceAll(strings.Trim(id, "{}"), "-", ""))
	if len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return digits
}

// The members of a receipt that may not be missing.
const (
	receiptID = 1 << iota
	receiptTenantID
	receiptSessionID
	receiptUserID
	receiptToolName
	receiptInput
	receiptOutput
	receiptStatus
	receiptDuration
	receiptCreatedAt
	receiptRequired = 1<<iota - 1
)

func (r *Receipt) name() string   { return "a receipt" }
func (r *Receipt) required() uint { return receiptRequired }

func (r *Receipt) member(name string) (into any, bit uint) {
	switch name {
	case "id":
		return func(text []byte) bool { r.ID = string(text); return r.ID != "" }, receiptID
	case "tenant_id":
		return &r.TenantID, receiptTenantID
	case "session_id":
		return &r.SessionID, receiptSessionID
	case "user_id":
		return &r.UserID, receiptUserID
	case "tool_name":
		return &r.ToolName, receiptToolName
	case "input":
		return &r.Input, receiptInput
	case "output":
		return &r.Output, receiptOutput
	case "status":
		return (*string)(&r.Status), receiptStatus
	case "duration_ms":
		return &r.Duration, receiptDuration
	case "idempotency_id":
		return &r.IdempotencyID, 0
	case "trace_id":
		return &r.TraceID, 0
	case "created_at":
		return timeReader(&r.CreatedAt, &r.createdAt), receiptCreatedAt
	}
	return nil, 0
}

// UnmarshalJSON reads a receipt as strictly as an answer is read: valid UTF-8,
// no member twice, names in exactly their letter case, nothing missing that the
// server always writes. The error is a [*feedback.Error].
func (r *Receipt) UnmarshalJSON(data []byte) error {
	read := Receipt{}
	if err := decode(data, &read); err != nil {
		return inspection.Invalid("The receipt cannot be read: it " + err.Error() + ".")
	}
	*r = read
	return nil
}

// MarshalJSON gives the server's JSON of a receipt. CreatedAt is written as it
// was read, unless it was changed since.
func (r Receipt) MarshalJSON() ([]byte, error) {
	createdAt, err := writeTime(r.CreatedAt, r.createdAt)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ID            string `json:"id"`
		TenantID      string `json:"tenant_id"`
		SessionID     string `json:"session_id"`
		UserID        string `json:"user_id"`
		ToolName      string `json:"tool_name"`
		Input         string `json:"input"`
		Output        string `json:"output"`
		Status        Status `json:"status"`
		DurationMS    int64  `json:"duration_ms"`
		IdempotencyID string `json:"idempotency_id,omitempty"`
		TraceID       string `json:"trace_id,omitempty"`
		CreatedAt     string `json:"created_at"`
	}{
		r.ID, r.TenantID, r.SessionID, r.UserID, r.ToolName, r.Input, r.Output, r.Status, r.Duration.Milliseconds(),
		r.IdempotencyID, r.TraceID, createdAt,
	})
}
