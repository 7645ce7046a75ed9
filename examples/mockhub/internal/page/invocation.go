package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// An invocation is one operation as a host would learn of it now.
type invocation struct {
	ID       string      `json:"id"`
	Tool     string      `json:"tool"`
	Session  string      `json:"session"`
	Steps    []step      `json:"steps"`
	Progress string      `json:"progress"` // or the code of the failure
	Tone     string      `json:"tone"`     // good, bad, wait, busy or unknown
	Settled  bool        `json:"settled"`
	Sentence string      `json:"sentence"` // of the progress, or the failure's message
	Advice   string      `json:"advice"`   // what a host does next
	Facts    [][2]string `json:"facts"`    // of the receipt, or of the failure
	Answer   answerView  `json:"answer"`
	Asked    asked       `json:"asked"`
	Buttons  []press     `json:"buttons"`
}

// A step is a part of the timeline.
type step struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Mark  string `json:"mark"` // done, wait, busy, no, open, none or unknown
}

// answerView is the Hub's answer as it stands, made printable.
type answerView struct {
	To     string `json:"to"`
	Status string `json:"status"`
	Body   string `json:"body"`
}

// asked is how often the requests in the log asked for the receipt.
type asked struct {
	Times  int    `json:"times"`
	Last   string `json:"last"`
	Status string `json:"status"`
}

func receiptPath(id string) string { return "/agent-api/v1/tool-invocations/" + id + "/receipt" }

// An inquirer asks the Hub what it would tell a host, with the SDK and without
// leaving a trace.
type inquirer struct {
	hub     *hubtest.Hub
	clients map[[2]string]*agentclient.BailingHubAgentClient // by session and workspace
	last    answerView
}

func newInquirer(hub *hubtest.Hub) *inquirer {
	return &inquirer{hub: hub, clients: map[[2]string]*agentclient.BailingHubAgentClient{}}
}

// about asks about an invocation under the session that it was sent under.
func (q *inquirer) about(r hubtest.Record, session string) invocation {
	view := invocation{ID: r.InvocationID, Tool: receipt.Printable(r.Job.Marker.Tool), Session: session, Buttons: buttonsOf(r)}
	q.last = answerView{}
	observed, err := q.ask(r)
	view.Answer = q.last
	report := host.Explain(host.Original{InvocationID: r.InvocationID, Workspace: r.Job.Marker.Route}, observed, err)
	view.Settled, view.Sentence, view.Advice = report.Settled, report.Sentence, report.Advice
	if report.Answered {
		view.show(observed, report)
	} else {
		view.fail(err, report)
	}
	return view
}

func (q *inquirer) ask(r hubtest.Record) (*receipt.Receipt, error) {
	key := [2]string{r.Job.Marker.SessionID, r.Job.Marker.Route}
	client := q.clients[key]
	if client == nil {
		var err error
		client, err = agentclient.New(agentclient.Config{
			HubURL:    "http://localhost",
			Workspace: key[1],
			// Who asks is known without a token.
			TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "none"}),
		}, agentclient.WithHTTPClient(&http.Client{Transport: q.noting(q.hub.Peek(key[0]))}), agentclient.WithMaxRetries(0), agentclient.WithNegotiationReuse(time.Minute))
		if err != nil {
			return nil, err
		}
		q.clients[key] = client
	}
	return client.InspectInvocation(context.Background(), r.InvocationID)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// noting notes every answer that comes through.
func (q *inquirer) noting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(body))
		to := "inspection-capabilities"
		if strings.HasSuffix(r.URL.Path, "/receipt") {
			to = "receipt"
		}
		q.last = answerView{To: to, Status: statusText(response.StatusCode), Body: printableJSON(body)}
		return response, err
	})
}

// fail shows why there is no receipt.
func (v *invocation) fail(err error, report host.Report) {
	v.Tone, v.Progress = "unknown", string(report.Code)
	v.Steps = v.steps(&receipt.Receipt{})
	v.fact("next", string(report.Next))
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		v.fact("category", string(failure.Feedback.Category))
		v.fact("next_action", string(failure.Feedback.NextAction))
		v.fact("retryable", fmt.Sprint(failure.Feedback.Retryable))
	}
}

// show shows a receipt.
func (v *invocation) show(r *receipt.Receipt, report host.Report) {
	v.Progress, v.Tone = string(report.Progress), tones[report.Progress]
	v.fact("next", string(report.Next))
	v.Steps = v.steps(r)
	if result := r.Result; result == nil {
		v.fact("result", "null")
	} else {
		v.fact("result", string(result.State))
		v.fact("text", receipt.Printable(result.Text))
		if result.BusinessStatus != 0 {
			v.fact("business_status", fmt.Sprint(result.BusinessStatus))
		}
	}
	v.fact("result_source", string(r.ResultSource))
	v.fact("dispatch_state", string(r.DispatchState))
	approval := string(r.Approval.Status)
	if r.Approval.ID != 0 {
		approval += fmt.Sprintf(", approval_id %d", r.Approval.ID)
	}
	v.fact("approval", approval)
	v.fact("journal_state", string(r.JournalState))
	v.fact("observed_at", r.ObservedAt.Format("2006-01-02T15:04:05.000Z"))
}

func (v *invocation) fact(name, value string) { v.Facts = append(v.Facts, [2]string{name, value}) }

