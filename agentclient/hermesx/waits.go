package hermesx

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

const (
	// rateWindow is how long a server counts requests for its rate limit, and
	// what it asks to wait when they are used up.
	rateWindow = time.Minute
	// mostRateWaits is how often in a row the rate limit is waited out: others
	// may use up what it admits.
	mostRateWaits = 10
	// mostOutageWaits is how often in a row a server is waited for that cannot
	// answer, a second at first and twice as long each time: half a minute in
	// all, which restarts of a server or its database take.
	mostOutageWaits = 5
	firstOutageWait = time.Second
)

// waits is how one list is asked for patiently: without using up the rate limit,
// which all keys of the tenant share with the agents, and through short outages.
type waits struct {
	ctx      context.Context
	settings *listSettings
	report   func(wait time.Duration, rateLimited bool)

	answers  int // good ones so far
	failures int // in a row
	limit    boundary.RateLimit
	window   time.Time // when the current window of the rate limit was first seen
}

// ask asks until there is an answer that no wait makes better. Question is asked
// once where the waits of the list take the place of the client's repeats.
func (w *waits) ask(question func(once bool) (reply, error)) error {
	for {
		if pause := w.pause(); pause > 0 {
			if err := w.wait(pause, true); err != nil {
				return err
			}
		}
		got, err := question(w.answers > 0)
		if err == nil {
			w.answered(got)
			return nil
		}
		failure, ok := errors.AsType[*feedback.Error](err)
		if !ok || failure.StatusCode == http.StatusInternalServerError || failure.StatusCode == http.StatusOK {
			return err // this page is at fault, or the server: see stepOver
		}
		if err := w.after(failure); err != nil {
			return err
		}
	}
}

// answered notes a good answer.
func (w *waits) answered(got reply) {
	w.answers++
	w.failures = 0
	if got.RateLimit.Limit != w.limit.Limit || got.RateLimit.Remaining > w.limit.Remaining {
		w.window = time.Now()
	}
	w.limit = got.RateLimit
}

// pause gives how long to wait before a request. The first half of what the rate
// limit admits goes out at once, the other half is spread over what is left of
// the window, so that the limit is never met and others find room below it.
func (w *waits) pause() time.Duration {
	left := rateWindow - time.Since(w.window)
	if 2*w.limit.Remaining >= w.limit.Limit || left <= 0 {
		return 0
	}
	pause := left / time.Duration(w.limit.Remaining+1)
	if pause > w.settings.longestWait || !w.ends(pause) {
		return 0
	}
	return pause
}

// after waits for what a failure asks for; the error is that one, or that of the
// context, where there is nothing to wait for.
func (w *waits) after(failure *feedback.Error) error {
	rateLimited := failure.StatusCode == http.StatusTooManyRequests
	wait, most := failure.RetryAfter, mostOutageWaits
	switch {
	case rateLimited:
		most = mostRateWaits
		if wait == 0 {
			wait = rateWindow
		}
	case w.answers > 0 && (failure.StatusCode == http.StatusUnauthorized || failure.Category == feedback.CategoryTransportUnavailable) && w.ctx.Err() == nil:
		wait = max(wait, firstOutageWait<<w.failures)
	default:
		return failure
	}
	if w.failures >= most || wait > w.settings.longestWait || !w.ends(wait) {
		return failure
	}
	w.failures++
	w.limit = boundary.RateLimit{} // what is left is asked for anew
	return w.wait(wait, rateLimited)
}

// ends reports whether a wait ends before the deadline of the caller.
func (w *waits) ends(wait time.Duration) bool {
	deadline, ok := w.ctx.Deadline()
	return !ok || time.Until(deadline) > wait
}

func (w *waits) wait(wait time.Duration, rateLimited bool) error {
	w.report(wait, rateLimited)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.ctx.Done():
		waitedFor := "the HermesX server to answer again"
		if rateLimited {
			waitedFor = "the rate limit of the HermesX server"
		}
		ended := failures.EndedDuring(w.ctx, waitedFor)
		ended.Step, ended.Dispatched = failures.ExecutionList, true
		return failures.New(ended)
	}
}
