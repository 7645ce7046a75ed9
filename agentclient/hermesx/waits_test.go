package hermesx_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// inBubble runs a test with a mock server whose rate limit is the usual one, and
// a client of it with an auditor's key, on a clock of its own.
func inBubble(t *testing.T, test func(t *testing.T, server *hermestest.HermesX, client *hermesx.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := hermestest.New()
		defer server.Close()
		key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
		test(t, server, newClientOf(t, static(key.Secret), server.Transport()))
	})
}

// statuses counts the answers of a server by their status.
func statuses(server *hermestest.HermesX) map[int]int {
	counts := map[int]int{}
	for _, entry := range server.AuditLog("") {
		if strings.HasPrefix(entry.Action, "GET /v1/") {
			counts[entry.StatusCode]++
		}
	}
	return counts
}

// 20,000 entries at 60 requests a minute: all are read, the limit is never met,
// and the reading is about as fast as the limit allows.
func TestALongLogBelowTheRateLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *hermestest.HermesX, client *hermesx.Client) {
		const total = 20_000
		for n := range total {
			server.Log(hermestest.AuditEntry{Action: "POST /v1/agent/chat", RequestID: fmt.Sprint("chat-", n), CreatedAt: start.Add(time.Duration(n/3) * time.Millisecond)})
		}
		begun := time.Now()
		var told []hermesx.Progress
		entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "POST /v1/agent/chat"}, hermesx.WithProgress(func(p hermesx.Progress) { told = append(told, p) })))
		seen := map[int64]bool{}
		for _, entry := range entries {
			seen[entry.ID] = true
		}
		if err != nil || len(entries) != total || len(seen) != total {
			t.Errorf("%d entries, %d of them different, %v", len(entries), len(seen), err)
		}
		took, requests := time.Since(begun), len(server.Requests())
		if counts := statuses(server); counts[429] != 0 || requests > 210 {
			t.Errorf("%d requests, answers %v", requests, counts)
		}
		if least := time.Duration(requests/60) * time.Minute; took > least+time.Minute {
			t.Errorf("%d requests took %v", requests, took)
		}
		// What is told only grows, and has the waits.
		waited := time.Duration(0)
		for i, p := range told {
			if waited += p.Wait; i > 0 && p.Rows < told[i-1].Rows || p.Wait > 0 && !p.RateLimited || p.Cursor == "" {
				t.Errorf("%+v", p)
			}
		}
		if last := told[len(told)-1]; last.Rows != total || waited < took-time.Second || waited > took {
			t.Errorf("%+v; waited %v of %v", last, waited, took)
		}
		trail, err := client.Correlate(t.Context(), hermesx.Correlation{RequestID: "chat-12000", From: start.Add(4000 * time.Millisecond)})
		if err != nil || trail.Request != hermesx.LinkRecorded {
			t.Errorf("%+v, %v", trail, err)
		}
	})
}

// Where others use up the limit, it is waited out as long as the server asks,
// also before the first answer.
func TestTheRateLimitIsWaitedOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *hermestest.HermesX, client *hermesx.Client) {
		server.SetRateLimit("", 2)
		store(server, 40, 1)
		for range 2 { // others
			if _, err := client.Receipts(t.Context(), hermesx.ReceiptQuery{Limit: 1}); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 10}))
		if ids := idsOf(t, receipts); err != nil || len(ids) != 40 {
			t.Errorf("%d receipts, %v", len(ids), err)
		}
		if took := time.Since(begun); took < 3*time.Minute || took > 4*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// What is not waited for is an error that says rate limit, how long the server