var tones = map[receipt.Progress]string{
	receipt.ProgressExecuted:               "good",
	receipt.ProgressBusinessRejected:       "bad",
	receipt.ProgressDenied:                 "bad",
	receipt.ProgressRejectedBeforeDispatch: "bad",
	receipt.ProgressAwaitingApproval:       "wait",
	receipt.ProgressApprovedNotDispatched:  "wait",
	receipt.ProgressInProgress:             "busy",
	receipt.ProgressInFlight:               "busy",
	receipt.ProgressUnresolved:             "unknown",
	receipt.ProgressNoEvidence:             "unknown",
}

// steps is the timeline of what a receipt says. Of the zero one nothing is
// known but that it was submitted: the Hub has a record.
func (v *invocation) steps(r *receipt.Receipt) []step {
	approval := step{Name: "approval", Value: string(r.Approval.Status), Mark: approvalMarks[r.Approval.Status]}
	dispatch := step{Name: "dispatch", Value: words(r.DispatchState), Mark: dispatchMarks[r.DispatchState]}
	journal := step{Name: "journal", Value: words(r.JournalState), Mark: journalMarks[r.JournalState]}
	if journal.Mark == "open" && r.DispatchState == receipt.DispatchAttempted {
		journal.Mark = "none" // a tool that only reads has none
	}
	result := step{Name: "result", Value: "none", Mark: "open"}
	switch {
	case r.Result != nil:
		result.Value, result.Mark = words(r.Result.State), resultMarks[r.Result.State]
		switch progress := r.Progress(); {
		case result.Mark == "done" && progress != receipt.ProgressExecuted:
			result.Mark = "unknown" // what stands beside it does not bear it out
		case result.Mark == "wait" && progress != receipt.ProgressAwaitingApproval:
			result.Mark = "open" // a person has decided since
		}
	case r.DispatchState != receipt.DispatchNotDispatched:
		result.Mark = "unknown"
	}
	all := []step{{Name: "submitted", Value: "by " + v.Session, Mark: "done"}, approval, dispatch, journal, result}
	for i := range all {
		if all[i].Mark == "" {
			all[i].Mark = "unknown"
		}
		if r.SchemaVersion == "" && i > 0 {
			all[i].Value = "not known"
		}
	}
	return all
}

func words[T ~string](value T) string { return strings.ReplaceAll(string(value), "_", " ") }

// A value without a mark is unknown.
var (
	approvalMarks = map[receipt.ApprovalStatus]string{
		receipt.ApprovalNone: "none", receipt.ApprovalPending: "wait", receipt.ApprovalApproved: "done", receipt.ApprovalDenied: "no",
	}
	dispatchMarks = map[receipt.DispatchState]string{
		receipt.DispatchNotDispatched: "open", receipt.DispatchAttempted: "done",
	}
	journalMarks = map[receipt.JournalState]string{
		receipt.JournalAbsent: "open", receipt.JournalDispatching: "busy", receipt.JournalResponseRecorded: "busy", receipt.JournalCompleted: "done",
	}
	resultMarks = map[receipt.ResultState]string{
		receipt.StateExecuted: "done", receipt.StateBusinessRejected: "no", receipt.StateDenied: "no", receipt.StateRejectedBeforeDispatch: "no",
		receipt.StateAwaitingApproval: "wait", receipt.StateInProgress: "busy",
	}
)

// buttonsOf gives what can be done with an invocation now: the Hub's operator
// and its business system look at the record, whatever a host gets to see.
func buttonsOf(r hubtest.Record) []press {
	var all []press
	add := func(do, label string) { all = append(all, press{Do: do, Label: label}) }
	dispatched := r.Journal != nil || r.Job.Dispatched != hubtest.DispatchNo
	switch {
	case r.Approval != nil && r.Approval.Status == hubtest.ApprovalPending:
		add("approve", "Approve")
		add("deny", "Deny")
	case r.Approval != nil && !dispatched && r.Job.Status == hubtest.JobWaiting:
		add("resume", "Resume")
	case dispatched && r.Job.Status == hubtest.JobRunning:
		add("finish", "Finish")
		add("refuse", "Finish with a no")
		add("lose", "Lose the answer")
	}
	add("ask", "Ask as a host")
	return all
}

// printableJSON lays a body out for reading. Its texts keep to their lines and
// their direction: what [receipt.Printable] would escape is escaped as JSON
// does it, so that it is the same JSON still.
func printableJSON(body []byte) string {
	var laidOut bytes.Buffer
	if !utf8.Valid(body) || json.Indent(&laidOut, bytes.TrimSpace(body), "", "  ") != nil {
		var lines []string
		for line := range strings.Lines(string(body)) {
			lines = append(lines, receipt.Printable(strings.TrimSuffix(line, "\n")))
		}
		return strings.Join(lines, "\n")
	}
	var out strings.Builder
	for line := range strings.Lines(laidOut.String()) {
		line, end := strings.CutSuffix(line, "\n")
		for i, part := range strings.Split(line, `\`) {
			if i > 0 {
				out.WriteByte('\\')
			}
			out.WriteString(jsonEscapes(receipt.Printable(part)))
		}
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// jsonEscapes rewrites the escapes of a text without backslashes of its own.
func jsonEscapes(printable string) string {
	if !strings.Contains(printable, `\`) {
		return printable
	}
	var out strings.Builder
	for printable != "" {
		r, _, rest, err := strconv.UnquoteChar(printable, 0)
		if err != nil {
			return out.String() // never seen: Printable writes escapes that are whole
		}
		if printable[0] != '\\' {
			out.WriteRune(r)
		} else {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
		printable = rest
	}
	return out.String()
}
