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

	"github.com/google/go-cmp/cmp"

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

// Where nothing moves, nothing is read twice.
func TestAllReceiptsReadsOnce(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	store(server, 130, 1)
	for limit, want := range map[int]int{7: 19, 65: 2, 130: 1, 0: 1, 5000: 1} {
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

// A list that grows faster than it can be read is not chased for ever: the last
// page is as large as it will be. Where that is not allowed, the end says that
// not all was seen. What was there at the start is seen either way.
func TestAllReceiptsOfAListThatRunsAway(t *testing.T) {
	t.Parallel()
	for each, complete := range map[int]bool{30: true, 80: false} {
		const there = 20
		w := &wire{}
		w.answer = func(r *http.Request) (*http.Response, error) {
			total := there + each*len(w.sent())
			limit, offset := asked(r)
			return respond(200, page(total, max(0, total-offset-limit), max(0, total-offset))), nil
		}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 20}))
		ids := idsOf(t, receipts)
		for i := range there {
			if !slices.Contains(ids, fmt.Sprint("rcpt_", i)) {
				t.Errorf("%d with each request: rcpt_%d was not seen", each, i)
			}
		}
		if (err == nil) != complete || err != nil && !errors.Is(err, hermesx.ErrIncomplete) {
			t.Errorf("%d with each request: %v", each, err)
		}
		if n := len(w.sent()); n > 300 {
			t.Errorf("%d with each request: %d requests", each, n)
		}
	}
}

// No number that a server gives as its count breaks the reading.
func TestAllReceiptsOfAnAbsurdCount(t *testing.T) {
	t.Parallel()
	for _, total := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt / 2, math.MaxInt32} {
		first := 0 // requests of the first pass
		w := &wire{answer: func(r *http.Request) (*http.Response, error) {
			limit, offset := asked(r)
			if limit == 3 {
				first++
			}
			return respond(200, page(total, min(offset, 9), min(offset+limit, 9))), nil
		}}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
		if !errors.Is(err, hermesx.ErrIncomplete) || len(idsOf(t, receipts)) != 9 || first != 4 || len(w.sent()) > 30 {
			t.Errorf("%d: %d receipts, %d requests, %d of them in the first pass, %v", total, len(receipts), len(w.sent()), first, err)
		}
	}
}

// One receipt that is stored meanwhile costs one page more.
func TestAllReceiptsCatchesUp(t *testing.T) {
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
	if ids := idsOf(t, receipts); err != nil || len(ids) != 131 || !slices.Contains(ids, "new") || requests != 19+1 {
		t.Errorf("%d receipts, %d requests, %v", len(receipts), requests, err)
	}
}

