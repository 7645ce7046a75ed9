package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// judge judges one answer of a call as it comes.
func (s *soak) judge(c *call, q *question, observed *receipt.Receipt, err error) {
	end := s.clock.now()
	switch {
	case (observed == nil) == (err == nil):
		s.breaks(answerIsOnce, "a %s call gave a receipt: %t, an error: %t", c.kind, observed != nil, err != nil)
	case err == nil:
		s.tally.answer(c.kind, "receipt")
		s.judgeReceipt(c, q, observed, end)
	default:
		s.tally.answer(c.kind, codeOf(err))
		s.judgeError(c, q, err, end)
	}
}

// judgeReceipt compares a receipt with what the Hub had, and what the
// connection was bound to before and after the Hub looked.
func (s *soak) judgeReceipt(c *call, q *question, observed *receipt.Receipt, end time.Time) {
	about := fmt.Sprintf("a %s call through %s about %s, original session %s, %v long", c.kind, q.connection, q.original.InvocationID, q.session(), end.Sub(c.start))
	// The Hub writes milliseconds and cuts off the rest.
	first, last := observed.ObservedAt, observed.ObservedAt.Add(time.Millisecond)
	switch {
	case q.crossed || q.operation == nil:
		s.breaks(bindingIsKept, "%s was answered, though the operation is not of that session:\n%s", about, text(observed))
		return
	case last.Before(c.start) || first.After(end):
		s.breaks(receiptIsTrue, "%s gave a receipt of another time: observed %v after the call began", about, first.Sub(c.start))
	}
	had := q.operation.life.between(latest(first, c.start), earliest(last, end))
	same := func(r *receipt.Receipt) bool {
		if r == nil {
			return false
		}
		got := *observed
		got.ObservedAt = time.Time{}
		return reflect.DeepEqual(got, *r)
	}
	if !slices.ContainsFunc(had, same) {
		account := fmt.Sprintf("%s gave\n  %s\nand then the Hub had", about, text(observed))
		for _, r := range had {
			account += "\n  " + text(r)
		}
		s.breaks(receiptIsTrue, "%s", account)
	}
	if before := q.connection.bound.between(c.start, last); !slices.Contains(before, q.session()) {
		s.breaks(bindingIsKept, "%s was answered; until the Hub looked the connection was bound to %v", about, before)
	}
	if after := q.connection.bound.between(first, end); !slices.Contains(after, q.session()) {
		s.breaks(bindingIsKept, "%s was answered; since the Hub looked the connection was bound to %v", about, after)
	}
	if checked := c.lastCheck(q.original.ConnectionKey); checked.Before(first) {
		s.breaks(requestIsChecked, "%s was answered; the binding was last checked %v before the Hub looked", about, first.Sub(checked))
	}
}

// judgeError looks for the reason of an error, and for secrets in it.
func (s *soak) judgeError(c *call, q *question, err error, end time.Time) {
	about := fmt.Sprintf("a %s call through %s about %s, original session %s, %v long, failed: %v",
		c.kind, q.connection, q.original.InvocationID, q.session(), end.Sub(c.start), err)
	if secret := secretIn(err); secret {
		s.breaks(errorIsKnown, "a token is in an error of a %s call through %s (which is not shown here)", c.kind, q.connection)
		return
	}
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		s.breaks(errorIsKnown, "%s (a %T)", about, err)
		return
	}
	account := failure.Feedback
	if account.Operation != feedback.OperationInspect || account.Category == "" || account.Message == "" ||
		account.InvocationID != q.original.InvocationID || account.Disposition != "" {
		s.breaks(errorIsKnown, "%s: its account is %+v", about, account)
	}
	if bound := q.connection.bound.between(c.start, end); account.Dispatch == feedback.DispatchAttempted && !slices.Contains(bound, q.session()) {
		s.breaks(bindingIsKept, "%s: a request left, though the connection was bound to %v", about, bound)
	}
	if why := s.unreasonable(c, q, failure, end); why != "" {
		s.breaks(errorIsKnown, "%s (status %d): %s", about, failure.StatusCode, why)
	}
}

