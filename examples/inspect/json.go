package main

import (
	"encoding/json"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// line is the JSON of one answer: its report, and what that was made of.
type line struct {
	Situation string           `json:"situation,omitempty"` // in the play only
	Report    host.Report      `json:"report"`
	Receipt   *receipt.Receipt `json:"receipt,omitempty"` // as the Hub's contract has it
	Error     *feedback.Error  `json:"error,omitempty"`
}

func (o *output) writeJSON(a answer) error {
	l := line{Situation: a.name, Report: a.report, Receipt: a.receipt, Error: a.failure}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	o.Write(screen.JSON(text))
	return o.WriteByte('\n')
}
