package agentclient_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// rotating is a token source with all that a source may have. It gives its
// current token, and a new one when that was refused.
type rotating struct {
	current   atomic.Int64
	asked     atomic.Int64
	refreshes atomic.Int64
	fail      error
}

func (s *rotating) Token() (*oauth2.Token, error) {
	return nil, errors.New("Token must not be asked where there is TokenContext")
}

func (s *rotating) TokenContext(ctx context.Context) (*oauth2.Token, error) {
	s.asked.Add(1)
	return s.token(s.current.Load()), nil
}

func (s *rotating) Refresh(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error) {
	s.refreshes.Add(1)
	if s.fail != nil {
		return nil, s.fail
	}
	if refused.AccessToken == s.token(s.current.Load()).AccessToken {
		s.current.Add(1)
	}
	return s.token(s.current.Load()), nil
}

func (s *rotating) token(n int64) *oauth2.Token {
	return &oauth2.Token{AccessToken: fmt.Sprintf("%s-%d", canary, n), TokenType: "bearer"}
}

// accepting answers 401 to every token but the one with this number.
func accepting(n *atomic.Int64, next func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") != fmt.Sprintf("Bearer %s-%d", canary, n.Load()) {
			return respond(401, `{"error":"unauthorized"}`), nil
		}
		return next(r)
	}
}

func TestForcedRefresh(t *testing.T) {
	t.Parallel()
	var one, never atomic.Int64
	one.Store(1)
	never.Store(-1)
	for name, test := range map[string]struct {
		source    *rotating
		answer    func(*http.Request) (*http.Response, error)
		requests  []string
		refreshes int64
		code      feedback.Code
		status    int
	}{
		"helps at the negotiation": {&rotating{}, accepting(&one, good), []string{"capabilities", "capabilities", "receipt"}, 1, "", 0},
		"helps at the receipt":     {&rotating{}, then(accepting(&one, good)), []string{"capabilities", "receipt", "receipt"}, 1, "", 0},
		"does not help":            {&rotating{}, accepting(&never, good), []string{"capabilities", "capabilities"}, 1, feedback.CodeAgentAuthorizationUnavailable, 401},
		"once in an inspection":    {&rotating{}, sequence(status(401, ""), good, status(401, "")), []string{"capabilities", "capabilities", "receipt"}, 1, feedback.CodeAgentAuthorizationUnavailable, 401},
		"keeps the repeats":        {&rotating{}, sequence(status(401, ""), lost, lost, good), []string{"capabilities", "capabilities", "capabilities", "capabilities", "receipt"}, 1, "", 0},
		"fails":                    {&rotating{fail: errors.New(canary)}, accepting(&one, good), []string{"capabilities"}, 1, feedback.CodeAgentAuthorizationUnavailable, 0},
		"fails with feedback": {&rotating{fail: fmt.Errorf("store: %w", failures.New(failures.Failure{Event: failures.BindingChanged}))},
			accepting(&one, good), []string{"capabilities"}, 1, feedback.CodeAgentAuthorizationUnavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: test.answer}
				_, err := newClientOf(t, test.source, w).InspectInvocation(t.Context(), invocationID)
				if test.code == "" && err != nil {
					t.Error(err)
				}
				if test.code != "" {
					failure := failureOf(t, err)
					if failure.Feedback.Code != test.code || failure.StatusCode != test.status ||
						failure.Feedback.Dispatch != feedback.DispatchAttempted || failure.Feedback.InvocationID != invocationID {
						t.Errorf("%+v, status %d", failure.Feedback, failure.StatusCode)
					}
				}
				if n := test.source.refreshes.Load(); n != test.refreshes {
					t.Errorf("%d refreshes, want %d", n, test.refreshes)
				}
				if diff := cmp.Diff(test.requests, w.sent()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The token of the repeat is the one that Refresh gave; before every other
// request, repeats included, the source is asked.
func TestSourceIsAskedBeforeEveryRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &rotating{}
		w := &wire{answer: sequence(status(401, ""), lost, good, lost, good)}
		if _, err := newClientOf(t, source, w).InspectInvocation(t.Context(), invocationID); err != nil {
			t.Fatal(err)
		}
		if asked, sent := source.asked.Load(), int64(len(w.sent())); sent != 5 || asked != sent-1 {
			t.Errorf("asked %d times for %d requests", asked, sent)
		}
	})
}

