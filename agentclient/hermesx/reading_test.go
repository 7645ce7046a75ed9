package hermesx_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
)

// One pair of equal times across a page end, deep in a list that does not
// change, and long runs of them: no reading is incomplete.
func TestStillListsAreReadWhole(t *testing.T) {
	t.Parallel()
	for _, deep := range []int{99, 100, 299, 499, 999} {
		server, client := newServer(t)
		for n := 1199; n >= 0; n-- {
			at := start.Add(-time.Duration(n) * time.Second)
			if n == deep+1 {
				at = at.Add(time.Second)
			}
			server.Store(hermestest.Receipt{ID: fmt.Sprint("rcpt_", n), CreatedAt: at})
			server.Log(hermestest.AuditEntry{ID: int64(n + 1), Action: "POST /v1/agent/chat", CreatedAt: at})
		}
		for round := range 4 {
			receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 100}))
			if ids := idsOf(t, receipts); err != nil || len(ids) != 1200 {
				t.Errorf("a pair behind %d rows, round %d: %d receipts, %v", deep, round, len(ids), err)
			}
			entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "POST /v1/agent/chat"}))
			if err != nil || len(entries) != 1200 {
				t.Errorf("a pair behind %d rows, round %d: %d entries, %v", deep, round, len(entries), err)
			}
		}
	}
}

func TestALongListOfTiesIsReadWhole(t *testing.T) {
	t.Parallel()
	server, client := newServer(t)
	const total = 10_000
	store(server, total, 10)
	for _, limit := range []int{0, 250, 5000} {
		before := len(server.Requests())
		receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: limit}))
		if ids := idsOf(t, receipts); err != nil || len(ids) != total {
			t.Errorf("pages of %d: %d receipts, %v", limit, len(ids), err)
		}
		if n := len(server.Requests()) - before; limit == 0 && n > 7 {
			t.Errorf("%d requests by default", n)
		}
	}
}

// A tie changes places over a page border while a row is stored between the
// server's count and its select: the row that was pushed out of sight is seen.
func TestAGapIsNotPassedOffAsTheWhole(t *testing.T) {
	t.Parallel()
	for round := range 40 {
		server, client := newServer(t)
		for n := range 600 {
			at := start.Add(-time.Duration(n) * time.Second)
			if n%250 == 0 && n > 0 {
				at = at.Add(time.Second) // the first row of a page and the last of the one before
			}
			server.Store(hermestest.Receipt{ID: fmt.Sprintf("r%04d", n), SessionID: "s", CreatedAt: at})
			server.Log(hermestest.AuditEntry{ID: int64(n + 1), Action: "POST /v1/agent/chat", RequestID: fmt.Sprint("chat-", n), CreatedAt: at})
		}
		requests := 0
		server.BetweenStatements(func(*http.Request) {
			if requests++; requests == 1+round%6 {
				server.Store(hermestest.Receipt{SessionID: "s"})
				server.Log(hermestest.AuditEntry{Action: "POST /v1/agent/chat"})
			}
		})
		receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{SessionID: "s", Limit: 250}))
		ids := slices.DeleteFunc(idsOf(t, receipts), func(id string) bool { return id[0] != 'r' })
		if err != nil || len(ids) != 600 {
			t.Errorf("round %d: %d receipts, %v", round, len(ids), err)
		}
		requests = 0
		trail, err := client.Correlate(t.Context(), hermesx.Correlation{RequestID: "chat-500", SessionID: "s"})
		if err != nil || trail.Request != hermesx.LinkRecorded || trail.Execution != hermesx.LinkRecorded || len(trail.Receipts) < 600 {
			t.Errorf("round %d: %+v, %v", round, shapeOf(trail).ToTools, err)
		}
	}
}

// layout is a list and what happens to it while it is read.
type layout struct {
	rows, limit  int
	ties         []int // lengths of the runs of equal times, which repeat
	arrive, gone int   // how many rows come and go with each request
	between      bool  // between the two statements, or before the request
	late         bool  // what comes is not at the front
}

