package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// output shows receipts and trails. What comes from the server is made safe for
// a terminal here.
type output struct {
	*bufio.Writer
	columns  int       // how wide to write
	progress io.Writer // where to say what a reading waits for
}

// nothingRead is said in place of what could not be read, where that would look
// like an answer.
const nothingRead = "Nothing could be read. That says nothing about what was run."

// The columns of the table; the tool's takes what the width leaves it.
const (
	gap          = 2
	timeColumn   = len("2026-11-30T08:00:00Z")
	statusColumn = 10
	tookColumn   = 8
	leastTool    = 12
	mostTool     = 40
)

func (o *output) heading(text string) {
	o.WriteString(screen.Paragraph("", "", text, o.columns) + "\n")
}

// receipts shows the receipts of a session as they come.
func (o *output) receipts(ctx context.Context, client *hermesx.Client, query hermesx.ReceiptQuery, longestWait time.Duration) error {
	o.heading("RECEIPTS OF SESSION " + receipt.Printable(query.SessionID))
	n := 0
	for execution, err := range client.AllReceipts(ctx, query, o.patience(longestWait)...) {
		switch {
		case err != nil && n == 0:
			o.heading(nothingRead)
			return err
		case err != nil:
			o.heading(fmt.Sprintf("Not all could be read: %d shown here, and there may be more.", n))
			return err
		}
		if n++; n == 1 {
			o.row("STORED", "TOOL", "STATUS", "TOOK")
		}
		o.WriteByte('\n')
		o.row(
			execution.CreatedAt.Format(time.RFC3339),
			receipt.Printable(execution.ToolName),
			execution.Status.String(),
			execution.Duration.String(),
		)
		o.text("in", execution.Input, execution.InputTruncated())
		o.text("out", execution.Output, execution.OutputTruncated())
	}
	o.counted(n)
	return nil
}

// patience is how lists are read: what they wait for is said.
func (o *output) patience(longestWait time.Duration) []hermesx.ListOption {
	return []hermesx.ListOption{hermesx.WithLongestWait(longestWait), hermesx.WithProgress(o.waiting)}
}

// waiting says how far a reading has come when it waits for long.
func (o *output) waiting(p hermesx.Progress) {
	if p.Wait < time.Second {
		return
	}
	o.Flush() // what was read comes before what is waited for
	what := "the server to answer again"
	if p.RateLimited {
		what = "its rate limit"
	}
	fmt.Fprintf(o.progress, "hermesx: %d rows read, waiting %v for %s\n", p.Rows, p.Wait.Round(time.Second), what)
}

// text shows the beginning of an input or an output, in one line.
func (o *output) text(label, text string, cut bool) {
	if text == "" {
		return
	}
	text = receipt.Printable(text)
	if cut {
		text = "(cut by the server) " + text
	}
	const labelColumns = 7
	fmt.Fprintln(o, screen.Pad("  "+label, labelColumns)+screen.Cut(text, o.columns-labelColumns))
}

// row shows what stands in columns, or in lines where there is no room for them.
func (o *output) row(stored, tool, status, took string) {
	toolColumn := min(o.columns-timeColumn-statusColumn-tookColumn-3*gap, mostTool)
	if toolColumn < leastTool {
		o.WriteString(screen.Paragraph("", "", strings.Join([]string{stored, tool, status, took}, "  "), o.columns))
		return
	}
	line := ""
	for _, column := range []struct {
		text  string
		width int
	}{{stored, timeColumn}, {tool, toolColumn}, {status, statusColumn}, {took, tookColumn}} {
		line += screen.Pad(screen.Cut(column.text, column.width), column.width+gap)
	}
	fmt.Fprintln(o, strings.TrimRight(line, " "))
}

func (o *output) counted(n int) {
	switch n {
	case 0:
		o.heading("No receipt. That does not mean that no tool was run.")
	case 1:
		fmt.Fprint(o, "\n1 receipt.\n\n")
	default:
		fmt.Fprintf(o, "\n%d receipts.\n\n", n)
	}
}

// trail shows what belongs to a request as a tree. Each link says what evidence
// there is for it.
func (o *output) trail(t *hermesx.Trail) {
	o.heading("WHAT BELONGS TO A REQUEST")
	fmt.Fprintln(o, screen.Cut(receipt.Printable(t.RequestID), o.columns))
	o.branch("├─ ", "audit log", t.Request, map[hermesx.Link]string{
		hermesx.LinkRecorded:       "the request is logged",
		hermesx.LinkPartlyRecorded: "the request is logged, and the log could not be read to its end",
		hermesx.LinkAbsent:         "the request is not in the log, or not in that part of it",
		hermesx.LinkUnknown:        "the log could not be read to its end, and what was read does not have the request",
	})
	for _, entry := range t.Entries {
		o.leaf("│  ", fmt.Sprintf("%s  %s  %d  %v", entry.CreatedAt.Format(time.RFC3339), receipt.Printable(entry.Action), entry.StatusCode, entry.Latency))
	}
	session := "none is known"
	if t.SessionID != "" {
		session = receipt.Printable(t.SessionID)
	}
	o.branch("└─ ", "session "+session, t.Session, map[hermesx.Link]string{
		hermesx.LinkRecorded:       "the log names it",
		hermesx.LinkPartlyRecorded: "some of the entries name it",
		hermesx.LinkContradicted:   "the log names another one, or several",
		hermesx.LinkAbsent:         "the log names none: that the request was for it is the caller's word",
		hermesx.LinkUnknown:        "the log could not be read to its end",
	})
	o.branch("   └─ ", "receipts", t.Execution, map[hermesx.Link]string{
		hermesx.LinkRecorded:       "of the session, whichever request they were for",
		hermesx.LinkPartlyRecorded: "of the session, and not all could be read",
		hermesx.LinkAbsent:         "there is none, which does not mean that no tool was run",
		hermesx.LinkUnknown:        "not all could be read",
		hermesx.LinkNotAsked:       "there is no session to look for",
	})
	for _, execution := range t.Receipts {
		text := fmt.Sprintf("%s  %s", receipt.Printable(execution.ToolName), execution.Status)
		if execution.IdempotencyID != "" {
			text += "  key " + receipt.Printable(execution.IdempotencyID)
		}
		o.leaf("      ", text)
	}
	o.branch("      └─ ", "traces", t.Telemetry, map[hermesx.Link]string{
		hermesx.LinkRecorded:       "every receipt names one",
		hermesx.LinkPartlyRecorded: "some of the receipts name one",
		hermesx.LinkAbsent:         "no receipt names one",
		hermesx.LinkUnknown:        "not all receipts could be read",
		hermesx.LinkNotAsked:       "there are no receipts to go by",
	})
	for _, trace := range t.Traces {
		var tools []string
		for _, execution := range trace.Receipts {
			tools = append(tools, receipt.Printable(execution.ToolName))
		}
		o.leaf("         ", receipt.Printable(trace.ID)+"  "+strings.Join(tools, ", "))
	}
	fmt.Fprintln(o)
}

// branch writes a link: what it leads to, and what the records have of it.
func (o *output) branch(branch, what string, link hermesx.Link, words map[hermesx.Link]string) {
	text := what + ": " + strings.ReplaceAll(string(link), "_", " ")
	if says := words[link]; says != "" {
		text += ", " + says
	}
	o.WriteString(screen.Paragraph(branch, strings.NewReplacer("├─", "│ ", "└─", "  ").Replace(branch), text, o.columns))
}

func (o *output) leaf(indent, text string) {
	o.WriteString(screen.Paragraph(indent+"- ", indent+"  ", text, o.columns))
}