// asks to wait, and where to go on.
func TestTheRateLimitIsNotWaitedOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts     []hermesx.ListOption
		deadline time.Duration
	}{
		"nothing is waited for":           {opts: []hermesx.ListOption{hermesx.WithLongestWait(0)}},
		"less than the server asks":       {opts: []hermesx.ListOption{hermesx.WithLongestWait(5 * time.Second)}},
		"the deadline comes before":       {deadline: 30 * time.Second},
		"the deadline comes at that time": {deadline: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *hermestest.HermesX, client *hermesx.Client) {
				server.SetRateLimit("", 3)
				store(server, 40, 1)
				ctx := t.Context()
				if test.deadline > 0 {
					deadline, cancel := context.WithTimeout(ctx, test.deadline)
					defer cancel()
					ctx = deadline
				}
				begun := time.Now()
				first, err := collect(client.AllReceipts(ctx, hermesx.ReceiptQuery{Limit: 10}, test.opts...))
				failure := failureOf(t, err)
				if failure.StatusCode != 429 || failure.RetryAfter != time.Minute || failure.Cursor == "" || !strings.Contains(failure.Message, "rate limit") || errors.Is(err, hermesx.ErrIncomplete) || len(first) == 0 {
					t.Errorf("%d receipts, %+v", len(first), failure)
				}
				if took := time.Since(begun); took >= time.Minute || ctx.Err() != nil {
					t.Errorf("took %v", took)
				}
				server.SetRateLimit("", 60)
				rest, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 10, Cursor: failure.Cursor}))
				if ids := idsOf(t, slices.Concat(first, rest)); err != nil || len(ids) != 40 {
					t.Errorf("%d receipts, %v", len(ids), err)
				}
			})
		})
	}
}

// A rate limit that others keep used up ends after a bounded number of waits.
func TestTheRateLimitStaysUsedUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *hermestest.HermesX, client *hermesx.Client) {
		server.SetRateLimit("", 0)
		_, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{}))
		if failure := failureOf(t, err); failure.StatusCode != 429 || len(server.Requests()) != 11 {
			t.Errorf("%d requests, %v", len(server.Requests()), err)
		}
	})
}

// A database, or a server, that is away for a while in the middle of a list is
// waited for: 401 is not believed at once, and no row is taken for one that the
// server cannot give.
func TestOutagesAreWaitedFor(t *testing.T) {
	t.Parallel()
	for _, key := range []hermestest.Key{{Roles: []string{hermestest.RoleAuditor}}, {Roles: []string{hermestest.RoleAuditor}, Static: true}} {
		for _, outage := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 25 * time.Second, 2 * time.Minute} {
			t.Run(fmt.Sprintf("static %v, %v", key.Static, outage), func(t *testing.T) {
				t.Parallel()
				for when := 1; when <= 7; when++ {
					synctest.Test(t, func(t *testing.T) {
						server := hermestest.New()
						defer server.Close()
						client := newClientOf(t, static(server.AddKey(key).Secret), server.Transport())
						store(server, 60, 1)
						for n := range 60 {
							server.Log(hermestest.AuditEntry{Action: "X", CreatedAt: start.Add(-time.Duration(n) * time.Second)})
						}
						requests := 0
						server.Before(func(*http.Request) {
							if requests++; requests == when {
								server.SetDatabaseDown(true)
								time.AfterFunc(outage, func() { server.SetDatabaseDown(false) })
							}
						})
						short := outage < 30*time.Second
						receipts, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 10}))
						if when == 1 { // there was no good answer: it is believed
							if outage < time.Second && key.Static {
								return // the client's own repeats outlast it
							}
							if failure := failureOf(t, err); len(receipts) != 0 || failure.Cursor != "" || outage > time.Second && key.Static != (failure.StatusCode == 500) {
								t.Errorf("before the first answer: %d receipts, %v", len(receipts), err)
							}
						} else if ids := idsOf(t, receipts); (err == nil) != short || short && len(ids) != 60 {
							t.Errorf("at request %d: %d receipts, %v", when, len(ids), err)
						} else if !short && (failureOf(t, err).Cursor == "" || errors.Is(err, hermesx.ErrIncomplete)) {
							t.Errorf("at request %d: %v", when, err)
						}
						time.Sleep(3 * time.Minute)
						requests = 0
						entries, err := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{Action: "X", Limit: 10}))
						if when > 1 && short && (err != nil || len(entries) != 60) {
							t.Errorf("at request %d: %d entries, %v", when, len(entries), err)
						}
						time.Sleep(3 * time.Minute)
					})
				}
			})
		}
	}
}

// So is a connection that is lost in the middle of a list.
func TestLostConnectionsAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := &wire{}
		w.answer = func(r *http.Request) (*http.Response, error) {
			if n++; n > 1 && n < 6 {
				return lost(r)
			}
			limit, offset := asked(r)
			return respond(200, page(30, min(offset, 30), min(offset+limit, 30))), nil
		}
		var waits []hermesx.Progress
		receipts, err := collect(newClient(t, w).AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 10}, hermesx.WithProgress(func(p hermesx.Progress) {
			if p.Wait > 0 {
				waits = append(waits, p)
			}
		})))
		if err != nil || len(idsOf(t, receipts)) != 30 || len(waits) != 4 || waits[0].RateLimited || waits[3].Wait != 8*time.Second {
			t.Errorf("%d receipts, %v, waits %+v", len(receipts), err, waits)
		}
	})
}

