package hermesx_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// store puts n receipts, so many of them always at the same time.
func store(server *hermestest.HermesX, n, ties int) {
	for i := range n {
		server.Store(hermestest.Receipt{ID: fmt.Sprintf("rcpt_%04d", i), SessionID: "s", ToolName: "t", Input: "{}", CreatedAt: start.Add(time.Duration(i/ties) * time.Millisecond)})
	}
}

// idsOf gives the ids in order, and reports one that was seen twice.
func idsOf(t *testing.T, receipts []*hermesx.Receipt) (ids []string) {
	t.Helper()
	for _, r := range receipts {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	if n := len(ids); len(slices.Compact(ids)) != n {
		t.Errorf("%d receipts, %d of them different", n, len(slices.Compact(ids)))
	}
	return ids
}

// Ties change places from request to request, so that pages of 7 lose some of
// ten: all are seen, and each once.
func TestAllReceiptsSeesEveryTie(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		server, client := newServer(t)
		store(server, 130, 10)
		receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 7}))
		if err != nil {
			t.Fatal(err)
		}
		if ids := idsOf(t, receipts); len(ids) != 130 {
			t.Errorf("round %d: %d receipts", round, len(ids))
		}
		if n := len(server.Requests()); n > 19+9+5+1 {
			t.Errorf("round %d: %d requests", round, n)
		}
	}
}

// Where nothing moves, nothing is read twice but the two rows that pages overlap
// by.
func TestAllReceiptsReadsOnce(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	store(server, 130, 1)
	// Each page but the first begins two rows before those that are new.
	for limit, want := range map[int]int{7: 26, 65: 3, 131: 1, 0: 1, 5000: 1} {
		before := len(server.Requests())
		receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{SessionID: "s", Limit: limit}))
		if ids := idsOf(t, receipts); err != nil || len(ids) != 130 {
			t.Errorf("pages of %d: %d receipts, %v", limit, len(ids), err)
		}
		if !slices.IsSortedFunc(receipts, func(a, b *hermesx.Receipt) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
			t.Errorf("pages of %d: not the newest first", limit)
		}
		if n := len(server.Requests()) - before; n != want {
			t.Errorf("pages of %d: %d requests, want %d", limit, n, want)
		}
	}
	if got := server.Requests()[0]; !strings.Contains(got, "session_id=s") {
		t.Errorf("%s", got)
	}
	empty, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{SessionID: "none"}))
	if err != nil || len(empty) != 0 {
		t.Errorf("%d receipts, %v", len(empty), err)
	}
}

// Receipts that are stored while the list is read push others to later pages:
// none that was there at the start is lost, however fast they come and at
// whatever time they say that they were stored.
func TestAllReceiptsWhileRowsArrive(t *testing.T) {
	t.Parallel()
	later := func(n int) time.Time { return start.Add(time.Hour + time.Duration(n)*time.Millisecond) }
	for name, arrival := range map[string]struct {
		each int
		at   func(n int) time.Time
	}{
		"one with each request":          {1, later},
		"as many as a page":              {7, later},
		"more than a page":               {9, later},
		"at the time of the newest ones": {1, func(int) time.Time { return start.Add(12 * time.Millisecond) }},
		"in the midst of the others":     {1, func(int) time.Time { return start.Add(6 * time.Millisecond) }},
		"older than all":                 {2, func(int) time.Time { return start.Add(-time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := newServer(t)
			store(server, 130, 10)
			arrived := 0
			server.Before(func(*http.Request) {
				for range arrival.each {
					server.Store(hermestest.Receipt{ID: fmt.Sprint("new_", arrived), CreatedAt: arrival.at(arrived)})
					arrived++
				}
			})
			receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 7}))
			if err != nil {
				t.Error(err)
			}
			old := slices.DeleteFunc(idsOf(t, receipts), func(id string) bool { return strings.HasPrefix(id, "new_") })
			if len(old) != 130 {
				t.Errorf("%d of 130 were seen", len(old))
			}
			if n := len(server.Requests()); n > 150 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A list that grows faster than its pages hold is read with larger ones. What was
// there at the start is seen, and each once.
func TestAllReceiptsOfAListThatRunsAway(t *testing.T) {
	t.Parallel()
	for _, each := range []int{30, 80, 800} {
		const there = 20
		w := &wire{}
		w.answer = func(r *http.Request) (*http.Response, error) {
			arrived := each * len(w.sent())
			limit, offset := asked(r)
			var rows []string
			for n := offset - arrived; n < min(there, offset-arrived+limit); n++ {
				rows = append(rows, row(n))
			}
			return respond(200, fmt.Sprintf(`{"execution_receipts":[%s],"total":%d}`, strings.Join(rows, ","), there+arrived)), nil
		}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 20}))
		if err != nil {
			t.Errorf("%d with each request: %v", each, err)
		}
		ids := idsOf(t, receipts)
		for i := range there {
			if !slices.Contains(ids, fmt.Sprint("rcpt_", i)) {
				t.Errorf("%d with each request: rcpt_%d was not seen", each, i)
			}
		}
		if n := len(w.sent()); n > 20 {
			t.Errorf("%d with each request: %d requests", each, n)
		}
	}
}

