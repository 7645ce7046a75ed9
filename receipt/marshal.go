package receipt

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// wireTime is how ObservedAt is written.
const wireTime = "2006-01-02T15:04:05.000Z"

// MarshalJSON gives the wire form, which [Parse] accepts. It writes observed_at
// in UTC, cut to milliseconds, and leaves out RetryAfterMS and RateLimit where
// the contract keeps none (see [Result]).
//
// A receipt that [Parse] would refuse cannot be marshalled: the error is a
// [*feedback.Error] with [feedback.CodeInvalidRequest], which names the member.
func (r Receipt) MarshalJSON() ([]byte, error) {
	if broken := r.unfit(); broken != "" {
		return nil, failures.New(failures.Failure{
			Event:   failures.BadArgument,
			Message: "The receipt cannot be marshalled: " + broken + ".",
		})
	}
	result := r.Result
	if result != nil {
		copied := *result
		copied.keepHints()
		result = &copied
	}
	return json.Marshal(struct {
		SchemaVersion              string        `json:"schema_version"`
		ReadOnly                   bool          `json:"read_only"`
		BusinessOperationPerformed bool          `json:"business_operation_performed"`
		InvocationID               string        `json:"invocation_id"`
		AgentRunID                 string        `json:"agent_run_id"`
		Route                      string        `json:"route"`
		Tool                       string        `json:"tool"`
		ObservedAt                 string        `json:"observed_at"`
		Result                     *Result       `json:"result"`
		ResultSource               ResultSource  `json:"result_source"`
		DispatchState              DispatchState `json:"dispatch_state"`
		Approval                   Approval      `json:"approval"`
		JournalState               JournalState  `json:"journal_state"`
	}{
		r.SchemaVersion, r.ReadOnly, r.BusinessOperationPerformed,
		r.InvocationID, r.AgentRunID, r.Route, r.Tool, r.ObservedAt.UTC().Format(wireTime),
		result, r.ResultSource, r.DispatchState, r.Approval, r.JournalState,
	})
}

// unfit says why Parse would refuse the receipt; "" where it would not.
func (r *Receipt) unfit() string {
	if r.unsupported() {
		return "schema_version, or that of the result, is not the one of this package"
	}
	if r.Result != nil && !utf8.ValidString(r.Result.Text) {
		return "result.text is not valid UTF-8"
	}
	return r.broken()
}
