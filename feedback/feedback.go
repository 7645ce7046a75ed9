package feedback

import (
	"encoding/json"
	"errors"
)

// Schema names the wire form that a [Feedback] marshals to.
const Schema = "bailing.agent-feedback.v1"

// Feedback is the structured account of one failure. Its JSON is the wire
// object of the schema [Schema], both ways.
//
// The zero value is no failure. A Feedback is a plain value: copy it freely.
type Feedback struct {
	// Schema is [Schema] in every Feedback of this SDK. MarshalJSON writes
	// [Schema] whatever the field holds.
	Schema string `json:"schema"`
	// Category groups codes by what they mean for the host.
	Category Category `json:"category"`
	// Code is the most exact name of the failure.
	Code Code `json:"code"`
	// Origin tells whether an answer of the Hub or this SDK decided.
	Origin Origin `json:"origin"`
	// Operation is what failed; for an inspection [OperationInspect].
	Operation Operation `json:"operation"`
	// Dispatch speaks of this inspection, never of the original operation.
	Dispatch Dispatch `json:"dispatch"`
	// Retryable says that NextAction may be repeated. It never permits creating
	// another invocation.
	Retryable bool `json:"retryable"`
	// NextAction is what to do next.
	NextAction NextAction `json:"next_action"`
	// InvocationID is the original invocation; empty where the caller gave no
	// valid one.
	InvocationID string `json:"invocation_id,omitempty"`
	// Disposition says what became of the original operation; empty where that
	// is not known.
	Disposition Disposition `json:"disposition,omitempty"`
	// Message is a sentence in this SDK's own words. No part of a server's
	// answer, no secret and no argument value is ever in it.
	Message string `json:"message"`
}

// members are the members of the wire object, without the methods of Feedback.
type members Feedback

// MarshalJSON gives the wire object, its schema first.
func (f Feedback) MarshalJSON() ([]byte, error) {
	f.Schema = Schema
	return json.Marshal(members(f))
}

// UnmarshalJSON reads the wire object. It refuses one of another schema.
func (f *Feedback) UnmarshalJSON(data []byte) error {
	var read members
	if json.Unmarshal(data, &read) != nil || read.Schema != Schema {
		return errNotFeedback // the decoder's error quotes the text
	}
	*f = Feedback(read)
	return nil
}

var errNotFeedback = errors.New("feedback: not a feedback object of schema " + Schema)