// Whatever the list looks like and whatever happens to it, it is read whole, or
// it is told that it was not: what was there all the time is given, and once.
func TestRandomLayouts(t *testing.T) {
	t.Parallel()
	incomplete := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 15))
		l := layout{rows: random.IntN(700), limit: 1 + random.IntN(130), between: random.IntN(2) == 0, late: random.IntN(4) == 0}
		for range 1 + random.IntN(4) {
			l.ties = append(l.ties, 1+random.IntN([]int{1, 3, 12, 150}[random.IntN(4)]))
		}
		if seed%3 > 0 {
			l.arrive = random.IntN(1 + l.limit/2)
		}
		if seed%3 > 1 {
			l.gone = random.IntN(4)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			for _, audit := range []bool{false, true} {
				if !l.read(t, random, audit) {
					incomplete++
					if l.arrive+l.gone == 0 {
						t.Errorf("a list that does not change was not read whole: %+v", l)
					}
				}
			}
		})
	}
	if incomplete > 10 {
		t.Errorf("%d of 200 readings were incomplete", incomplete)
	}
}

// read reports whether the list was read whole.
func (l layout) read(t *testing.T, random *rand.Rand, audit bool) bool {
	server, client := newServer(t)
	at, left := start, 0
	var times []time.Time
	put := func(n int, at time.Time) {
		if audit {
			server.Log(hermestest.AuditEntry{ID: int64(n), Action: "X", CreatedAt: at})
		} else {
			server.Store(hermestest.Receipt{ID: fmt.Sprint(n), CreatedAt: at})
		}
	}
	for range l.rows {
		if left--; left < 0 {
			at, left = at.Add(-time.Millisecond), l.ties[random.IntN(len(l.ties))]-1
		}
		times = append(times, at)
	}
	for n, at := range slices.Backward(times) {
		put(n+1, at)
	}
	gone, next := map[int]bool{}, l.rows
	change := func(r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "action=GET") {
			return
		}
		for range l.arrive {
			next++
			when := start.Add(time.Hour + time.Duration(next)*time.Millisecond)
			if l.late {
				when = start.Add(-time.Duration(random.IntN(100)) * time.Millisecond)
			}
			put(next, when)
		}
		if l.gone > 0 && l.rows > 0 {
			for range l.gone {
				gone[1+random.IntN(l.rows)] = true
			}
			server.RemoveRows(
				func(r hermestest.Receipt) bool { return gone[number(r.ID)] },
				func(e hermestest.AuditEntry) bool { return e.Action == "X" && gone[int(e.ID)] })
		}
	}
	if l.between {
		server.BetweenStatements(change)
	} else {
		server.Before(change)
	}
	seen := map[int]int{}
	var err error
	if audit {
		var entries []*hermesx.AuditEntry
		entries, err = collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "X", Limit: min(l.limit, 100)}))
		for _, entry := range entries {
			seen[int(entry.ID)]++
		}
	} else {
		var receipts []*hermesx.Receipt
		receipts, err = collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: l.limit}))
		for _, receipt := range receipts {
			seen[number(receipt.ID)]++
		}
	}
	for n, times := range seen {
		if times > 1 {
			t.Errorf("%+v: row %d was given %d times", l, n, times)
		}
	}
	if err != nil {
		if !errors.Is(err, hermesx.ErrIncomplete) {
			t.Errorf("%+v: %v", l, err)
		}
		return false
	}
	for n := 1; n <= l.rows; n++ {
		if seen[n] == 0 && !gone[n] {
			t.Errorf("%+v, audit %v: row %d was not given", l, audit, n)
		}
	}
	return true
}

func number(id string) (n int) {
	_, _ = fmt.Sscan(id, &n)
	return n
}

