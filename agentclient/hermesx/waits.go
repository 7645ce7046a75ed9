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
	// rateWindow is the window of a server's rate limit. A server that has refused a request
	// because of the limit asks the client to wait for this long.
	rateWindow = time.Minute
	// mostRateWaits is how often in a row a list waits for the rate limit. One wait may not be
	// enough, because others may use up the next window.
	mostRateWaits = 10
	// mostOutageWaits is how often in a row a list waits for a server that cannot answer. The
	// first wait is a second, and each one is twice as long as the one before: half a minute
	// in all, as long as the restart of a server or its database takes.
	mostOutageWaits = 5
	firstOutageWait = time.Second
)

// waits sends the requests of one list, and waits between them: so that they do not use up the rate
// limit, which all keys of the tenant share with the agents, and so that they outlast short outages.
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

// answered records a good answer and its rate limit.
func (w *waits) answered(got reply) {
	w.answers++
	w.failures = 0
	if got.RateLimit.Limit != w.limit.Limit || got.RateLimit.Remaining > w.limit.Remaining {
		w.window = time.Now()
	}
	w.limit = got.RateLimit
}

// pause gives how long to wait before a request. The first half of the requests that the rate limit
// allows are sent at once. The other half are spread over the rest of the window, so that the list
// never reaches the limit and leaves requests for others.
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
	w.limit = boundary.RateLimit{} // unknown until the next answer
	return w.wait(wait, rateLimited)
}

// ends reports whether a wait would end before the deadline of the caller.
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
