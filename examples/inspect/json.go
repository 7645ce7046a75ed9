package main

import (
	"encoding/json"
	"unicode/utf16"

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
	o.Write(printableJSON(text))
	return o.WriteByte('\n')
}

// printableJSON gives the same JSON with an escape for everything that
// receipt.Printable would not print as it is, because a terminal would obey it.
func printableJSON(text []byte) []byte {
	const hex = "0123456789abcdef"
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if char := string(r); r == '\\' || receipt.Printable(char) == char {
			out = append(out, char...)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = append(out, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
		}
	}
	return out
}
