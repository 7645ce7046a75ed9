package agentclient_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// silent never answers.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// slowBody sends one byte a second, and its reader does not know the context.
func slowBody(*http.Request) (*http.Response, error) {
	body := &dripping{closed: make(chan struct{})}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, ContentLength: -1}, nil
}

type dripping struct {
	once   sync.Once
	closed chan struct{}
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = ' '
		return 1, nil
	case <-d.closed:
		return 0, http.ErrBodyReadAfterClose
	}
}

func (d *dripping) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// stubborn is a token source that does not know what a context is.
type stubborn struct{ release chan struct{} }

func (s stubborn) Token() (*oauth2.Token, error) {
	<-s.release
	return &oauth2.Token{AccessToken: canary}, nil
}

// Whatever an inspection waits for, it ends with its context, at once, and says
// how.
func TestContextEndsEveryWait(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	close(released)
	for name, wait := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		stuck  bool
		sent   []string
	}{
		"token source":          {good, true, []string{}},
		"silent negotiation":    {silent, false, []string{"capabilities"}},
		"slow negotiation":      {slowBody, false, []string{"capabilities"}},
		"silent receipt":        {then(silent), false, []string{"capabilities", "receipt"}},
		"slow receipt":          {then(slowBody), false, []string{"capabilities", "receipt"}},
		"wait before a repeat":  {then(status(503, "", "Retry-After", "4")), false, []string{"capabilities", "receipt"}},
		"slow error body":       {then(slow(500)), false, []string{"capabilities", "receipt"}},
		"slow unneeded body":    {then(slow(302)), false, nil},
		"slow unsupported body": {slow(404), false, nil},
	} {
		cause := errors.New("the user went away")
		for how, test := range map[string]struct {
			context func(context.Context) (context.Context, context.CancelFunc)
			opts    []agentclient.Option
			code    feedback.Code
			is      []error
			isNot   error
		}{
			"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				stop := time.AfterFunc(3*time.Second, func() { cancel(cause) })
				return ctx, func() { stop.Stop(); cancel(nil) }
			}, nil, feedback.CodeAgentRequestCancelled, []error{context.Canceled, cause}, context.DeadlineExceeded},
			"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, 3*time.Second, cause)
			}, nil, feedback.CodeAgentRequestTimeout, []error{context.DeadlineExceeded, cause}, context.Canceled},
			"time limit": {context.WithCancel, []agentclient.Option{agentclient.WithTimeout(3 * time.Second)},
				feedback.CodeAgentRequestTimeout, []error{context.DeadlineExceeded}, context.Canceled},
		} {
			if name == "wait before a repeat" && how != "cancelled" {
				continue // no such wait is begun that the time cannot fit
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := &wire{answer: wait.answer}
					source := stubborn{released}
					if wait.stuck {
						source = stubborn{make(chan struct{})}
						defer close(source.release)
					}
					client := newClientOf(t, source, w, test.opts...)
					ctx, cancel := test.context(t.Context())
					defer cancel()
					start := time.Now()
					observed, err := client.InspectInvocation(ctx, invocationID)
					if wait.sent == nil { // its status decides; the body is not waited for
						if failure := failureOf(t, err); failure.StatusCode == 0 || time.Since(start) > time.Second {
							t.Errorf("took %v: %v", time.Since(start), err)
						}
						return
					}
					if observed != nil || failureOf(t, err).Feedback.Code != test.code {
						t.Fatalf("%v, %v", observed, err)
					}
					if took := time.Since(start); took != 3*time.Second {
						t.Errorf("took %v", took)
					}
					for _, target := range test.is {
						if !errors.Is(err, target) {
							t.Errorf("%v is not found in %v", target, err)
						}
					}
					if errors.Is(err, test.isNot) {
						t.Errorf("%v is found in %v", test.isNot, err)
					}
					if diff := cmp.Diff(wait.sent, w.sent()); diff != "" {
						t.Errorf("requests (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// slow answers with a status at once and with a body that does not end.
func slow(code int) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		answer, err := slowBody(r)
		answer.StatusCode = code
		return answer, err
	}
}

// A context that has ended sends nothing.
func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	w := &wire{answer: good}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newClient(t, w).InspectInvocation(ctx, invocationID)
	failure := failureOf(t, err)
	if failure.Feedback.Code != feedback.CodeAgentRequestCancelled || failure.Feedback.Dispatch != feedback.DispatchNotDispatched || len(w.sent()) != 0 {
		t.Errorf("%v, sent %v", err, w.sent())
	}
}

// Cancelling during the negotiation prevents the request for the receipt, even
// where the negotiation comes back good.
func TestCancelDuringNegotiation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := &wire{answer: func(r *http.Request) (*http.Response, error) {
		cancel()
		return good(r)
	}}
	_, err := newClient(t, w).InspectInvocation(ctx, invocationID)
	if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentRequestCancelled || failure.Feedback.Dispatch != feedback.DispatchAttempted {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"capabilities"}, w.sent()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	paused := status(503, `{"error":"hub_paused"}`, "Retry-After", "3")
	for name, test := range map[string]struct {
		answer     func(*http.Request) (*http.Response, error)
		opts       []agentclient.Option
		limit      time.Duration
		requests   string
		code       feedback.Code
		retryAfter time.Duration
		min, max   time.Duration
	}{
		"lost once":                      {answer: then(lost, good), requests: "crr"},
		"lost twice":                     {answer: then(lost, lost, good), requests: "crrr", min: 300 * time.Millisecond, max: 900 * time.Millisecond},
		"lost for good":                  {answer: then(lost), requests: "crrr", code: feedback.CodeAgentTransportUnavailable},
		"body lost half way":             {answer: then(half(200), good), requests: "crr"},
		"error body lost half way":       {answer: then(half(404), good), requests: "crr"},
		"5xx, then good":                 {answer: then(status(500, ""), status(504, ""), good), requests: "crrr"},
		"each kind once":                 {answer: then(status(429, ""), lost, good), requests: "crrr"},
		"negotiation uses them up":       {answer: sequence(lost, lost, good, lost), requests: "cccr", code: feedback.CodeAgentTransportUnavailable},
		"negotiation uses one":           {answer: sequence(lost, good, lost, good), requests: "ccrr"},
		"paused for good":                {answer: then(paused), requests: "crrr", code: feedback.CodeHubPaused, retryAfter: 3 * time.Second, min: 6 * time.Second, max: 7 * time.Second},
		"task ledger away":               {answer: then(status(503, `{"error":"TASK_UNAVAILABLE"}`)), requests: "crrr", code: feedback.CodeTaskUnavailable},
		"none wanted":                    {answer: then(lost, good), opts: []agentclient.Option{agentclient.WithMaxRetries(0)}, requests: "cr", code: feedback.CodeAgentTransportUnavailable},
		"one wanted":                     {answer: then(lost, lost, good), opts: []agentclient.Option{agentclient.WithMaxRetries(1)}, requests: "crr", code: feedback.CodeAgentTransportUnavailable},
		"record invalid":                 {answer: then(status(503, `{"error":"invocation_record_invalid"}`)), requests: "cr", code: feedback.CodeInvocationRecordInvalid},
		"not found":                      {answer: then(status(404, `{"error":"invocation_not_found"}`)), requests: "cr", code: feedback.CodeInvocationNotFound},
		"unknown 400":                    {answer: then(status(400, "")), requests: "cr", code: feedback.CodeUnknownFailure},
		"bad receipt":                    {answer: then(status(200, "{}"), good), requests: "cr", code: feedback.CodeAgentSchemaUnsupported},
		"redirect":                       {answer: then(status(302, "")), requests: "cr", code: feedback.CodeAgentInvalidResponse},
		"refused with 401":               {answer: then(status(401, "", "Retry-After", "1")), requests: "cr", code: feedback.CodeAgentAuthorizationUnavailable, retryAfter: time.Second},
		"Retry-After of 5 s":             {answer: then(status(503, "", "Retry-After", "5"), good), requests: "crr", min: 5 * time.Second, max: 5200 * time.Millisecond},
		"Retry-After of 6 s":             {answer: then(status(503, "", "Retry-After", "6"), good), requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 6 * time.Second, max: 1},
		"Retry-After of a day":           {answer: then(status(429, "", "Retry-After", "86400"), good), requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 24 * time.Hour, max: 1},
		"Retry-After of a week":          {answer: then(status(429, "", "Retry-After", "604800"), good), requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 24 * time.Hour, max: 1},
		"Retry-After overflows":          {answer: then(status(429, "", "Retry-After", "99999999999999999999999999"), good), requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 24 * time.Hour, max: 1},
		"Retry-After overflows in ns":    {answer: then(status(429, "", "Retry-After", "9223372037"), good), requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 24 * time.Hour, max: 1},
		"Retry-After negative":           {answer: then(status(503, "", "Retry-After", "-5"), good), requests: "crr", max: 300 * time.Millisecond},
		"Retry-After is prose":           {answer: then(status(503, "", "Retry-After", "soon "+canary), good), requests: "crr", max: 300 * time.Millisecond},
		"Retry-After is a past date":     {answer: then(status(503, "", "Retry-After", "Fri, 01 Jan 1999 00:00:00 GMT"), good), requests: "crr", max: 300 * time.Millisecond},
		"Retry-After is a far date":      {answer: then(status(503, "", "Retry-After", "Fri, 01 Jan 2100 00:00:00 GMT"), good), requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 24 * time.Hour, max: 1},
		"Retry-After is a near date":     {answer: then(status(503, "", "Retry-After", "Sat, 01 Jan 2000 00:00:02 GMT"), good), requests: "crr", min: 2 * time.Second, max: 2200 * time.Millisecond},
		"the time limit cannot fit it":   {answer: then(status(503, "", "Retry-After", "4"), good), opts: []agentclient.Option{agentclient.WithTimeout(3 * time.Second)}, requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 4 * time.Second, max: 1},
		"the caller's time cannot fit":   {answer: then(status(503, "", "Retry-After", "4"), good), limit: 4 * time.Second, requests: "cr", code: feedback.CodeAgentTransportUnavailable, retryAfter: 4 * time.Second, max: 1},
		"the time cannot fit the jitter": {answer: then(lost, good), limit: 50 * time.Millisecond, requests: "cr", code: feedback.CodeAgentTransportUnavailable, max: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // its clock begins on 1 January 2000
				w := &wire{answer: test.answer}
				client := newClient(t, w, test.opts...)
				ctx := t.Context()
				if test.limit > 0 {
					limited, cancel := context.WithTimeout(ctx, test.limit)
					defer cancel()
					ctx = limited
				}
				start := time.Now()
				_, err := client.InspectInvocation(ctx, invocationID)
				took := time.Since(start)
				if test.code == "" && err != nil {
					t.Error(err)
				}
				if test.code != "" {
					failure := failureOf(t, err)
					if failure.Feedback.Code != test.code || failure.RetryAfter != test.retryAfter {
						t.Errorf("%s, retry after %v; want %s, %v", failure.Feedback.Code, failure.RetryAfter, test.code, test.retryAfter)
					}
				}
				got := ""
				for _, request := range w.sent() {
					got += request[:1]
				}
				if got != test.requests {
					t.Errorf("requests %s, want %s", got, test.requests)
				}
				if took < test.min || test.max > 0 && took > test.max {
					t.Errorf("took %v, want %v to %v", took, test.min, test.max)
				}
			})
		})
	}
}

