package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// output shows answers, as a table or as lines of JSON.
type output struct {
	*bufio.Writer
	options
	group            string // the heading that was shown last
	begun            bool   // whether anything was written
	answered, failed int
	surprises        []string // answers of the play that should have been others
}

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
		o.apart()
		o.write(a.group + "\n")
		first = true
	}
	if table, ok := o.table(); ok && first {
		o.apart()
		o.row(table, row{"ID", "TOOL", "APPROVAL", "DISPATCH", "JOURNAL"})
	}
	o.apart()
	o.entry(a)
	return o.Flush()
}

// entry writes what is known of one operation: a row of the table, and below
// it what does not fit into columns.
func (o *output) entry(a answer) {
	o.evidence(a)
	if a.story != "" {
		o.line("played", a.story)
	}
	r := a.report
	if a.failure != nil {
		code := string(r.Code)
		if a.failure.StatusCode != 0 {
			code += fmt.Sprintf(" (%d)", a.failure.StatusCode)
		}
		o.line("no answer", code+": "+r.Sentence)
	} else {
		o.line("progress", r.Sentence)
	}
	advice := r.Advice
	if r.Next == host.NextAskAgain {
		advice += fmt.Sprintf(" Wait %d seconds at least.", r.AskAgainAfterSeconds)
	}
	o.line("next", advice)
	o.result(a)
}

// evidence writes the parts of a receipt: in columns, or below each other where
// they do not fit.
func (o *output) evidence(a answer) {
	id := a.id
	if !o.wholeIDs() {
		id = screen.Cut(id, labelColumns-gap)
	}
	shown := row{id, "-", "-", "-", "-"}
	if r := a.receipt; r != nil {
		approval := string(r.Approval.Status)
		if r.Approval.ID != 0 {
			approval += fmt.Sprintf(" #%d", r.Approval.ID)
		}
		shown = row{id, r.Tool, approval, string(r.DispatchState), string(r.JournalState)}
	}
	table, ok := o.table()
	fits := ok && table.holds(shown) && (a.receipt != nil || table.id > 0)
	alone := o.wholeIDs() && !(fits && table.id > 0) // to be copied: nothing cuts or breaks it
	if alone || a.receipt == nil && !fits {
		o.write(id + "\n")
	}
	switch {
	case fits:
		o.row(table, shown)
		return
	case a.receipt == nil:
		return
	case alone:
		o.line("tool", shown.tool)
	default:
		o.line(id, shown.tool)
	}
	o.parts("evidence", "approval "+shown.approval, "dispatch "+shown.dispatch, "journal "+shown.journal)
}

// result writes what the Hub has kept of the outcome, where the progress is
// one that it belongs to.
func (o *output) result(a answer) {
	text := a.report.UntrustedText
	if o.wide && text != "" { // the report cuts it
		text = receipt.Printable(a.receipt.Result.Text)
	}
	if a.report.BusinessStatus != 0 {
		text = fmt.Sprintf("%d %s", a.report.BusinessStatus, text)
	}
	if text != "" {
		o.line("result", screen.Cut(text, o.columns-labelColumns))
	}
	if a.receipt == nil || a.receipt.Result == nil {
		return
	}
	if limit := a.receipt.Result.RateLimit; limit != nil {
		o.line("limit", fmt.Sprintf("%d calls in %d s for the %s, set by %s", limit.Count, limit.WindowSec, limit.Level, receipt.Printable(limit.Source)))
	}
}

// wholeIDs reports whether ids are shown as they are. Those of the play are
// nobody's, and stand for themselves shortened.
func (o *output) wholeIDs() bool { return o.wide || len(o.ids) > 0 }

// sum counts the answers.
func (o *output) sum() error {
	if !o.json {
		asked := o.answered + o.failed
		operations := "operations were"
		if asked == 1 {
			operations = "operation was"
		}
		o.apart()
		o.paragraph(fmt.Sprintf("%d %s asked about: %d answered, %d not.", asked, operations, o.answered, o.failed))
	}
	return o.Flush()
}

// labelColumns is how much the labels of lines take, with the gap behind them.
const labelColumns = 11

// line writes a text with a label, in as many lines as it needs.
func (o *output) line(label, text string) {
	o.write(screen.Labelled(label, labelColumns, text, o.columns))
}

// parts writes a list with a label, and breaks lines between its parts only, as
// long as they fit.
func (o *output) parts(label string, parts ...string) {
	line := ""
	for i, part := range parts {
		if i < len(parts)-1 {
			part += ","
		}
		switch {
		case line == "":
			line = part
		case labelColumns+screen.Width(line+" "+part) <= o.columns:
			line += " " + part
		default:
			o.line(label, line)
			label, line = "", part
		}
	}
	o.line(label, line)
}

// paragraph writes a text in as many lines as it needs.
func (o *output) paragraph(text string) { o.write(screen.Paragraph("", "", text, o.columns)) }

// apart leaves a line empty, but not the first.
func (o *output) apart() {
	if o.begun {
		o.write("\n")
	}
}

func (o *output) write(text string) {
	o.begun = true
	_, _ = io.WriteString(o.Writer, text) // Flush has the error.
}

// A row is one of the table.
type row struct{ id, tool, approval, dispatch, journal string }

// A table says how wide its columns are. The id has none where it stands in a
// line of its own.
type table struct{ id, tool, approval, dispatch, journal int }

const (
	gap = 2 // between two columns
	// What a tool and an approval get at least, and what they share of more.
	leastTool, leastApproval = 18, 14
	mostMore                 = 12
)

// table gives the table for the width, and whether there is one at all.
func (o *output) table() (t table, ok bool) {
	t = table{
		tool: leastTool, approval: leastApproval,
		dispatch: len(receipt.DispatchNotDispatched),
		journal:  max(len(receipt.JournalResponseRecorded), len(receipt.JournalEvidenceDegraded)),
	}
	switch {
	case o.wide:
		t.id = 64
	case !o.wholeIDs():
		t.id = labelColumns - gap
	}
	least := t.tool + gap + t.approval + gap + t.dispatch + gap + t.journal
	if t.id > 0 {
		least += t.id + gap
	}
	if o.columns < least {
		return table{}, false
	}
	more := min(o.columns-least, mostMore)
	t.tool += more - more/3
	t.approval += more / 3
	return t, true
}

// holds reports whether everything in a row fits into its column.
func (t table) holds(r row) bool {
	return screen.Width(r.tool) <= t.tool && screen.Width(r.approval) <= t.approval &&
		screen.Width(r.dispatch) <= t.dispatch && screen.Width(r.journal) <= t.journal
}

func (o *output) row(t table, r row) {
	line := ""
	for _, cell := range []struct {
		text  string
		width int
	}{{r.id, t.id}, {r.tool, t.tool}, {r.approval, t.approval}, {r.dispatch, t.dispatch}, {r.journal, t.journal}} {
		if cell.width > 0 {
			line += screen.Pad(cell.text, cell.width+gap)
		}
	}
	o.write(strings.TrimRight(line, " ") + "\n")
}