func TestWithoutRefresherA401IsFinal(t *testing.T) {
	t.Parallel()
	w := &wire{answer: status(401, `{"error":"invocation_not_found"}`)}
	_, err := newClient(t, w).InspectInvocation(t.Context(), invocationID)
	if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentAuthorizationUnavailable || failure.Feedback.Origin != feedback.OriginCore || len(w.sent()) != 1 {
		t.Errorf("%+v, sent %v", failure.Feedback, w.sent())
	}
}

type sourceFunc func() (*oauth2.Token, error)

func (f sourceFunc) Token() (*oauth2.Token, error) { return f() }

func TestTokenSourceFailures(t *testing.T) {
	t.Parallel()
	refusal := func(code int, headers ...string) error {
		r := respond(code, "")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return fmt.Errorf("oauth2: %w", &oauth2.RetrieveError{Response: r, Body: []byte(canary), ErrorDescription: canary})
	}
	token := func(t oauth2.Token) sourceFunc { return func() (*oauth2.Token, error) { return &t, nil } }
	fails := func(err error) sourceFunc { return func() (*oauth2.Token, error) { return nil, err } }
	cause := &net.OpError{Op: "dial", Err: errors.New(canary)}
	for name, test := range map[string]struct {
		source     oauth2.TokenSource
		code       feedback.Code
		retryAfter time.Duration
		is         error
	}{
		"no token":             {sourceFunc(func() (*oauth2.Token, error) { return nil, nil }), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"empty token":          {token(oauth2.Token{}), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"MAC token":            {token(oauth2.Token{AccessToken: canary, TokenType: "MAC"}), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"line break in token":  {token(oauth2.Token{AccessToken: canary + "\r\nHost: elsewhere"}), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"huge token":           {token(oauth2.Token{AccessToken: strings.Repeat(canary, 1000)}), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"some error":           {fails(errors.New(canary)), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"invalid_grant":        {fails(refusal(400)), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"401":                  {fails(refusal(401)), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"redirect":             {fails(refusal(302)), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"not an answer":        {fails(&oauth2.RetrieveError{Body: []byte(canary)}), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"429":                  {fails(refusal(429, "Retry-After", "7")), feedback.CodeAgentTransportUnavailable, 7 * time.Second, nil},
		"503":                  {fails(refusal(503)), feedback.CodeAgentTransportUnavailable, 0, nil},
		"connection refused":   {fails(&url.Error{Op: "Post", URL: "https://" + canary, Err: cause}), feedback.CodeAgentTransportUnavailable, 0, nil},
		"its own time limit":   {fails(fmt.Errorf("%s: %w", canary, context.DeadlineExceeded)), feedback.CodeAgentTransportUnavailable, 0, nil},
		"its own cancellation": {fails(fmt.Errorf("%s: %w", canary, context.Canceled)), feedback.CodeAgentTransportUnavailable, 0, nil},
		"feedback of its own":  {fails(&feedback.Error{Feedback: feedback.Feedback{Code: canary, Message: canary}}), feedback.CodeAgentAuthorizationUnavailable, 0, nil},
		"feedback, not now":    {fails(failures.New(failures.Failure{Status: 503, RetryAfter: time.Second, Message: canary})), feedback.CodeAgentTransportUnavailable, time.Second, nil},
		"feedback, cancelled":  {fails(failures.New(failures.Failure{Event: failures.Cancelled, Causes: []error{context.Canceled}})), feedback.CodeAgentTransportUnavailable, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &wire{answer: good}
			_, err := newClientOf(t, test.source, w).InspectInvocation(t.Context(), invocationID)
			failure := failureOf(t, err)
			if failure.Feedback.Code != test.code || failure.RetryAfter != test.retryAfter ||
				failure.Feedback.Dispatch != feedback.DispatchNotDispatched || failure.Feedback.InvocationID != invocationID {
				t.Errorf("%+v, retry after %v", failure.Feedback, failure.RetryAfter)
			}
			for cause := range causes(err) {
				if strings.Contains(cause.Error(), canary) {
					t.Errorf("the source's text is in %T", cause)
				}
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not found", test.is)
			}
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the caller's context has not ended: %v", err)
			}
			if sent := w.sent(); len(sent) != 0 {
				t.Errorf("sent: %v", sent)
			}
		})
	}
}

// A panic of the caller's code surfaces in the caller, and in no other.
func TestPanicsSurfaceInTheirOwnCaller(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*agentclient.BailingHubAgentClient{
		"token source": newClientOf(t, sourceFunc(func() (*oauth2.Token, error) { panic("mine") }), &wire{answer: good}),
		"transport":    newClient(t, &wire{answer: func(*http.Request) (*http.Response, error) { panic("mine") }}),
		"log handler":  newClient(t, &wire{answer: good}, agentclient.WithLogger(slog.New(panicking{}))),
	} {
		func() {
			defer func() {
				if got := recover(); got != "mine" {
					t.Errorf("%s: recovered %v", name, got)
				}
			}()
			_, err := client.InspectInvocation(t.Context(), invocationID)
			t.Errorf("%s: no panic, %v", name, err)
		}()
	}
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { return true }

func (panicking) Handle(context.Context, slog.Record) error { panic("mine") }

func TestGoexitOfATokenSourceEndsItsCaller(t *testing.T) {
	t.Parallel()
	client := newClientOf(t, sourceFunc(func() (*oauth2.Token, error) { runtime.Goexit(); return nil, nil }), &wire{answer: good})
	ended := make(chan bool, 1)
	go func() {
		defer func() { ended <- true }()
		_, _ = client.InspectInvocation(context.Background(), invocationID)
		ended <- false
	}()
	if !<-ended {
		t.Error("the call returned")
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&out, nil))
		w := &wire{answer: then(status(503, `{"error":"hub_paused","message":"`+canary+`"}`), good, status(404, `{"error":"invocation_not_found","message":"`+canary+`"}`))}
		client := newClient(t, w, agentclient.WithLogger(logger))
		_, _ = client.InspectInvocation(t.Context(), invocationID)
		_, _ = client.InspectInvocation(t.Context(), invocationID)
		if strings.Contains(out.String(), canary) {
			t.Errorf("a secret or a server's text is in the log:\n%s", out.String())
		}
		var got []map[string]any
		for line := range strings.Lines(out.String()) {
			var record map[string]any
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			for _, varies := range []string{"time", "duration", "wait"} {
				delete(record, varies)
			}
			got = append(got, record)
		}
		want := []map[string]any{
			{"level": "INFO", "msg": "inspection repeats a request", "invocation_id": invocationID, "code": "hub_paused", "status": 503.0},
			{"level": "INFO", "msg": "inspection answered", "invocation_id": invocationID, "code": "", "status": 200.0},
			{"level": "WARN", "msg": "inspection failed", "invocation_id": invocationID, "code": "invocation_not_found", "status": 404.0},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})
}

// A small compressed body that unpacks to 16 MiB costs what a receipt may
// cost.
func TestCompressedBombs(t *testing.T) {
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 16 {
		_, _ = packer.Write(spaces)
	}
	_ = packer.Close()
	for name, body := range map[string][]byte{"bomb": bomb.Bytes(), "not gzip": []byte(receiptBody), "corrupt": append(bytes.Clone(bomb.Bytes()[:200]), bytes.Repeat([]byte{0xff}, 1000)...)} {
		hub := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == capabilitiesPath {
				_, _ = io.WriteString(rw, capabilitiesBody)
				return
			}
			rw.Header().Set("Content-Encoding", "gzip")
			_, _ = rw.Write(body)
		}))
		client, err := agentclient.New(agentclient.Config{HubURL: hub.URL, Workspace: workspace, TokenSource: static(canary)})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = client.InspectInvocation(t.Context(), invocationID)
		runtime.ReadMemStats(&after)
		if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.StatusCode != 200 {
			t.Errorf("%s: %v", name, err)
		}
		if cost := after.TotalAlloc - before.TotalAlloc; cost > 4<<20 {
			t.Errorf("%s: cost %d bytes", name, cost)
		}
		client.CloseIdleConnections()
		hub.Close()
	}
}

func TestGzipIsRead(t *testing.T) {
	t.Parallel()
	hub := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		packer := gzip.NewWriter(rw)
		if r.URL.Path == capabilitiesPath {
			_, _ = io.WriteString(packer, capabilitiesBody)
		} else {
			_, _ = io.WriteString(packer, receiptBody)
		}
		_ = packer.Close()
	}))
	t.Cleanup(hub.Close)
	client, err := agentclient.New(agentclient.Config{HubURL: hub.URL, Workspace: workspace, TokenSource: static(canary)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
		t.Error(err)
	}
}