// No number that a server gives as its count breaks the reading.
func TestAllReceiptsOfAnAbsurdCount(t *testing.T) {
	t.Parallel()
	for _, total := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt / 2, math.MaxInt32} {
		w := &wire{answer: func(r *http.Request) (*http.Response, error) {
			limit, offset := asked(r)
			return respond(200, page(total, min(offset, 9), min(offset+limit, 9))), nil
		}}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
		if !errors.Is(err, hermesx.ErrIncomplete) || len(idsOf(t, receipts)) != 9 || len(w.sent()) > 20 {
			t.Errorf("%d: %d receipts, %d requests, %v", total, len(receipts), len(w.sent()), err)
		}
	}
}

// A count that is lower than what there is ends nothing: the list is read on to
// where nothing new comes.
func TestAllReceiptsOfACountThatIsTooLow(t *testing.T) {
	t.Parallel()
	for _, total := range []int{0, 1, 3, 10, 24} {
		for name, most := range map[string]int{"a server that gives what is asked for": 5000, "a server that gives ten": 10} {
			for _, limit := range []int{0, 5, 10, 25, 26} {
				w := &wire{answer: func(r *http.Request) (*http.Response, error) {
					limit, offset := asked(r)
					return respond(200, page(total, min(offset, 25), min(offset+min(limit, most), 25))), nil
				}}
				receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: limit}))
				// One that gives ten of what it counts as ten ends there.
				want := 25
				if total == 10 && most == 10 && (limit == 0 || limit > 10) {
					want = 10
				}
				if err != nil || len(idsOf(t, receipts)) != want || len(w.sent()) > 14 {
					t.Errorf("%s, pages of %d, a count of %d: %d receipts, %d requests, %v", name, limit, total, len(receipts), len(w.sent()), err)
				}
			}
		}
	}
}

// A list that has no end is not read for ever, and can be gone on with.
func TestAllReceiptsOfAListWithoutAnEnd(t *testing.T) {
	t.Parallel()
	w := &wire{answer: func(r *http.Request) (*http.Response, error) {
		limit, offset := asked(r)
		return respond(200, page(3, offset, offset+limit)), nil
	}}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{}))
	if failure := failureOf(t, err); !errors.Is(err, hermesx.ErrIncomplete) || len(idsOf(t, receipts)) > 20_000 || failure.Cursor == "" {
		t.Errorf("%d receipts, %v", len(receipts), err)
	}
}

// One receipt that is stored meanwhile costs nothing: it is newer than the
// reading.
func TestAllReceiptsIsOfItsBeginning(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	store(server, 130, 1)
	requests := 0
	server.Before(func(*http.Request) {
		if requests++; requests == 3 {
			server.Store(hermestest.Receipt{ID: "new"})
		}
	})
	receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 7}))
	if ids := idsOf(t, receipts); err != nil || len(ids) != 130 || slices.Contains(ids, "new") || requests != 26 {
		t.Errorf("%d receipts, %d requests, %v", len(receipts), requests, err)
	}
}

// Rows that go away while the list is read are no error: neither at its end,
// where an archive takes them, nor ahead of what is being read, where the rest
// moves up.
func TestAllReceiptsOfAListThatShrinks(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(n int) bool{
		"the oldest":        func(n int) bool { return n < 50 },
		"the newest":        func(n int) bool { return n >= 100 },
		"all but the first": func(n int) bool { return n < 129 },
		"every third":       func(n int) bool { return n%3 == 0 },
		"all":               func(int) bool { return true },
	} {
		for when := 2; when < 8; when++ {
			server, client := newServer(t)
			store(server, 130, 1)
			requests := 0
			server.Before(func(*http.Request) {
				if requests++; requests == when {
					server.RemoveRows(func(r hermestest.Receipt) bool {
						n, err := strconv.Atoi(strings.TrimPrefix(r.ID, "rcpt_"))
						return err == nil && gone(n)
					}, nil)
				}
			})
			receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 20}))
			ids := idsOf(t, receipts)
			for n := range 130 {
				if id := fmt.Sprintf("rcpt_%04d", n); !gone(n) && !slices.Contains(ids, id) {
					t.Errorf("%s, before request %d: %s was not seen", name, when, id)
				}
			}
			if err != nil || requests > 20 {
				t.Errorf("%s, before request %d: %d requests, %v", name, when, requests, err)
			}
		}
	}
}