// sequence answers all requests one after the other.
func sequence(answers ...func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		n++
		return answers[min(n, len(answers))-1](r)
	}
}

// The connections of a borrowed transport are its owner's: no failure closes
// them.
func TestFailuresLeaveIdleConnectionsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &closing{wire: wire{answer: then(status(503, ""))}}
		client := newClient(t, w)
		if _, err := client.InspectInvocation(t.Context(), invocationID); err == nil {
			t.Error("no failure")
		}
		client.CloseIdleConnections()
		if w.closed > 0 {
			t.Errorf("closed %d times", w.closed)
		}
	})
}

type closing struct {
	wire
	closed int
}

func (c *closing) CloseIdleConnections() { c.closed++ }

// A body costs at most its limit, whatever stands behind it.
func TestEndlessBodies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		most   int64
		code   feedback.Code
	}{
		{200, 1<<20 + 1<<16, feedback.CodeAgentInvalidResponse},
		{302, 1<<16 + 1, feedback.CodeAgentInvalidResponse},
		{401, 1<<16 + 1, feedback.CodeAgentAuthorizationUnavailable},
		{404, 1<<16 + 1<<12, feedback.CodeUnknownFailure},
		{101, 0, feedback.CodeAgentInvalidResponse},
	} {
		body := &endless{}
		w := &wire{answer: then(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: test.status, Header: http.Header{}, Body: body, ContentLength: 10 << 30}, nil
		})}
		_, err := newClient(t, w).InspectInvocation(t.Context(), invocationID)
		if failure := failureOf(t, err); failure.Feedback.Code != test.code || failure.StatusCode != test.status {
			t.Errorf("%d: %v", test.status, err)
		}
		if body.read > test.most || !body.closed {
			t.Errorf("%d: read %d bytes of at most %d, closed: %v", test.status, body.read, test.most, body.closed)
		}
	}
}

type endless struct {
	read   int64
	closed bool
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += int64(len(p))
	return len(p), nil
}

func (e *endless) Close() error { e.closed = true; return nil }
