package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// output shows answers, as a table or as lines of JSON.
type output struct {
	*bufio.Writer
	options
	group            string // the heading that was shown last
	answered, failed int
	surprises        []string // answers of the play that should have been others
}

// The columns of the table.
const (
	idColumn       = 9
	toolColumn     = 22
	approvalColumn = 16
	dispatchColumn = 14
	gap            = 2
)

func (o *output) show(a answer) error {
	first := o.answered+o.failed == 0
	if a.failure != nil {
		o.failed++
	} else {
		o.answered++
	}
	if a.want != "" && a.want != a.became() {
		o.surprises = append(o.surprises, fmt.Sprintf("%s became %s, and %s was played", a.name, a.became(), a.want))
	}
	if o.json {
		if err := o.writeJSON(a); err != nil {
			return err
		}
		return o.Flush()
	}
	if a.group != o.group {
		o.group = a.group
		fmt.Fprintf(o, "\n%s\n\n", a.group)
		first = true
	}
	if first {
		o.columns("ID", "TOOL", "APPROVAL", "DISPATCH", "JOURNAL")
	}
	o.entry(a)
	return o.Flush()
}

// entry writes what is known of one operation: a row of the table, and below
// it what does not fit into columns.
func (o *output) entry(a answer) {
	o.WriteByte('\n')
	if r := a.receipt; r == nil {
		o.columns(a.id, "-", "-", "-", "-")
	} else {
		approval := string(r.Approval.Status)
		if r.Approval.ID != 0 {
			approval += fmt.Sprintf(" #%d", r.Approval.ID)
		}
		o.columns(a.id, r.Tool, approval, string(r.DispatchState), string(r.JournalState))
	}
	if a.story != "" {
		o.line("played", a.story)
	}
	if a.failure != nil {
		code := string(a.failure.Feedback.Code)
		if a.failure.StatusCode != 0 {
			code += fmt.Sprintf(" (%d)", a.failure.StatusCode)
		}
		o.line("no answer", code+": "+a.failure.Feedback.Message)
	} else {
		o.line("progress", a.receipt.Progress().Sentence())
	}
	o.line("host may", a.hostMay())
	o.result(a.receipt)
}

// result writes what the Hub has kept of the outcome, where the progress is
// one that it belongs to.
func (o *output) result(r *receipt.Receipt) {
	switch r.Progress() {
	case receipt.ProgressExecuted, receipt.ProgressBusinessRejected, receipt.ProgressRejectedBeforeDispatch:
	default:
		return
	}
	text := receipt.Printable(r.Result.Text)
	if r.Result.BusinessStatus != 0 {
		text = fmt.Sprintf("%d %s", r.Result.BusinessStatus, text)
	}
	if limit := r.Result.RateLimit; limit != nil {
		text += fmt.Sprintf(" (%d calls in %d s for the %s, set by %s)", limit.Count, limit.WindowSec, limit.Level, receipt.Printable(limit.Source))
	}
	if !o.wide {
		text = screen.Cut(text, screen.Columns-idColumn-gap)
	}
	o.line("result", text)
}

func (o *output) columns(id, tool, approval, dispatch, journal string) {
	idWidth := idColumn
	if o.wide {
		idWidth = 64
	} else {
		tool = screen.Cut(tool, toolColumn)
		if screen.Width(id) > idColumn {
			id = screen.Cut(id, idColumn)
		}
	}
	for _, column := range []struct {
		text  string
		width int
	}{{id, idWidth}, {tool, toolColumn}, {approval, approvalColumn}, {dispatch, dispatchColumn}} {
		o.WriteString(screen.Pad(column.text, column.width+gap))
	}
	fmt.Fprintln(o, journal)
}

// line writes a text with a label, in as many lines as it needs.
func (o *output) line(label, text string) {
	lines := []string{text}
	if !o.wide {
		lines = screen.Wrap(text, screen.Columns-idColumn-gap)
	}
	for _, line := range lines {
		fmt.Fprintf(o, "%s%s\n", screen.Pad(label, idColumn+gap), strings.TrimRight(line, " "))
		label = ""
	}
}

// sum counts the answers.
func (o *output) sum() error {
	if !o.json {
		asked := o.answered + o.failed
		operations := "operations were"
		if asked == 1 {
			operations = "operation was"
		}
		fmt.Fprintf(o, "\n%d %s asked about: %d answered, %d not.\n", asked, operations, o.answered, o.failed)
	}
	return o.Flush()
}