// A sequence may be ranged over more than once, and by several at once: each
// time it starts over, from what there is then.
func TestSequencesStartOver(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	store(server, 20, 1)
	receipts := client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 7})
	entries := client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "POST /v1/agent/chat", Limit: 7})
	for round := range 3 {
		server.Chat(hermestest.Chat{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				if all, err := collect(receipts); err != nil || len(all) != 20 {
					t.Errorf("%d receipts, %v", len(all), err)
				}
				if all, err := collect(entries); err != nil || len(all) != round+1 {
					t.Errorf("%d entries, %v", len(all), err)
				}
			})
		}
		readers.Wait()
	}
}

// row gives the JSON of the receipt that comes behind n newer ones.
func row(n int) string {
	return fmt.Sprintf(`{"id":"rcpt_%d","tenant_id":"t","session_id":"s","user_id":"u","tool_name":"read_file","input":"{}","output":"","status":"success","duration_ms":17,"created_at":"%s"}`,
		n, start.Add(-time.Duration(n)*time.Second).Format(time.RFC3339))
}

// page answers as a server that counts total and gives the rows from..to.
func page(total, from, to int) string {
	var rows []string
	for n := from; n < to; n++ {
		rows = append(rows, row(n))
	}
	if rows == nil {
		return fmt.Sprintf(`{"execution_receipts":null,"total":%d}`, total)
	}
	return fmt.Sprintf(`{"execution_receipts":[%s],"total":%d}`, strings.Join(rows, ","), total)
}

func asked(r *http.Request) (limit, offset int) {
	limit, _ = strconv.Atoi(r.URL.Query().Get("limit"))
	offset, _ = strconv.Atoi(r.URL.Query().Get("offset"))
	return limit, offset
}

// Rows that the server counts and never gives end the sequence with
// ErrIncomplete, after what it gives, and after a few requests.
func TestAllReceiptsIncomplete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ total, there, requests int }{
		"one row is never shown":   {130, 129, 29},
		"most are never shown":     {130, 1, 6},
		"none is ever shown":       {130, 0, 3},
		"more than one page holds": {20000, 5, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &wire{}
			w.answer = func(r *http.Request) (*http.Response, error) {
				limit, offset := asked(r)
				return respond(200, page(test.total, min(offset, test.there), min(offset+limit, test.there)), "X-Request-Id", fmt.Sprint("r", len(w.sent()))), nil
			}
			receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 7}))
			failure := failureOf(t, err)
			if !errors.Is(err, hermesx.ErrIncomplete) || failure.Code != feedback.CodeAgentInvalidResponse || failure.Retryable || failure.StatusCode != 200 || failure.RequestID != fmt.Sprint("r", test.requests) ||
				failure.Dispatch != feedback.DispatchAttempted {
				t.Errorf("%+v", failure)
			}
			if ids := idsOf(t, receipts); len(ids) != test.there {
				t.Errorf("%d receipts", len(ids))
			}
			if n := len(w.sent()); n != test.requests {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A page that contradicts itself is no part of a list.
func TestAllReceiptsOfPagesThatContradictThemselves(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]string{"a row twice": row(1) + "," + row(2) + "," + row(1), "the oldest first": row(2) + "," + row(1), "the same row twice": row(1) + "," + row(1)} {
		w := &wire{answer: always(200, `{"execution_receipts":[`+rows+`],"total":3}`)}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{}))
		if !errors.Is(err, hermesx.ErrIncomplete) || len(receipts) != 0 || len(w.sent()) != 1 {
			t.Errorf("%s: %d receipts, %d requests, %v", name, len(receipts), len(w.sent()), err)
		}
	}
}

// A server that repeats its first page for ever is not read for ever.
func TestAllReceiptsOfAServerThatRepeatsItself(t *testing.T) {
	t.Parallel()
	same := strings.ReplaceAll(page(1_000_000_000, 0, 3), ":59Z", ":58Z") // two of the same time
	for _, body := range []string{page(1_000_000_000, 0, 3), same, strings.ReplaceAll(page(1_000_000_000, 0, 3), row(0), strings.Replace(row(0), "08:00:00Z", "07:59:58Z", 1))} {
		w := &wire{answer: always(200, body)}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
		if !errors.Is(err, hermesx.ErrIncomplete) || len(idsOf(t, receipts)) > 3 || len(w.sent()) > 60 {
			t.Errorf("%d receipts, %d requests, %v", len(receipts), len(w.sent()), err)
		}
	}
}

// A server that gives fewer rows than asked for is read on where it stopped.
func TestAllReceiptsOfAServerWithSmallPages(t *testing.T) {
	t.Parallel()
	w := &wire{answer: func(r *http.Request) (*http.Response, error) {
		_, offset := asked(r)
		return respond(200, page(10, min(offset, 10), min(offset+3, 10))), nil
	}}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{}))
	if err != nil || len(idsOf(t, receipts)) != 10 || len(w.sent()) != 8 {
		t.Errorf("%d receipts, %d requests, %v", len(receipts), len(w.sent()), err)
	}
}