// unreasonable says why nothing that happened explains this failure; "" where
// something does.
func (s *soak) unreasonable(c *call, q *question, failure *feedback.Error, end time.Time) string {
	bound := q.connection.bound.between(c.start, end)
	wasBoundOtherwise := slices.ContainsFunc(bound, func(session string) bool { return session != q.session() })
	l := s.tokens.login(q.session())
	troubled := l == nil || l.troubled(c.start, end) || slices.Contains(bound, "")
	// What plain HTTP garbles can come out as any refusal of an HTTP server.
	garbled := !q.connection.hub.tls

	reasonable := map[feedback.Code]bool{
		feedback.CodeAgentTransportUnavailable:     true,
		feedback.CodeAgentRequestTimeout:           s.isLate(c, l, end),
		feedback.CodeAgentRequestCancelled:         c.ctx.Err() == context.Canceled,
		feedback.CodeAgentBindingChanged:           wasBoundOtherwise,
		feedback.CodeAgentAuthorizationUnavailable: troubled || garbled,
		feedback.CodeInvocationNotFound:            q.crossed || q.operation == nil || slices.Contains(q.operation.life.between(c.start, end), nil),
		feedback.CodeAgentSchemaUnsupported:        garbled,
		feedback.CodeAgentInvalidResponse:          garbled,
		feedback.CodeUnknownFailure:                garbled && failure.StatusCode != 0 || errors.Is(failure, host.ErrSessionUnsaved) || s.outages.troubled(c.start.Add(-time.Second), end),
	}
	if ok, known := reasonable[failure.Feedback.Code]; !known {
		return "nothing in this run gives that code"
	} else if !ok {
		return fmt.Sprintf("the connection was bound to %v, the session had trouble: %t, the call's own limit was %v", bound, troubled, c.limit)
	}
	return ""
}

// isLate reports whether a limit of the call, or of a refresh that it waited
// for, can have passed.
func (s *soak) isLate(c *call, l *login, end time.Time) bool {
	if end.Sub(c.start) >= inspectionLimit || c.ctx.Err() == context.DeadlineExceeded {
		return true
	}
	return l != nil && l.longestRefresh(c.start, end) >= inspectionLimit-100*time.Millisecond
}

// secretIn reports whether any token shows in an error, however it is printed.
func secretIn(err error) bool {
	asJSON, _ := json.Marshal(err)
	shown := fmt.Sprintf("%v\n%+v\n%#v\n%s\n%q\n%s", err, err, err, err, err, asJSON)
	if hasToken(shown) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return e.Unwrap() != nil && secretIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return err != nil && secretIn(err) })
	}
	return false
}

// hasToken finds what every token of hubtest begins with.
func hasToken(text string) bool {
	return strings.Contains(text, "synthetic-access-") || strings.Contains(text, "synthetic-refresh-")
}

// logSink is where the log of the SDK goes.
type logSink struct{ soak *soak }

func (w logSink) Write(p []byte) (int, error) {
	if hasToken(string(p)) {
		w.soak.breaks(errorIsKnown, "a token is in a log record")
	}
	var record struct {
		Msg     string
		Key     string `json:"connection_key"`
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal(p, &record); err == nil && record.Msg == "renewed session given up" {
		w.soak.judgeGivenUp(record.Key, record.Session)
	}
	return len(p), nil
}

// judgeGivenUp looks for the newer login or the removal for which a rotation was
// given up.
func (s *soak) judgeGivenUp(key, session string) {
	now := s.clock.now()
	for _, h := range s.hubs {
		for _, c := range h.connections {
			if c.key != key {
				continue
			}
			if bound := c.bound.between(now.Add(-keepHistory), now); !slices.ContainsFunc(bound, func(b string) bool { return b != session }) {
				s.breaks(sessionIsKept, "a rotation of session %s of %s was given up, and the connection was bound to nothing else in the last minute", session, c)
			}
		}
	}
}

// text shows a receipt, cut where its text is long.
func text(r *receipt.Receipt) string {
	if r == nil {
		return "nothing"
	}
	shown := *r
	if r.Result != nil {
		result := *r.Result
		if len(result.Text) > 120 {
			result.Text = fmt.Sprintf("%.100q and so on, %d bytes", result.Text, len(result.Text))
		}
		shown.Result = &result
	}
	type plain receipt.Receipt // as it stands, valid or not
	b, err := json.Marshal(plain(shown))
	if err != nil {
		return fmt.Sprintf("%+v", shown)
	}
	return string(b)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
