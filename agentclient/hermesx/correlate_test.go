package hermesx_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// shape is a trail in short.
type shape struct {
	Session                              string
	Entries                              []int64
	Receipts                             []string
	Traces                               map[string]string
	ToEntry, ToSession, ToTools, ToTrace hermesx.Link
}

func shapeOf(trail *hermesx.Trail) shape {
	s := shape{Session: trail.SessionID, ToEntry: trail.Request, ToSession: trail.Session, ToTools: trail.Execution, ToTrace: trail.Telemetry}
	for _, entry := range trail.Entries {
		s.Entries = append(s.Entries, entry.ID)
	}
	for _, receipt := range trail.Receipts {
		s.Receipts = append(s.Receipts, receipt.ID)
	}
	for _, trace := range trail.Traces {
		if s.Traces == nil {
			s.Traces = map[string]string{}
		}
		for _, receipt := range trace.Receipts {
			s.Traces[trace.ID] += receipt.ID + " "
		}
	}
	return s
}

func TestCorrelate(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	receipt := func(id, session, trace string, n int) hermestest.Receipt {
		return hermestest.Receipt{ID: id, SessionID: session, TraceID: trace, CreatedAt: at(n)}
	}
	server.Store(
		receipt("r3", "traced", "trace-2", 3), receipt("r1", "traced", "trace-1", 1), receipt("r2", "traced", "trace-1", 2),
		receipt("m1", "mixed", "trace-3", 1), receipt("m2", "mixed", "", 2),
		receipt("u1", "untraced", "", 1),
		receipt("x1", "", "trace-4", 1),
	)
	entry := func(id int64, request, session string, n int) hermestest.AuditEntry {
		return hermestest.AuditEntry{ID: id, RequestID: request, SessionID: session, Action: "POST /v1/agent/chat", CreatedAt: at(n)}
	}
	server.Log(
		entry(12, "twice", "", 2), entry(11, "twice", "", 1),
		entry(21, "named", "traced", 1),
		entry(31, "partly", "traced", 1), entry(32, "partly", "", 2),
		entry(41, "two-sessions", "traced", 1), entry(42, "two-sessions", "mixed", 2),
		entry(51, "today", "", 50),
	)

	traced := []string{"r1", "r2", "r3"}
	traces := map[string]string{"trace-1": "r1 r2 ", "trace-2": "r3 "}
	const (
		yes, partly, no, clash, unasked = hermesx.LinkRecorded, hermesx.LinkPartlyRecorded, hermesx.LinkAbsent, hermesx.LinkContradicted, hermesx.LinkNotAsked
	)
	for name, test := range map[string]struct {
		from hermesx.Correlation
		want shape
	}{
		"both, as it is today":         {hermesx.Correlation{RequestID: "today", SessionID: "traced"}, shape{"traced", []int64{51}, traced, traces, yes, no, yes, yes}},
		"request alone":                {hermesx.Correlation{RequestID: "today"}, shape{"", []int64{51}, nil, nil, yes, no, unasked, unasked}},
		"session alone":                {hermesx.Correlation{SessionID: "traced"}, shape{"traced", nil, traced, traces, unasked, unasked, yes, yes}},
		"an id used twice":             {hermesx.Correlation{RequestID: "twice", SessionID: "untraced"}, shape{"untraced", []int64{11, 12}, []string{"u1"}, nil, yes, no, yes, no}},
		"the entry names its session":  {hermesx.Correlation{RequestID: "named"}, shape{"traced", []int64{21}, traced, traces, yes, yes, yes, yes}},
		"and it is the one given":      {hermesx.Correlation{RequestID: "named", SessionID: "traced"}, shape{"traced", []int64{21}, traced, traces, yes, yes, yes, yes}},
		"and it is another":            {hermesx.Correlation{RequestID: "named", SessionID: "mixed"}, shape{"mixed", []int64{21}, []string{"m1", "m2"}, map[string]string{"trace-3": "m1 "}, yes, clash, yes, partly}},
		"one entry of two names it":    {hermesx.Correlation{RequestID: "partly"}, shape{"traced", []int64{31, 32}, traced, traces, yes, partly, yes, yes}},
		"two entries name two":         {hermesx.Correlation{RequestID: "two-sessions"}, shape{"", []int64{41, 42}, nil, nil, yes, clash, unasked, unasked}},
		"two entries name two, of one": {hermesx.Correlation{RequestID: "two-sessions", SessionID: "traced"}, shape{"traced", []int64{41, 42}, traced, traces, yes, clash, yes, yes}},
		"no such request":              {hermesx.Correlation{RequestID: "none", SessionID: "untraced"}, shape{"untraced", nil, []string{"u1"}, nil, no, no, yes, no}},
		"no such session":              {hermesx.Correlation{RequestID: "today", SessionID: "none"}, shape{"none", []int64{51}, nil, nil, yes, no, no, no}},
		"nothing at all":               {hermesx.Correlation{RequestID: "none", SessionID: "none"}, shape{"none", nil, nil, nil, no, no, no, no}},
		"outside of the window":        {hermesx.Correlation{RequestID: "today", From: at(0), To: at(50)}, shape{"", nil, nil, nil, no, no, unasked, unasked}},
		"inside of the window":         {hermesx.Correlation{RequestID: "today", SessionID: "untraced", From: at(50), To: at(51)}, shape{"untraced", []int64{51}, []string{"u1"}, nil, yes, no, yes, no}},
	} {
		trail, err := client.Correlate(t.Context(), test.from)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, shapeOf(trail)); diff != "" || trail.RequestID != test.from.RequestID {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// A session that is empty asks for none: it would be everybody's.
	for _, request := range server.Requests() {
		if strings.HasPrefix(request, "GET /v1/execution-receipts") && !strings.Contains(request, "session_id=") {
			t.Errorf("%s", request)
		}
	}
}

// The reading of the log has request ids too, and is never taken for the
// request.
func TestCorrelateSeesNothingOfItself(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	server.Chat(hermestest.Chat{RequestID: "chat-1", SessionID: "s", Calls: []hermestest.Call{{Tool: "t"}}})
	for range 3 {
		trail, err := client.Correlate(t.Context(), hermesx.Correlation{RequestID: "chat-1", SessionID: "s"})
		if err != nil || len(trail.Entries) != 1 || len(trail.Receipts) != 1 {
			t.Fatalf("%+v, %v", trail, err)
		}
		if trail.Entries[0].Action != "POST /v1/agent/chat" || trail.Entries[0].ReadRequestID == "" || trail.Receipts[0].ReadRequestID == "" {
			t.Errorf("%+v", trail.Entries[0])
		}
	}
}

// A list that cannot be read to its end shows in the links, and not as absence.
func TestCorrelateWithGaps(t *testing.T) {
	t.Parallel()
	audit := func(total int, request string) string {
		return fmt.Sprintf(`{"audit_logs":[{"id":1,"tenant_id":"t","action":"a","request_id":"%s","created_at":"2026-05-24T04:00:00Z"}],"limit":100,"offset":0,"total":%d}`, request, total)
	}
	for name, test := range map[string]struct {
		audit, receipts string
		want            [4]hermesx.Link
	}{
		"found, and more than shown":  {audit(2, "r"), page(2, 0, 1), [4]hermesx.Link{hermesx.LinkPartlyRecorded, hermesx.LinkAbsent, hermesx.LinkPartlyRecorded, hermesx.LinkAbsent}},
		"not found, more than shown":  {audit(2, "other"), page(2, 0, 0), [4]hermesx.Link{hermesx.LinkUnknown, hermesx.LinkUnknown, hermesx.LinkUnknown, hermesx.LinkUnknown}},
		"found, and all of it":        {audit(1, "r"), page(1, 0, 1), [4]hermesx.Link{hermesx.LinkRecorded, hermesx.LinkAbsent, hermesx.LinkRecorded, hermesx.LinkAbsent}},
		"not found, and all was seen": {audit(1, "other"), page(0, 0, 0), [4]hermesx.Link{hermesx.LinkAbsent, hermesx.LinkAbsent, hermesx.LinkAbsent, hermesx.LinkAbsent}},
	} {
		client := newClient(t, &wire{answer: logging(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/audit-logs" {
				return respond(200, test.audit), nil
			}
			return respond(200, test.receipts), nil
		})})
		trail, err := client.Correlate(t.Context(), hermesx.Correlation{RequestID: "r", SessionID: "s"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, [4]hermesx.Link{trail.Request, trail.Session, trail.Execution, trail.Telemetry}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Any other error is an error, with no half of a trail.
func TestCorrelateFails(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	server.SetDatabaseDown(true)
	if trail, err := client.Correlate(t.Context(), hermesx.Correlation{RequestID: "r"}); trail != nil || !errors.Is(err, feedback.CodeAgentAuthorizationUnavailable) {
		t.Errorf("%+v, %v", trail, err)
	}
	if trail, err := client.Correlate(t.Context(), hermesx.Correlation{SessionID: "s"}); trail != nil || !errors.Is(err, feedback.CodeAgentAuthorizationUnavailable) {
		t.Errorf("%+v, %v", trail, err)
	}
}

// What all the rows that were read name, those that were not need not.
func TestCorrelateOfSomeThatNameEverything(t *testing.T) {
	t.Parallel()
	for total, want := range map[int]hermesx.Link{1: hermesx.LinkRecorded, 2: hermesx.LinkPartlyRecorded} {
		client := newClient(t, &wire{answer: logging(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/audit-logs" {
				return respond(200, fmt.Sprintf(`{"audit_logs":[{"id":1,"tenant_id":"t","action":"a","request_id":"r","session_id":"s","created_at":"2026-05-24T04:00:00Z"}],"limit":100,"offset":0,"total":%d}`, total)), nil
			}
			return respond(200, fmt.Sprintf(`{"execution_receipts":[%s],"total":%d}`, with("trace_id", `"trace"`), total)), nil
		})})
		trail, err := client.Correlate(t.Context(), hermesx.Correlation{RequestID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([4]hermesx.Link{want, want, want, want}, [4]hermesx.Link{trail.Request, trail.Session, trail.Execution, trail.Telemetry}); diff != "" {
			t.Errorf("of %d (-want +got):\n%s", total, diff)
		}
	}
}
