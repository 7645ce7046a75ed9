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
	// Category groups codes by what they mean for the host.
	Category Category
	// Code is the most exact name of the failure.
	Code Code
	// Origin tells whether an answer of the Hub decided, or this SDK did.
	Origin Origin
	// Operation is what failed; for an inspection [OperationInspect].
	Operation Operation
	// Dispatch speaks of this inspection, never of the original operation.
	Dispatch Dispatch
	// Retryable says that NextAction may be repeated. It is never leave to
	// create another invocation.
	Retryable bool
	// NextAction is the one thing that helps.
	NextAction NextAction
	// InvocationID is the original invocation; empty where the caller gave no
	// valid one.
	InvocationID string
	// Disposition says what became of the original operation; empty where that
	// is not known.
	Disposition Disposition
	// Message is a sentence in this SDK's own words. No part of a server's
	// answer, no secret and no argument value is ever in it.
	Message string
}

// wire is the feedback object in the order of its schema.
type wire struct {
	Schema       string      `json:"schema"`
	Category     Category    `json:"category"`
	Code         Code        `json:"code"`
	Origin       Origin      `json:"origin"`
	Operation    Operation   `json:"operation"`
	Dispatch     Dispatch    `json:"dispatch"`
	Retryable    bool        `json:"retryable"`
	NextAction   NextAction  `json:"next_action"`
	InvocationID string      `json:"invocation_id,omitempty"`
	Disposition  Disposition `json:"disposition,omitempty"`
	Message      string      `json:"message"`
}

func (f Feedback) wire() wire {
	return wire{
		Schema:       Schema,
		Category:     f.Category,
		Code:         f.Code,
		Origin:       f.Origin,
		Operation:    f.Operation,
		Dispatch:     f.Dispatch,
		Retryable:    f.Retryable,
		NextAction:   f.NextAction,
		InvocationID: f.InvocationID,
		Disposition:  f.Disposition,
		Message:      f.Message,
	}
}

// UnmarshalJSON reads the wire object, of this schema alone.
func (f *Feedback) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return errNotFeedback // the decoder's error quotes the text
	}
	return w.into(f)
}

var errNotFeedback = errors.New("feedback: not a feedback object of schema " + Schema)

func (w wire) into(f *Feedback) error {
	if w.Schema != Schema {
		return errNotFeedback
	}
	*f = Feedback{
		Category:     w.Category,
		Code:         w.Code,
		Origin:       w.Origin,
		Operation:    w.Operation,
		Dispatch:     w.Dispatch,
		Retryable:    w.Retryable,
		NextAction:   w.NextAction,
		InvocationID: w.InvocationID,
		Disposition:  w.Disposition,
		Message:      w.Message,
	}
	return nil
}

// MarshalJSON gives the wire object, its schema first.
func (f Feedback) MarshalJSON() ([]byte, error) {
	return json.Marshal(f.wire())
}