// A key that is refused from the beginning is refused at once, and one that is
// taken away in the middle is believed to be after half a minute.
func TestARefusedKeyIsBelieved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *hermestest.HermesX, _ *hermesx.Client) {
		store(server, 30, 1)
		key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
		client := newClientOf(t, static(key.Secret), server.Transport())
		begun := time.Now()
		rows := 0
		for _, err := range client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 10}) {
			if rows++; rows == 5 {
				server.RemoveKey(key.Secret)
			}
			if err != nil {
				if failure := failureOf(t, err); failure.Code != feedback.CodeAgentAuthorizationUnavailable || failure.Cursor == "" {
					t.Errorf("%+v", failure)
				}
			}
		}
		if took := time.Since(begun); rows != 11 || took < 30*time.Second || took > 32*time.Second {
			t.Errorf("%d rows in %v", rows, took)
		}
		begun = time.Now()
		_, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{Limit: 10}))
		if failure := failureOf(t, err); failure.Code != feedback.CodeAgentAuthorizationUnavailable || time.Since(begun) != 0 {
			t.Errorf("%v, after %v", err, time.Since(begun))
		}
	})
}

// Whatever a list waits for, its caller can end it at once, and is told what was
// waited for.
func TestCancelledAtEveryWait(t *testing.T) {
	t.Parallel()
	gone := errors.New("the auditor went home")
	for name, test := range map[string]struct {
		prepare func(server *hermestest.HermesX)
		audit   bool
		says    string
	}{
		"the pause below the limit": {func(server *hermestest.HermesX) { server.SetRateLimit("", 3) }, false, "rate limit"},
		"the limit itself":          {func(server *hermestest.HermesX) { server.SetRateLimit("", 0) }, false, "rate limit"},
		"a database that is away": {func(server *hermestest.HermesX) {
			requests := 0
			server.Before(func(*http.Request) {
				if requests++; requests == 2 {
					server.SetDatabaseDown(true)
				}
			})
		}, false, "to answer again"},
		"the look for itself": {func(server *hermestest.HermesX) { server.SetRowsHidden(true) }, true, "to answer again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *hermestest.HermesX, client *hermesx.Client) {
				store(server, 40, 1)
				test.prepare(server)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var cancelled time.Time
				stop := hermesx.WithProgress(func(p hermesx.Progress) {
					if p.Wait >= time.Second && cancelled.IsZero() {
						cancelled = time.Now().Add(p.Wait / 2)
						time.AfterFunc(p.Wait/2, func() { cancel(gone) })
					}
				})
				var err error
				if test.audit {
					_, err = collect(client.AllAuditLogs(ctx, hermesx.AuditQuery{}, stop))
				} else {
					_, err = collect(client.AllReceipts(ctx, hermesx.ReceiptQuery{Limit: 5}, stop))
				}
				failure := failureOf(t, err)
				if failure.Code != feedback.CodeAgentRequestCancelled || !errors.Is(err, context.Canceled) || !errors.Is(err, gone) || !strings.Contains(failure.Message, test.says) || !time.Now().Equal(cancelled) {
					t.Errorf("%v after the end: %+v", time.Since(cancelled), failure)
				}
			})
		})
	}
}

func TestListOptions(t *testing.T) {
	t.Parallel()
	w := &wire{answer: always(200, emptyPage)}
	client := newClient(t, w)
	for _, opts := range [][]hermesx.ListOption{{nil}, {hermesx.WithLongestWait(-1)}} {
		_, receipts := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{}, opts...))
		_, entries := collect(client.AllAuditLogs(t.Context(), hermesx.AuditQuery{}, opts...))
		_, trail := client.Correlate(t.Context(), hermesx.Correlation{SessionID: "s"}, opts...)
		for _, err := range []error{receipts, entries, trail} {
			if !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("%v", err)
			}
		}
	}
	if len(w.sent()) != 0 {
		t.Errorf("sent %v", w.sent())
	}
	if _, err := collect(client.AllReceipts(t.Context(), hermesx.ReceiptQuery{}, hermesx.WithProgress(nil))); err != nil {
		t.Error(err)
	}
}