// More rows of one time than a page can hold are counted by the places of the
// first and the last.
func TestARunThatIsLongerThanAPage(t *testing.T) {
	t.Parallel()
	for _, length := range []int{99, 100, 101, 102, 199, 250, 700} {
		for _, around := range []int{0, 1, 150} {
			server, client := newServer(t)
			for n := range length + 2*around {
				at := start
				if n < around {
					at = start.Add(time.Duration(around-n) * time.Second)
				} else if n >= around+length {
					at = start.Add(-time.Duration(n) * time.Second)
				}
				server.Log(hermestest.AuditEntry{ID: int64(n + 1), Action: "X", CreatedAt: at})
			}
			entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "X"}))
			seen := map[int64]bool{}
			for _, entry := range entries {
				seen[entry.ID] = true
			}
			if err != nil || len(entries) != length+2*around || len(seen) != len(entries) {
				t.Errorf("%d of one time between %d others: %d entries, %d of them different, %v", length, around, len(entries), len(seen), err)
			}
		}
	}
}

// So are those of a server that gives fewer rows at once than asked for.
func TestARunOfAServerWithSmallPages(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string][]int{"all": {20}, "behind others": {1, 1, 1, 20}, "before others": {20, 1, 1}, "between runs": {4, 20, 4}} {
		w := &wire{answer: func(r *http.Request) (*http.Response, error) {
			limit, offset := asked(r)
			var all []string
			n := 0
			for run, length := range rows {
				var same []string
				for range length {
					same = append(same, strings.Replace(row(run), fmt.Sprintf(`"rcpt_%d"`, run), fmt.Sprintf(`"r%d"`, n), 1))
					n++
				}
				rand.Shuffle(len(same), func(i, j int) { same[i], same[j] = same[j], same[i] })
				all = append(all, same...)
			}
			from := min(offset, len(all))
			return respond(200, fmt.Sprintf(`{"execution_receipts":[%s],"total":%d}`, strings.Join(all[from:min(from+min(limit, 3), len(all))], ","), len(all))), nil
		}}
		total := 0
		for _, length := range rows {
			total += length
		}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{}))
		if err != nil || len(idsOf(t, receipts)) != total {
			t.Errorf("%s: %d receipts, %d requests, %v", name, len(receipts), len(w.sent()), err)
		}
	}
}

// lists answers each request from the list that stands at its place, the last
// one for ever; a row is given by its id, and how many newer ones its time comes
// behind.
func lists(most int, all ...[]string) answers {
	request := 0
	return func(r *http.Request) (*http.Response, error) {
		list := all[min(request, len(all)-1)]
		request++
		limit, offset := asked(r)
		from := min(offset, len(list))
		return respond(200, fmt.Sprintf(`{"execution_receipts":[%s],"total":%d}`, strings.Join(list[from:min(from+min(limit, most), len(list))], ","), len(list))), nil
	}
}

func named(id string, n int) string {
	return strings.Replace(row(n), fmt.Sprintf(`"rcpt_%d"`, n), `"`+id+`"`, 1)
}

// A page that begins within a run of equal times does not show all of it: rows
// ahead were removed, and the others of the run have changed places.
func TestAPageThatBeginsWithinARun(t *testing.T) {
	t.Parallel()
	x, a, t1, t2, b, c := named("x", 0), named("a", 1), named("t1", 2), named("t2", 2), named("b", 3), named("c", 4)
	w := &wire{answer: lists(10, []string{x, a, t1, t2, b, c}, []string{t2, t1, b, c})}
	receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
	if ids := idsOf(t, receipts); err != nil || !slices.Equal(ids, []string{"a", "b", "c", "t1", "t2", "x"}) {
		t.Errorf("%v, %v", ids, err)
	}
}

// A row of a long run that was given and then removed is not counted for one that
// is missing.
func TestARunThatShrinks(t *testing.T) {
	t.Parallel()
	var run []string
	for n := range 6 {
		run = append(run, named(fmt.Sprint("r", n), 0))
	}
	before, after := run, run[3:]
	for when := 1; when < 5; when++ {
		var all [][]string
		for range when {
			all = append(all, before)
		}
		w := &wire{answer: lists(3, append(all, after)...)}
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 3}))
		if ids := idsOf(t, receipts); err != nil || len(ids) != 6 {
			t.Errorf("after %d requests: %v, %v", when, ids, err)
		}
	}
}
