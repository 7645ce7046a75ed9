package hermesx_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// Rows that the server cannot give are stepped around and told, wherever they
// stand; all others are given.
func TestRowsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	const total = 130
	for name, damaged := range map[string][]int{
		"the newest": {0}, "the oldest": {total - 1}, "in the middle": {60}, "two beside each other": {60, 61}, "at the ends of a page": {99, 100}, "some": {3, 50, 51, 52, 128},
	} {
		for _, limit := range []int{0, 1, 7} {
			server, client := newServer(t)
			for n := range total {
				entry := hermestest.AuditEntry{ID: int64(n + 1), Action: "X", CreatedAt: start.Add(-time.Duration(n) * time.Second)}
				for _, bad := range damaged {
					entry.Damaged = entry.Damaged || n == bad
				}
				server.Log(entry)
			}
			entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "X", Limit: limit}, hermesx.WithLongestWait(0)))
			failure := failureOf(t, err)
			if !errors.Is(err, hermesx.ErrIncomplete) || failure.Cursor != "" || !strings.Contains(failure.Message, fmt.Sprintf("could not give %d or more", len(damaged))) {
				t.Errorf("%s, pages of %d: %v", name, limit, err)
			}
			seen := map[int64]bool{}
			for _, entry := range entries {
				seen[entry.ID] = true
			}
			if len(seen) != total-len(damaged) || len(entries) != len(seen) {
				t.Errorf("%s, pages of %d: %d entries, %d different", name, limit, len(entries), len(seen))
			}
			if n := len(server.Requests()); limit == 0 && n > 6+14*len(damaged) {
				t.Errorf("%s, pages of %d: %d requests", name, limit, n)
			}
		}
	}
}

// Too many of them, or nothing else, end the reading with the server's error.
func TestNothingCanBeHad(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	for n := range 100 {
		server.Log(hermestest.AuditEntry{Action: "X", CreatedAt: start.Add(-time.Duration(n) * time.Second), Damaged: n > 30})
	}
	entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "X"}))
	if failure := failureOf(t, err); failure.StatusCode != 500 || failure.Cursor == "" || len(entries) != 31 || errors.Is(err, hermesx.ErrIncomplete) {
		t.Errorf("%d entries, %+v", len(entries), failure)
	}
	for _, body := range []string{"list failed\n", "internal error\n"} {
		w := &wire{answer: always(500, body)}
		if _, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{})); failureOf(t, err).StatusCode != 500 || len(w.sent()) > 9 {
			t.Errorf("%d requests, %v", len(w.sent()), err)
		}
	}
	w := &wire{answer: always(200, "<html>not a server of this kind</html>")}
	if _, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{})); failureOf(t, err).Code != feedback.CodeAgentInvalidResponse || len(w.sent()) != 3 {
		t.Errorf("%d requests, %v", len(w.sent()), err)
	}
}

// A row that is none, or is longer than an answer may be, spoils no other.
func TestARowThatIsNone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{"a member that is not as it should be": `"duration_ms":-1`, "longer than an answer": `"duration_ms":17,"more":"` + strings.Repeat("x", 16<<20) + `"`} {
		w := &wire{answer: func(r *http.Request) (*http.Response, error) {
			limit, offset := asked(r)
			return respond(200, strings.Replace(page(300, min(offset, 300), min(offset+limit, 300)), row(123), strings.Replace(row(123), `"duration_ms":17`, spoil, 1), 1)), nil
		}}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 100}))
		if !errors.Is(err, hermesx.ErrIncomplete) || len(idsOf(t, receipts)) != 299 || !strings.Contains(err.Error(), "1 or more") {
			t.Errorf("%s: %d receipts, %d requests, %v", name, len(receipts), len(w.sent()), err)
		}
	}
}