// A page that is too long for one answer is asked for in halves.
func TestAllReceiptsHalvesWhatIsTooLong(t *testing.T) {
	t.Parallel()
	const total, most = 130, 40
	endless := func(*http.Request) (*http.Response, error) {
		r := respond(200, "")
		r.Body = endlessBody{}
		return r, nil
	}
	w := &wire{answer: func(r *http.Request) (*http.Response, error) {
		limit, offset := asked(r)
		if to := min(offset+limit, total); to-offset <= most {
			return respond(200, page(total, offset, to)), nil
		}
		return endless(r)
	}}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{}))
	if err != nil || len(idsOf(t, receipts)) != total {
		t.Errorf("%d receipts, %v", len(receipts), err)
	}
	if n := len(w.sent()); n != 3+5 { // 250, 125, 62, then five of 31, which overlap by two
		t.Errorf("%d requests", n)
	}
	alone := &wire{answer: endless}
	if _, err := collect(newClient(t, alone).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 4})); failureOf(t, err).Code != feedback.CodeAgentInvalidResponse || errors.Is(err, hermesx.ErrIncomplete) || len(alone.sent()) != 3 {
		t.Errorf("%d requests, %v", len(alone.sent()), err)
	}
}

// Whoever stops ranging stops the reading; ranging again starts over.
func TestAllReceiptsCanBeStopped(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	store(server, 20, 1)
	all := client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 5})
	for range 2 {
		before, n := len(server.Requests()), 0
		for range all {
			if n++; n == 7 {
				break
			}
		}
		if got := len(server.Requests()) - before; got != 2 {
			t.Errorf("%d requests for 7 receipts", got)
		}
	}
	if receipts, err := collect(all); err != nil || len(receipts) != 20 {
		t.Errorf("%d receipts, %v", len(receipts), err)
	}
}

// Each page that is read adds an entry to the log. The list is held still: what
// was there comes out, each once, and nothing of the reading itself.
func TestAllAuditLogs(t *testing.T) {
	t.Parallel()
	for _, ties := range []int{1, 10, 60} {
		for _, limit := range []int{0, 7, 59, 60, 100} {
			server, client := newServer(t, hermestest.WithClock(func() time.Time { return start.Add(time.Hour) }))
			for i := range 60 {
				server.Log(hermestest.AuditEntry{Action: "POST /v1/agent/chat", CreatedAt: start.Add(time.Duration(i/ties) * time.Microsecond)})
			}
			entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Limit: limit}))
			seen := map[int64]bool{}
			for _, entry := range entries {
				seen[entry.ID] = true
				if entry.Action != "POST /v1/agent/chat" {
					t.Errorf("the reading itself: %+v", entry)
				}
			}
			if err != nil || len(entries) != 60 || len(seen) != 60 {
				t.Errorf("ties of %d, pages of %d: %d entries, %d of them different, %v", ties, limit, len(entries), len(seen), err)
			}
			if ties == 1 && len(server.Requests()) > 12 {
				t.Errorf("pages of %d: %d requests", limit, len(server.Requests()))
			}
		}
	}
}

// The window of the query holds besides, and stands in every request.
func TestAllAuditLogsOfAWindow(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	for i := range 60 {
		server.Log(hermestest.AuditEntry{Action: "GET /v1/me", CreatedAt: start.Add(time.Duration(i) * time.Second)})
	}
	entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "GET /v1/me", From: start.Add(10 * time.Second), To: start.Add(40 * time.Second), Limit: 7}))
	if err != nil || len(entries) != 30 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	// Each page but the first ends just after the last entry of the one before;
	// the last request looks for the reading itself.
	times := []string{"40Z", "33.000001Z", "27.000001Z", "21.000001Z", "15.000001Z"}
	requests := server.Requests()
	if len(requests) != len(times)+1 {
		t.Fatalf("%v", requests)
	}
	for i, to := range times {
		if want := "GET /v1/audit-logs?action=GET+%2Fv1%2Fme&from=2026-11-30T08%3A00%3A10Z&limit=7&to=2026-11-30T08%3A00%3A" + to; requests[i] != want {
			t.Errorf("request %d: %s, want %s", i, requests[i], want)
		}
	}
	if want := "GET /v1/audit-logs?action=GET+%2Fv1%2Faudit-logs&limit=100"; requests[len(times)] != want {
		t.Errorf("%s", requests[len(times)])
	}
	none, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "NOPE"}))
	if err != nil || len(none) != 0 {
		t.Errorf("%d entries, %v", len(none), err)
	}
}
