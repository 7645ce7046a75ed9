package main

import (
	"encoding/json"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// line is the JSON of one answer.
type line struct {
	Situation string             `json:"situation,omitempty"` // in the play only
	Receipt   *receipt.Receipt   `json:"receipt,omitempty"`   // as the Hub's contract has it
	Progress  receipt.Progress   `json:"progress,omitempty"`
	Settled   *bool              `json:"settled,omitempty"`
	Sentence  string             `json:"sentence,omitempty"`
	Feedback  *feedback.Feedback `json:"feedback,omitempty"` // of an unresolved result
	Error     *feedback.Error    `json:"error,omitempty"`    // in place of all the rest but this:
	// RetryAfter is how long the Hub asked to wait.
	RetryAfter float64 `json:"retry_after_seconds,omitempty"`
}

func (o *output) writeJSON(a answer) error {
	l := line{Situation: a.name, Error: a.failure}
	if r := a.receipt; r != nil {
		l.Receipt, l.Progress, l.Settled, l.Sentence = r, r.Progress(), new(r.Settled()), r.Progress().Sentence()
		if account, ok := r.Feedback(); ok {
			l.Feedback = &account
		}
	}
	if a.failure != nil {
		l.RetryAfter = a.failure.RetryAfter.Seconds()
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	o.Write(screen.JSON(text))
	return o.WriteByte('\n')
}