// A log in which the reading does not find itself is not called whole, and
// nothing is called absent: the server may not be able to see its rows.
func TestALogWithoutTheReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := newServer(t)
		defer server.Close()
		server.Chat(hermestest.Chat{RequestID: "chat-1", SessionID: "s", Calls: []hermestest.Call{{Tool: "t"}}})
		server.SetRowsHidden(true)
		entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{}))
		if failure := failureOf(t, err); len(entries) != 0 || !errors.Is(err, hermesx.ErrIncomplete) || !strings.Contains(failure.Message, "database role") || failure.Cursor != "" {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		for _, from := range []hermesx.Correlation{{RequestID: "chat-1", SessionID: "s"}, {RequestID: "chat-1"}, {SessionID: "s"}} {
			trail, err := client.Correlate(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range []hermesx.Link{trail.Request, trail.Session, trail.Execution, trail.Telemetry} {
				if link != hermesx.LinkUnknown && link != hermesx.LinkNotAsked {
					t.Errorf("%+v: %s", from, link)
				}
			}
		}
		// A server that sees its rows is believed: in an empty log, for a session
		// without receipts, and in a window that lies in the past.
		server.SetRowsHidden(false)
		for _, from := range []hermesx.Correlation{{RequestID: "none", SessionID: "none"}, {SessionID: "none"}, {RequestID: "none", To: time.Now().Add(-time.Hour)}} {
			trail, err := client.Correlate(t.Context(), from)
			if err != nil || trail.Request == hermesx.LinkUnknown || trail.Execution == hermesx.LinkUnknown {
				t.Errorf("%+v: %+v, %v", from, trail, err)
			}
		}
		if entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{To: time.Now().Add(-time.Hour)})); err != nil || len(entries) != 0 {
			t.Errorf("%d entries, %v", len(entries), err)
		}
	})
}

// Where the server writes its log later than it answers, it is looked at again.
func TestALogThatIsWrittenLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answered := 0
		logged := logging(always(200, emptyAudit))
		w := &wire{answer: func(r *http.Request) (*http.Response, error) {
			if answered++; answered == 2 || answered == 3 {
				_, _ = logged(r)
				return respond(200, emptyAudit), nil
			}
			return logged(r)
		}}
		if _, err := collect(newClient(t, w).AllAuditLogs(t.Context(), hermesx.AuditQuery{})); err != nil || len(w.sent()) != 4 {
			t.Errorf("%d requests, %v", len(w.sent()), err)
		}
	})
}

