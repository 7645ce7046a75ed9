package hermesx_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// From every page of a reading another one goes on, whatever has come in since,
// and both together give every row once.
func TestEveryCursorGoesOn(t *testing.T) {
	t.Parallel()
	for _, ties := range []int{1, 10, 60} {
		for _, arrived := range []int{0, 50, 1000} {
			server, client := newServer(t)
			store(server, 300, ties)
			for n := range 300 {
				server.Log(hermestest.AuditEntry{Action: "X", RequestID: fmt.Sprint(n), CreatedAt: start.Add(time.Duration(n/ties) * time.Millisecond)})
			}
			cursors, rows := map[string]int{}, 0
			note := hermesx.WithProgress(func(p hermesx.Progress) { cursors[p.Cursor] = rows })
			var receipts []*hermesx.Receipt
			for receipt, err := range client.AllReceipts(t.Context(), hermesx.ReceiptQuery{SessionID: "s", Limit: 40}, note) {
				if err != nil {
					t.Fatal(err)
				}
				rows++
				receipts = append(receipts, receipt)
			}
			for n := range arrived {
				server.Store(hermestest.Receipt{ID: fmt.Sprint("new", n), SessionID: "s"})
				server.Log(hermestest.AuditEntry{Action: "X"})
			}
			if len(cursors) < 3 {
				t.Fatalf("%d cursors", len(cursors))
			}
			for cursor, given := range cursors {
				before := len(server.Requests())
				rest, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{SessionID: "s", Limit: 40, Cursor: cursor}))
				ids := idsOf(t, slices.Concat(receipts[:given], rest))
				if err != nil || len(ids) != 300 || len(server.Requests())-before > 40 {
					t.Errorf("ties of %d, %d came in, after %d: %d receipts, %d requests, %v", ties, arrived, given, len(ids), len(server.Requests())-before, err)
				}
			}
			entries, rows := []*hermesx.AuditEntry{}, 0
			clear(cursors)
			query := hermesx.AuditQuery{Action: "X", To: start.Add(time.Hour), Limit: 40}
			for entry, err := range client.AllAuditLogs(t.Context(), query, hermesx.WithProgress(func(p hermesx.Progress) { cursors[p.Cursor] = rows })) {
				if err != nil {
					t.Fatal(err)
				}
				rows++
				entries = append(entries, entry)
			}
			for cursor, given := range cursors {
				query.Cursor = cursor
				rest, err := collect(client.AllAuditLogs(t.Context(), query))
				seen := map[int64]bool{}
				for _, entry := range slices.Concat(entries[:given], rest) {
					seen[entry.ID] = true
				}
				if err != nil || len(seen) != 300 || given+len(rest) != 300 {
					t.Errorf("ties of %d, %d came in, after %d: %d entries, %d different, %v", ties, arrived, given, given+len(rest), len(seen), err)
				}
			}
		}
	}
}

// A cursor is good for the list and the filters that it is of, and for no other;
// the page size may change.
func TestACursorOfAnotherReading(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	store(server, 30, 1)
	server.Log(hermestest.AuditEntry{Action: "X"})
	var receipts, entries string
	for _, err := range client.AllReceipts(t.Context(), hermesx.ReceiptQuery{SessionID: "s"}, hermesx.WithProgress(func(p hermesx.Progress) { receipts = p.Cursor })) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range client.AllAuditLogs(t.Context(), hermesx.AuditQuery{}, hermesx.WithProgress(func(p hermesx.Progress) { entries = p.Cursor })) {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := len(server.Requests())
	decoded, err := base64.RawURLEncoding.DecodeString(receipts)
	if err != nil || strings.Contains(string(decoded), "rcpt_") {
		t.Fatalf("%s, %v", decoded, err)
	}
	altered := func(old, new string) string {
		text := strings.Replace(string(decoded), old, new, 1)
		if text == string(decoded) {
			t.Fatalf("%s is not in %s", old, text)
		}
		return base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	for name, query := range map[string]hermesx.ReceiptQuery{
		"another session":    {SessionID: "t", Cursor: receipts},
		"no session":         {Cursor: receipts},
		"another filter":     {SessionID: "s", ToolName: "t", Cursor: receipts},
		"of the log":         {SessionID: "s", Cursor: entries},
		"nothing of ours":    {SessionID: "s", Cursor: "next"},
		"no base64":          {SessionID: "s", Cursor: "%%"},
		"a space behind":     {SessionID: "s", Cursor: receipts + " "},
		"cut":                {SessionID: "s", Cursor: receipts[:len(receipts)-4]},
		"too long":           {SessionID: "s", Cursor: strings.Repeat("A", 3<<20)},
		"a negative offset":  {SessionID: "s", Cursor: altered(`"offset":`, `"offset":-`)},
		"an absurd offset":   {SessionID: "s", Cursor: altered(`"offset":`, `"offset":99999999`)},
		"no time":            {SessionID: "s", Cursor: altered(`"at":"`, `"at":"x`)},
		"a member more":      {SessionID: "s", Cursor: altered(`{`, `{"more":1,`)},
		"a digest that lies": {SessionID: "s", Cursor: altered(`"given":["`, `"given":["AAAA`)},
	} {
		if _, err := collect(client.AllReceipts(t.Context(), query)); !errors.Is(err, feedback.CodeInvalidRequest) || !strings.Contains(err.Error(), "ReceiptQuery.Cursor") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, query := range map[string]hermesx.AuditQuery{
		"another window": {To: start, Cursor: entries}, "another action": {Action: "X", Cursor: entries}, "of receipts": {Cursor: receipts},
	} {
		if _, err := collect(client.AllAuditLogs(t.Context(), query)); !errors.Is(err, feedback.CodeInvalidRequest) || !strings.Contains(err.Error(), "AuditQuery.Cursor") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.Receipts(t.Context(), hermesx.ReceiptQuery{SessionID: "s", Cursor: receipts}); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("a page: %v", err)
	}
	if _, err := client.AuditLogs(t.Context(), hermesx.AuditQuery{Cursor: entries}); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("a page: %v", err)
	}
	if n := len(server.Requests()) - before; n != 0 {
		t.Errorf("%d requests", n)
	}
	if rest, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{SessionID: "s", Limit: 3, Cursor: receipts})); err != nil || len(rest) != 0 {
		t.Errorf("%d receipts behind the last, %v", len(rest), err)
	}
}

// FuzzCursor: no cursor panics or leads anywhere but behind a row, and what is
// accepted is what a reading writes.
func FuzzCursor(f *testing.F) {
	w := &wire{answer: always(200, page(3, 0, 3))}
	client := newClient(f, w)
	var cursor string
	for range client.AllReceipts(f.Context(), hermesx.ReceiptQuery{}, hermesx.WithProgress(func(p hermesx.Progress) { cursor = p.Cursor })) {
		continue
	}
	f.Add(cursor)
	if decoded, err := base64.RawURLEncoding.DecodeString(cursor); err == nil {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(decoded), "2026", "2027", 1))))
	}
	f.Add("")
	f.Add("next")
	f.Fuzz(func(t *testing.T, cursor string) {
		receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Cursor: cursor}, hermesx.WithLongestWait(0)))
		if len(receipts) > 3 {
			t.Errorf("%d receipts of 3", len(receipts))
		}
		if err != nil && !errors.Is(err, feedback.CodeInvalidRequest) && !errors.Is(err, hermesx.ErrIncomplete) {
			t.Errorf("%v", err)
		}
	})
}