// Rows that go away while the list is read leave a gap that is not hidden by a
// smaller count.
func TestAllReceiptsOfAListThatShrinks(t *testing.T) {
	t.Parallel()
	w := &wire{}
	w.answer = func(r *http.Request) (*http.Response, error) {
		limit, offset := asked(r)
		total := 10
		if len(w.sent()) > 1 {
			total = 5
		}
		return respond(200, page(total, min(offset, total), min(offset+limit, total))), nil
	}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
	if !errors.Is(err, hermesx.ErrIncomplete) || len(idsOf(t, receipts)) != 5 {
		t.Errorf("%d receipts, %v", len(receipts), err)
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

// page answers as a server that counts total and gives the rows from..to.
func page(total, from, to int) string {
	var rows []string
	for i := from; i < to; i++ {
		rows = append(rows, with("id", fmt.Sprintf(`"rcpt_%d"`, i)))
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

// A gap that no pass closes ends the sequence with ErrIncomplete, after a
// bounded number of requests, the last of them with a page as large as the list
// and at most 5,000.
func TestAllReceiptsIncomplete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		total, there int
		limits       []int // of the first page of each pass
	}{
		"one row is never shown":   {130, 129, []int{7, 15, 30, 130}},
		"most are never shown":     {130, 1, []int{7, 15, 30, 130}},
		"none is ever shown":       {130, 0, []int{7, 15, 30, 130}},
		"more than one page holds": {20000, 5, []int{7, 15, 30, 5000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var limits []int
			w := &wire{}
			w.answer = func(r *http.Request) (*http.Response, error) {
				limit, offset := asked(r)
				if offset == 0 {
					limits = append(limits, limit)
				}
				return respond(200, page(test.total, min(offset, test.there), min(offset+limit, test.there)), "X-Request-Id", fmt.Sprint("r", len(limits))), nil
			}
			receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 7}))
			failure := failureOf(t, err)
			if !errors.Is(err, hermesx.ErrIncomplete) || failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.Feedback.Retryable || failure.StatusCode != 200 || failure.RequestID != "r4" ||
				failure.Feedback.Dispatch != feedback.DispatchAttempted {
				t.Errorf("%+v", failure)
			}
			if ids := idsOf(t, receipts); len(ids) != test.there {
				t.Errorf("%d receipts", len(ids))
			}
			if diff := cmp.Diff(test.limits, limits); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
			if n := len(w.sent()); n > 40 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A server that repeats its first page for ever is not read for ever.
func TestAllReceiptsOfAServerThatRepeatsItself(t *testing.T) {
	t.Parallel()
	w := &wire{answer: always(200, page(1_000_000_000, 0, 3))}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
	if !errors.Is(err, hermesx.ErrIncomplete) || len(idsOf(t, receipts)) != 3 || len(w.sent()) > 16 {
		t.Errorf("%d receipts, %d requests, %v", len(receipts), len(w.sent()), err)
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
	if err != nil || len(idsOf(t, receipts)) != 10 || len(w.sent()) != 4 {
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
	if n := len(w.sent()); n != 3+5 { // 250, 125, 62, then five of 31
		t.Errorf("%d requests", n)
	}
	alone := &wire{answer: endless}
	if _, err := collect(newClient(t, alone).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 4})); failureOf(t, err).Feedback.Code != feedback.CodeAgentInvalidResponse || errors.Is(err, hermesx.ErrIncomplete) || len(alone.sent()) != 3 {
		t.Errorf("%d requests, %v", len(alone.sent()), err)
	}
}

// An error ends the sequence after what was read before it.
func TestAllReceiptsEndsWithAnError(t *testing.T) {
	t.Parallel()
	w := &wire{answer: then(always(200, page(10, 0, 3)), always(429, "rate limit exceeded\n", "Retry-After", "60"))}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
	if failure := failureOf(t, err); len(receipts) != 3 || failure.Feedback.Code != feedback.CodeAgentTransportUnavailable || failure.RetryAfter != time.Minute || errors.Is(err, hermesx.ErrIncomplete) {
		t.Errorf("%d receipts, %v", len(receipts), err)
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
			if ties == 1 && len(server.Requests()) > 9 {
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
	for i, request := range server.Requests() {
		to := "to=2026-11-30T08%3A00%3A39.000001Z" // just after the newest
		if i == 0 {
			to = "to=2026-11-30T08%3A00%3A40Z"
		}
		if !strings.Contains(request, "action=GET+%2Fv1%2Fme&from=2026-11-30T08%3A00%3A10Z&limit=7") || !strings.HasSuffix(request, to) {
			t.Errorf("request %d: %s", i, request)
		}
	}
	none, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "NOPE"}))
	if err != nil || len(none) != 0 {
		t.Errorf("%d entries, %v", len(none), err)
	}
}

// The list ends after the newest entry of the first page, wherever that stands.
func TestAllAuditLogsEndsAfterTheNewest(t *testing.T) {
	t.Parallel()
	w := &wire{answer: always(200, `{"audit_logs":[`+
		`{"id":1,"tenant_id":"t","action":"a","created_at":"2026-05-24T04:00:00Z"},`+
		`{"id":2,"tenant_id":"t","action":"a","created_at":"2026-05-24T12:00:00.5+08:00"}],"limit":2,"offset":0,"total":3}`)}
	_, _ = collect(newClient(t, w).AllAuditLogs(t.Context(), hermesx.AuditQuery{Limit: 2}))
	for i, target := range w.sent() {
		if has := strings.Contains(target, "to=2026-05-24T04%3A00%3A00.500001Z"); has != (i > 0) {
			t.Errorf("request %d: %s", i, target)
		}
	}
}

func TestAllAuditLogsEndsWithAnError(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	for range 8 {
		server.Log(hermestest.AuditEntry{Action: "GET /v1/me"})
	}
	server.Log(hermestest.AuditEntry{Action: "OLD", Damaged: true, CreatedAt: start.Add(-time.Hour)})
	entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Limit: 4}))
	if failure := failureOf(t, err); len(entries) != 8 || failure.Feedback.Code != feedback.CodeAgentTransportUnavailable || failure.StatusCode != 500 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}