// A base URL that is not the server's is told from a receipt that is not there,
// and from a key without the role.
func TestAWrongBaseURL(t *testing.T) {
	t.Parallel()
	server := hermestest.NewServer(t)
	auditor := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
	admin := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAdmin}})
	user := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleUser}})
	server.SetRateLimit("", 1000)
	for _, test := range []struct {
		path, key string
		receipt   feedback.Code
		list      feedback.Code
		says      string
	}{
		{"", auditor.Secret, feedback.CodeReceiptNotFound, "", "no such receipt"},
		{"", user.Secret, feedback.CodeAgentAuthorizationUnavailable, feedback.CodeAgentAuthorizationUnavailable, "role auditor"},
		{"", "synthetic-access-unknown", feedback.CodeAgentAuthorizationUnavailable, feedback.CodeAgentAuthorizationUnavailable, "does not accept the key"},
		{"/v1", auditor.Secret, feedback.CodeAgentSchemaUnsupported, feedback.CodeAgentSchemaUnsupported, "/v1"},
		{"/v1/", admin.Secret, feedback.CodeAgentSchemaUnsupported, feedback.CodeAgentSchemaUnsupported, "base URL"},
		{"/admin", auditor.Secret, feedback.CodeAgentSchemaUnsupported, feedback.CodeAgentSchemaUnsupported, "/admin"},
		{"/admin", admin.Secret, feedback.CodeAgentSchemaUnsupported, feedback.CodeAgentSchemaUnsupported, "base URL"},
		{"/hermesx", auditor.Secret, feedback.CodeAgentSchemaUnsupported, feedback.CodeAgentSchemaUnsupported, "base URL"},
	} {
		client, err := hermesx.New(hermesx.Config{BaseURL: server.URL + test.path, TokenSource: static(test.key)})
		if err != nil {
			t.Fatal(err)
		}
		_, receipt := client.Receipt(t.Context(), "5106fb39-410f-4e1d-a6a2-68a9581b9fde")
		_, list := client.Receipts(t.Context(), hermesx.ReceiptQuery{})
		if failure := failureOf(t, receipt); failure.Code != test.receipt || !strings.Contains(failure.Message, test.says) {
			t.Errorf("%s: a receipt: %v", test.path, receipt)
		}
		if feedback.CodeOf(list) != test.list {
			t.Errorf("%s: a list: %v", test.path, list)
		}
		client.CloseIdleConnections()
	}
	// The words alone, or the header alone, are another server's.
	for name, answer := range map[string]answers{
		"the words alone":  always(404, "not found\n"),
		"the header alone": always(404, "Not Found", "X-Request-Id", "theirs"),
		"a page":           always(404, "<h1>not found</h1>", "X-Request-Id", "theirs"),
		"none":             always(404, "", "X-Request-Id", "theirs"),
	} {
		if _, err := newClient(t, &wire{answer: answer}).Receipt(t.Context(), "r"); !errors.Is(err, feedback.CodeAgentSchemaUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a server says as a status prints so that a terminal obeys none of it.
func TestAStatusPrintsSafely(t *testing.T) {
	t.Parallel()
	status := hermesx.Status("error\r\x1b[2K\u202edone")
	for _, text := range []string{fmt.Sprint(status), fmt.Sprintf("status %s", status), fmt.Sprintf("%v", []hermesx.Status{status}), status.String()} {
		if strings.ContainsAny(text, "\r\x1b\u202e") || !strings.Contains(text, `error\r\x1b[2K`) {
			t.Errorf("%q", text)
		}
	}
	if hermesx.StatusTimeout.String() != "timeout" || status.Known() || string(status) != "error\r\x1b[2K\u202edone" {
		t.Error("a status is another than it was")
	}
}

// Pages that are too long only as a whole are asked for in smaller ones, also
// where few rows fill an answer.
func TestRowsThatFillAnAnswer(t *testing.T) {
	t.Parallel()
	const large = 3 << 20
	filling := `"duration_ms":17,"more":"` + strings.Repeat("x", large) + `"`
	w := &wire{answer: func(r *http.Request) (*http.Response, error) {
		limit, offset := asked(r)
		body := page(30, min(offset, 30), min(offset+limit, 30))
		for n := 10; n < 18; n++ {
			body = strings.Replace(body, row(n), strings.Replace(row(n), `"duration_ms":17`, filling, 1), 1)
		}
		return respond(200, body), nil
	}}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{}))
	if err != nil || len(idsOf(t, receipts)) != 30 {
		t.Errorf("%d receipts, %d requests, %v", len(receipts), len(w.sent()), err)
	}
}

// A database that goes away while a row is looked for that the server cannot
// give costs no other row.
func TestAnOutageWhileARowIsLookedFor(t *testing.T) {
	t.Parallel()
	for when := 2; when < 24; when++ {
		synctest.Test(t, func(t *testing.T) {
			server := hermestest.New()
			defer server.Close()
			key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}, Static: true})
			for n := range 130 {
				server.Log(hermestest.AuditEntry{ID: int64(n + 1), Action: "X", CreatedAt: start.Add(-time.Duration(n) * time.Second), Damaged: n == 123})
			}
			requests := 0
			server.Before(func(*http.Request) {
				if requests++; requests == when {
					server.SetDatabaseDown(true)
					time.AfterFunc(5*time.Second, func() { server.SetDatabaseDown(false) })
				}
			})
			entries, err := collect(newClientOf(t, static(key.Secret), server.Transport()).AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "X"}))
			if !errors.Is(err, hermesx.ErrIncomplete) || len(entries) != 129 {
				t.Errorf("at request %d: %d entries, %v", when, len(entries), err)
			}
		})
	}
}
