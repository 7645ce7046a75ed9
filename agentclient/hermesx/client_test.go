package hermesx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg   hermesx.Config
		opts  []agentclient.Option
		names string
	}{
		"no URL":          {hermesx.Config{TokenSource: static(canary)}, nil, "Config.BaseURL must not be empty"},
		"not absolute":    {hermesx.Config{BaseURL: "hermesx.example.com", TokenSource: static(canary)}, nil, "Config.BaseURL must be absolute"},
		"user info":       {hermesx.Config{BaseURL: "https://" + canary + "@hermesx.example.com", TokenSource: static(canary)}, nil, "Config.BaseURL must not carry user information"},
		"a query":         {hermesx.Config{BaseURL: baseURL + "?key=" + canary, TokenSource: static(canary)}, nil, "Config.BaseURL must not have a query"},
		"plain http":      {hermesx.Config{BaseURL: "http://hermesx.example.com", TokenSource: static(canary)}, nil, "Config.BaseURL must be https"},
		"no token source": {hermesx.Config{BaseURL: baseURL}, nil, "Config.TokenSource is missing"},
		"nil in a source": {hermesx.Config{BaseURL: baseURL, TokenSource: (*source)(nil)}, nil, "Config.TokenSource is missing"},
		"nil option":      {hermesx.Config{BaseURL: baseURL, TokenSource: static(canary)}, []agentclient.Option{nil}, "An option is nil"},
		"bad option":      {hermesx.Config{BaseURL: baseURL, TokenSource: static(canary)}, []agentclient.Option{agentclient.WithMaxRetries(3)}, "WithMaxRetries"},
	} {
		client, err := hermesx.New(test.cfg, test.opts...)
		if client != nil || !errors.Is(err, feedback.CodeInvalidRequest) || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: %v, %v", name, client, err)
		}
		failureOf(t, err)
	}
	for _, good := range []string{"http://localhost:8080", "http://127.0.0.1", "http://[::1]:1/", "HTTPS://HermesX.Example.com:443/prefix//"} {
		if _, err := hermesx.New(hermesx.Config{BaseURL: good, TokenSource: static(canary)}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if _, err := hermesx.New(hermesx.Config{BaseURL: "http://hermesx.internal", TokenSource: static(canary), AllowInsecureHTTP: true}); err != nil {
		t.Error(err)
	}
}

// Nothing is sent for arguments that are wrong, nor for those that a server
// would replace without a word.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	w := &wire{answer: always(200, emptyPage)}
	client := newClient(t, w)
	ctx := t.Context()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var none context.Context
	for name, call := range map[string]func() error{
		"id empty":             func() error { _, err := client.Receipt(ctx, ""); return err },
		"id a dot":             func() error { _, err := client.Receipt(ctx, "."); return err },
		"id two dots":          func() error { _, err := client.Receipt(ctx, ".."); return err },
		"id leads up":          func() error { _, err := client.Receipt(ctx, "../audit-logs"); return err },
		"id leads up within":   func() error { _, err := client.Receipt(ctx, "a/../../audit-logs"); return err },
		"id leads up, Windows": func() error { _, err := client.Receipt(ctx, `..\audit-logs`); return err },
		"id not UTF-8":         func() error { _, err := client.Receipt(ctx, "\xff"); return err },
		"id too long":          func() error { _, err := client.Receipt(ctx, strings.Repeat("x", 2049)); return err },
		"no context":           func() error { _, err := client.Receipt(none, "rcpt_1"); return err },
		"no context, page":     func() error { _, err := client.Receipts(none, hermesx.ReceiptQuery{}); return err },
		"no context, all":      func() error { _, err := collect(client.AllReceipts(none, hermesx.ReceiptQuery{})); return err },
		"no context, audit":    func() error { _, err := client.AuditLogs(none, hermesx.AuditQuery{}); return err },
		"no context, all logs": func() error { _, err := collect(client.AllAuditLogs(none, hermesx.AuditQuery{})); return err },
		"no context, trail":    func() error { _, err := client.Correlate(none, hermesx.Correlation{SessionID: "s"}); return err },
		"limit negative":       func() error { _, err := client.Receipts(ctx, hermesx.ReceiptQuery{Limit: -1}); return err },
		"offset negative":      func() error { _, err := client.Receipts(ctx, hermesx.ReceiptQuery{Offset: -1}); return err },
		"id with a NUL":        func() error { _, err := client.Receipt(ctx, "a\x00"); return err },
		"session with a NUL":   func() error { _, err := client.Receipts(ctx, hermesx.ReceiptQuery{SessionID: "a\x00b"}); return err },
		"status with a NUL":    func() error { _, err := client.Receipts(ctx, hermesx.ReceiptQuery{Status: "\x00"}); return err },
		"action not UTF-8":     func() error { _, err := client.AuditLogs(ctx, hermesx.AuditQuery{Action: "\xff"}); return err },
		"action with a NUL":    func() error { _, err := client.AuditLogs(ctx, hermesx.AuditQuery{Action: "\x00"}); return err },
		"session not UTF-8":    func() error { _, err := client.Receipts(ctx, hermesx.ReceiptQuery{SessionID: "\xff"}); return err },
		"tool too long": func() error {
			_, err := client.Receipts(ctx, hermesx.ReceiptQuery{ToolName: strings.Repeat("x", 513)})
			return err
		},
		"all, limit negative": func() error { _, err := collect(client.AllReceipts(ctx, hermesx.ReceiptQuery{Limit: -1})); return err },
		"all, limit too large": func() error {
			_, err := collect(client.AllReceipts(ctx, hermesx.ReceiptQuery{Limit: 5001}))
			return err
		},
		"all, offset":          func() error { _, err := collect(client.AllReceipts(ctx, hermesx.ReceiptQuery{Offset: 1})); return err },
		"audit limit 101":      func() error { _, err := client.AuditLogs(ctx, hermesx.AuditQuery{Limit: 101}); return err },
		"audit limit negative": func() error { _, err := client.AuditLogs(ctx, hermesx.AuditQuery{Limit: -1}); return err },
		"audit offset":         func() error { _, err := client.AuditLogs(ctx, hermesx.AuditQuery{Offset: -1}); return err },
		"audit backwards":      func() error { _, err := client.AuditLogs(ctx, hermesx.AuditQuery{From: noon, To: noon}); return err },
		"audit year": func() error {
			_, err := client.AuditLogs(ctx, hermesx.AuditQuery{To: noon.AddDate(9000, 0, 0)})
			return err
		},
		"audit action too long": func() error {
			_, err := client.AuditLogs(ctx, hermesx.AuditQuery{Action: strings.Repeat("x", 513)})
			return err
		},
		"all audit, offset":    func() error { _, err := collect(client.AllAuditLogs(ctx, hermesx.AuditQuery{Offset: 1})); return err },
		"all audit, limit 101": func() error { _, err := collect(client.AllAuditLogs(ctx, hermesx.AuditQuery{Limit: 101})); return err },
		"trail of nothing":     func() error { _, err := client.Correlate(ctx, hermesx.Correlation{}); return err },
		"trail of a bad id": func() error {
			_, err := client.Correlate(ctx, hermesx.Correlation{RequestID: "bad.id:1", SessionID: "s"})
			return err
		},
		"trail backwards": func() error {
			_, err := client.Correlate(ctx, hermesx.Correlation{RequestID: "r", From: noon, To: noon.Add(-1)})
			return err
		},
		"trail of a session, backwards": func() error {
			_, err := client.Correlate(ctx, hermesx.Correlation{SessionID: "s", From: noon, To: noon.Add(-1)})
			return err
		},
		"trail of a bad session": func() error {
			_, err := client.Correlate(ctx, hermesx.Correlation{RequestID: "r", SessionID: "\xff"})
			return err
		},
	} {
		failure := failureOf(t, call())
		if failure.Feedback.Code != feedback.CodeInvalidRequest || failure.Feedback.Origin != feedback.OriginSDK || failure.Feedback.Dispatch != feedback.DispatchNotDispatched || failure.RequestID != "" {
			t.Errorf("%s: %+v", name, failure)
		}
	}
	if sent := w.sent(); len(sent) != 0 {
		t.Errorf("sent: %v", sent)
	}
	var unmade hermesx.Client
	unmade.CloseIdleConnections()
	if _, err := collect(unmade.AllReceipts(ctx, hermesx.ReceiptQuery{})); !errors.Is(err, feedback.CodeInvalidRequest) || !strings.Contains(err.Error(), "New") {
		t.Errorf("a client that was not made: %v", err)
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	w := &wire{answer: always(200, emptyPage)}
	client := newClient(t, w)
	for _, query := range []hermesx.ReceiptQuery{{}, {SessionID: "a&b=c#d", ToolName: "工具 x", Status: "error;limit=1", Limit: 7, Offset: 14}} {
		if _, err := client.Receipts(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	w.answer = always(200, emptyAudit)
	east := time.FixedZone("", 8*60*60)
	for _, query := range []hermesx.AuditQuery{
		{},
		{Action: "POST /v1/agent/chat", From: time.Date(2026, 11, 30, 8, 0, 0, 0, east), To: time.Date(2026, 11, 30, 8, 0, 0, 123456000, east), Limit: 100, Offset: 200},
		// A server rounds what is finer than a microsecond; up is right for both.
		{From: time.Date(2026, 11, 30, 0, 0, 0, 1, time.UTC), To: time.Date(2026, 11, 30, 0, 0, 0, 999_999_999, time.UTC)},
		// There is no later time that can be written.
		{To: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)},
		{To: time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -5*60*60))},
	} {
		if _, err := client.AuditLogs(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"/v1/execution-receipts",
		"/v1/execution-receipts?limit=7&offset=14&session_id=a%26b%3Dc%23d&status=error%3Blimit%3D1&tool_name=%E5%B7%A5%E5%85%B7+x",
		"/v1/audit-logs",
		"/v1/audit-logs?action=POST+%2Fv1%2Fagent%2Fchat&from=2026-11-30T00%3A00%3A00Z&limit=100&offset=200&to=2026-11-30T00%3A00%3A00.123456Z",
		"/v1/audit-logs?from=2026-11-30T00%3A00%3A00.000001Z&to=2026-11-30T00%3A00%3A01Z",
		"/v1/audit-logs?to=9999-12-31T23%3A59%3A59.999999Z",
		"/v1/audit-logs?to=9999-12-31T23%3A59%3A59.999999Z",
	}
	if diff := cmp.Diff(want, w.sent()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What goes out besides: the key as a bearer, a request id of its own, and
// nothing of the host.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := &wire{answer: always(200, receiptBody)}
	client := newClient(t, w)
	for range 2 {
		if _, err := client.Receipt(t.Context(), "rcpt_1"); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]bool{}
	for _, r := range w.requests {
		var names []string
		for name := range r.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"Accept", "Accept-Encoding", "Authorization", "User-Agent", "X-Request-Id"}, names); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		if r.Header.Get("Authorization") != "Bearer "+canary || r.Header.Get("Accept") != "application/json" || !strings.HasPrefix(r.Header.Get("User-Agent"), "bailinghub-go/") {
			t.Errorf("%v", r.Header)
		}
		if body, err := io.ReadAll(r.Body); len(body) != 0 || err != nil || r.ContentLength != 0 {
			t.Errorf("a body: %q, %v", body, err)
		}
		id := r.Header.Get("X-Request-Id")
		if len(id) < 20 || len(id) > 64 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("request id %q", id)
		}
		ids[id] = true
	}
	if len(ids) != 2 {
		t.Errorf("request ids: %v", ids)
	}
}

// Ids go out as one escaped segment and reach no other path: neither at a
// server of net/http, which cleans paths, nor at one that unescapes them first.
func TestIDsStayInTheirPlace(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	reached := map[string][]string{}
	note := func(name string, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached[name] = append(reached[name], r.RequestURI)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/execution-receipts/{id}", func(rw http.ResponseWriter, r *http.Request) {
		note("receipt", r)
		fmt.Fprint(rw, with("id", quoted(r.PathValue("id"))))
	})
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) { note("elsewhere", r); rw.WriteHeader(404) })
	// A proxy that unescapes the path and cleans it before it looks.
	normalizing := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		clean := (&url.URL{Path: "/"}).ResolveReference(&url.URL{Path: r.URL.Path}).Path
		if clean != "/v1/execution-receipts" && !strings.HasPrefix(clean, "/v1/execution-receipts/") {
			note("elsewhere", r)
		}
		rw.WriteHeader(404)
	})
	ids := []string{
		"rcpt_1", "a/b", "a/", "/a", "a b", " ", "%2F", "%2e%2e", "..%2Faudit-logs", "%2e%2e%2faudit-logs", "a..b", "...", "…", "回执/一", "a?b=c", "a#b", "a;b", "a,b:@&=+$", `a\b`,
		"a\r\nHost: x", "\u202e", "é", "e\u0301", "+", "*", "~", "'", "\"<>", "{}", "|^`", "a//b", "execution-receipts",
		// These cannot be kept in their place, and are refused.
		"", "/", "//", "a\x00b", ".", "..", "../audit-logs", "a/../../audit-logs", "./a", "a/.", "a/..", "/..", `..\..`, `a\.`,
	}
	for name, handler := range map[string]http.Handler{"mux": mux, "normalizing": normalizing} {
		server := httptest.NewServer(handler)
		client, err := hermesx.New(hermesx.Config{BaseURL: server.URL, TokenSource: static(canary)})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			receipt, err := client.Receipt(t.Context(), id)
			refused := errors.Is(err, feedback.CodeInvalidRequest)
			dots := slices.ContainsFunc(strings.FieldsFunc(id, func(r rune) bool { return r == '/' || r == '\\' }), func(part string) bool { return part == "." || part == ".." })
			switch {
			case refused != (dots || strings.Trim(id, "/") == "" || strings.Contains(id, "\x00")):
				t.Errorf("%s %q: %v", name, id, err)
			case refused || name == "normalizing":
			case err != nil || receipt.ID != id:
				t.Errorf("%s %q: %+v, %v", name, id, receipt, err)
			}
		}
		client.CloseIdleConnections()
		server.Close()
	}
	if len(reached["elsewhere"]) != 0 {
		t.Errorf("reached elsewhere: %q", reached["elsewhere"])
	}
	for _, target := range reached["receipt"] {
		if segment := strings.TrimPrefix(target, "/v1/execution-receipts/"); strings.ContainsAny(segment, "/?#\\ ") {
			t.Errorf("target %q", target)
		}
	}
}

func quoted(text string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

// A key never leaves its origin: redirects end where they are, and another host
// in the URL is not followed either.
func TestTheKeyStaysAtItsOrigin(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, location := range []string{other.URL + "/" + canary, "/v1/audit-logs", "//" + other.Listener.Addr().String() + "/", "http://" + canary + " host/", ""} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				rw.Header()["Location"] = []string{location}
				rw.WriteHeader(code)
			}))
			client, err := hermesx.New(hermesx.Config{BaseURL: server.URL, TokenSource: static(canary)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Receipt(t.Context(), "rcpt_1")
			if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.StatusCode != code || requests.Load() != 1 {
				t.Errorf("%d to %q: %d requests, %v", code, location, requests.Load(), err)
			}
			client.CloseIdleConnections()
			server.Close()
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

func TestPathPrefix(t *testing.T) {
	t.Parallel()
	w := &wire{answer: always(200, receiptBody)}
	var target string
	client, err := hermesx.New(hermesx.Config{BaseURL: "https://Gateway.example.com:443/hermes%20x/", TokenSource: static(canary)},
		agentclient.WithHTTPClient(&http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
			target = r.URL.Scheme + "://" + r.URL.Host + r.URL.RequestURI()
			return w.answer(r)
		})}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Receipt(t.Context(), "rcpt_1"); err != nil || target != "https://gateway.example.com/hermes%20x/v1/execution-receipts/rcpt_1" {
		t.Errorf("%s, %v", target, err)
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOneAnswerIsBounded(t *testing.T) {
	t.Parallel()
	// 16 MiB are an answer, one byte more is none.
	fill := strings.Repeat(" ", 16<<20-len(emptyPage))
	for extra, good := range map[string]bool{"": true, " ": false} {
		w := &wire{answer: always(200, emptyPage+fill+extra)}
		page, err := newClient(t, w).Receipts(t.Context(), hermesx.ReceiptQuery{})
		if (err == nil) != good || len(w.sent()) != 1 {
			t.Errorf("%d more: %+v, %v", len(extra), page, err)
		}
		if err != nil {
			failure := failureOf(t, err)
			if failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.StatusCode != 200 || !strings.Contains(err.Error(), "16 MiB") {
				t.Errorf("%v", err)
			}
		}
	}
	endless := &wire{answer: func(*http.Request) (*http.Response, error) {
		r := respond(200, "")
		r.Body = endlessBody{}
		return r, nil
	}}
	if _, err := newClient(t, endless).AuditLogs(t.Context(), hermesx.AuditQuery{}); failureOf(t, err).Feedback.Code != feedback.CodeAgentInvalidResponse {
		t.Errorf("endless: %v", err)
	}
	for _, encoding := range []string{"br", "gzip"} {
		if _, err := newClient(t, &wire{answer: always(200, emptyPage, "Content-Encoding", encoding)}).Receipts(t.Context(), hermesx.ReceiptQuery{}); failureOf(t, err).Feedback.Code != feedback.CodeAgentInvalidResponse || !strings.Contains(err.Error(), "encoding") {
			t.Errorf("%s: %v", encoding, err)
		}
	}
}

type endlessBody struct{}

func (endlessBody) Read(p []byte) (int, error) {
	n := copy(p, blanks)
	return n, nil
}

func (endlessBody) Close() error { return nil }

var blanks = strings.Repeat(" ", 64<<10)

func TestRetries(t *testing.T) {
	t.Parallel()
	good := always(200, receiptBody)
	for name, test := range map[string]struct {
		answer   answers
		opts     []agentclient.Option
		requests int
		code     feedback.Code
		wait     time.Duration
	}{
		"lost once":           {answer: then(lost, good), requests: 2},
		"lost twice":          {answer: then(lost, lost, good), requests: 3},
		"lost for good":       {answer: lost, requests: 3, code: feedback.CodeAgentTransportUnavailable},
		"500, then good":      {answer: then(always(500, "list failed\n"), good), requests: 2},
		"500 for good":        {answer: always(500, "internal error\n"), requests: 3, code: feedback.CodeAgentTransportUnavailable},
		"501":                 {answer: always(501, ""), requests: 3, code: feedback.CodeAgentTransportUnavailable},
		"408, 425, then good": {answer: then(always(408, ""), always(425, ""), good), requests: 3},
		"429, soon":           {answer: then(always(429, "", "Retry-After", "5"), good), requests: 2},
		"429, later":          {answer: then(always(429, "rate limit exceeded\n", "Retry-After", "60"), good), requests: 1, code: feedback.CodeAgentTransportUnavailable, wait: time.Minute},
		"none wanted":         {answer: then(lost, good), opts: []agentclient.Option{agentclient.WithMaxRetries(0)}, requests: 1, code: feedback.CodeAgentTransportUnavailable},
		"not found":           {answer: then(always(404, "not found\n", "X-Request-Id", "theirs"), good), requests: 1, code: feedback.CodeReceiptNotFound},
		"forbidden":           {answer: then(always(403, ""), good), requests: 1, code: feedback.CodeAgentAuthorizationUnavailable},
		"unauthorized":        {answer: then(always(401, ""), good), requests: 1, code: feedback.CodeAgentAuthorizationUnavailable},
		"bad body":            {answer: then(always(200, "{}"), good), requests: 1, code: feedback.CodeAgentInvalidResponse},
		"no content":          {answer: then(always(204, ""), good), requests: 1, code: feedback.CodeAgentInvalidResponse},
		"teapot":              {answer: then(always(418, ""), good), requests: 1, code: feedback.CodeUnknownFailure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: test.answer}
				receipt, err := newClient(t, w, test.opts...).Receipt(t.Context(), "rcpt_1")
				if (err == nil) != (test.code == "") || len(w.sent()) != test.requests {
					t.Errorf("%d requests: %+v, %v", len(w.sent()), receipt, err)
				}
				for _, r := range w.requests {
					if r.Header.Get("X-Request-Id") != w.requests[0].Header.Get("X-Request-Id") {
						t.Error("a repeat is another request")
					}
				}
				if err == nil {
					return
				}
				failure := failureOf(t, err)
				if failure.Feedback.Code != test.code || failure.RetryAfter != test.wait || failure.Feedback.Dispatch != feedback.DispatchAttempted {
					t.Errorf("%+v", failure)
				}
			})
		})
	}
}

// Every error says which request it was: as the server calls it, or as it was
// sent where no answer came.
func TestErrorsNameTheirRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer answers
		want   string // "sent" for what was sent
	}{
		"echoed": {func(r *http.Request) (*http.Response, error) {
			return respond(404, "", "X-Request-Id", r.Header.Get("X-Request-Id")), nil
		}, "sent"},
		"replaced": {always(404, "", "X-Request-Id", "theirs"), "theirs"},
		"silent":   {always(404, ""), ""},
		"nonsense": {always(404, "", "X-Request-Id", canary+" a"), ""},
		"refused":  {always(200, "{}", "X-Request-Id", "theirs"), "theirs"},
		"lost":     {lost, "sent"},
	} {
		w := &wire{answer: test.answer}
		_, err := newClient(t, w, agentclient.WithMaxRetries(0)).Receipt(t.Context(), "rcpt_1")
		want := test.want
		if want == "sent" {
			want = w.requests[0].Header.Get("X-Request-Id")
		}
		if failure := failureOf(t, err); failure.RequestID != want {
			t.Errorf("%s: %q, want %q", name, failure.RequestID, want)
		}
	}
}

func TestContextEndsEveryWait(t *testing.T) {
	t.Parallel()
	silent := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	cause := errors.New("the user went away")
	for name, call := range map[string]func(context.Context, *hermesx.Client) error{
		"receipt": func(ctx context.Context, c *hermesx.Client) error { _, err := c.Receipt(ctx, "rcpt_1"); return err },
		"all": func(ctx context.Context, c *hermesx.Client) error {
			_, err := collect(c.AllReceipts(ctx, hermesx.ReceiptQuery{}))
			return err
		},
		"correlate": func(ctx context.Context, c *hermesx.Client) error {
			_, err := c.Correlate(ctx, hermesx.Correlation{RequestID: "r"})
			return err
		},
	} {
		for how, test := range map[string]struct {
			context func(context.Context) (context.Context, context.CancelFunc)
			opts    []agentclient.Option
			code    feedback.Code
			is      []error
		}{
			"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				stop := time.AfterFunc(3*time.Second, func() { cancel(cause) })
				return ctx, func() { stop.Stop(); cancel(nil) }
			}, nil, feedback.CodeAgentRequestCancelled, []error{context.Canceled, cause}},
			"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, 3*time.Second, cause)
			}, nil, feedback.CodeAgentRequestTimeout, []error{context.DeadlineExceeded, cause}},
			"time limit": {context.WithCancel, []agentclient.Option{agentclient.WithTimeout(3 * time.Second)}, feedback.CodeAgentRequestTimeout, []error{context.DeadlineExceeded}},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					client := newClient(t, &wire{answer: silent}, test.opts...)
					ctx, cancel := test.context(t.Context())
					defer cancel()
					start := time.Now()
					err := call(ctx, client)
					if failure := failureOf(t, err); failure.Feedback.Code != test.code || failure.RequestID == "" || time.Since(start) != 3*time.Second {
						t.Errorf("after %v: %+v", time.Since(start), failure)
					}
					for _, target := range test.is {
						if !errors.Is(err, target) {
							t.Errorf("%v is not found in %v", target, err)
						}
					}
				})
			})
		}
	}
	w := &wire{answer: always(200, receiptBody)}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newClient(t, w).Receipt(ended, "rcpt_1"); !errors.Is(err, context.Canceled) || len(w.sent()) != 0 {
		t.Errorf("%v, sent %v", err, w.sent())
	}
}

// source is a token source with all that a source may have.
type source struct {
	mu              sync.Mutex
	key, fresh      string
	broken, refused error
}

func (s *source) Token() (*oauth2.Token, error) { return nil, errors.New("must not be asked") }

func (s *source) TokenContext(context.Context) (*oauth2.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &oauth2.Token{AccessToken: s.key}, s.broken
}

func (s *source) Refresh(_ context.Context, refused *oauth2.Token) (*oauth2.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused.AccessToken == s.key {
		s.key = s.fresh
	}
	return &oauth2.Token{AccessToken: s.key}, s.refused
}

// The key comes from its source before every request, and a refused one is
// replaced once where the source can.
func TestKeyIsReplaced(t *testing.T) {
	t.Parallel()
	server := hermestest.New()
	t.Cleanup(server.Close)
	auditor := hermestest.Key{Roles: []string{hermestest.RoleAuditor}}
	old, fresh := server.AddKey(auditor).Secret, server.AddKey(auditor).Secret
	keys := &source{key: old, fresh: fresh}
	client := newClientOf(t, keys, server.Transport())
	server.RemoveKey(old)
	if _, err := client.Receipts(t.Context(), hermesx.ReceiptQuery{}); err != nil {
		t.Fatal(err)
	}
	if n := len(server.Requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
	server.RemoveKey(fresh)
	if _, err := client.Receipts(t.Context(), hermesx.ReceiptQuery{}); !errors.Is(err, feedback.CodeAgentAuthorizationUnavailable) {
		t.Errorf("%v", err)
	}
	if n := len(server.Requests()); n != 4 {
		t.Errorf("%d requests", n)
	}
	keys.broken = errors.New("vault: " + canary)
	_, err := client.Receipts(t.Context(), hermesx.ReceiptQuery{})
	if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentAuthorizationUnavailable || failure.Feedback.Dispatch != feedback.DispatchNotDispatched || failure.StatusCode != 0 || failure.RequestID != "" {
		t.Errorf("%+v", failure)
	}
	// A key that cannot be replaced is the end, after the answer that refused it.
	w := &wire{answer: always(401, "", "X-Request-Id", "theirs")}
	_, err = newClientOf(t, &source{key: old, refused: errors.New("vault: " + canary)}, w).Receipts(t.Context(), hermesx.ReceiptQuery{})
	if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentAuthorizationUnavailable || failure.RequestID != "theirs" || len(w.sent()) != 1 {
		t.Errorf("%+v", failure)
	}
}

// One record for each answer and each repeat, without anything secret or said
// by the server.
func TestLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var records strings.Builder
		logger := slog.New(slog.NewTextHandler(&records, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "duration" || a.Key == "wait" {
				return slog.Attr{}
			}
			return a
		}}))
		w := &wire{answer: then(always(500, canary), always(404, "not found\n", "X-Request-Id", "theirs"), always(200, receiptBody))}
		client := newClient(t, w, agentclient.WithLogger(logger))
		_, _ = client.Receipt(t.Context(), "rcpt_1")
		if _, err := client.Receipt(t.Context(), "rcpt_1"); err != nil {
			t.Fatal(err)
		}
		first, last := w.requests[0].Header.Get("X-Request-Id"), w.requests[2].Header.Get("X-Request-Id")
		want := `level=INFO msg="inspection repeats a request" request_id=` + first + ` code=agent_transport_unavailable status=500
level=WARN msg="inspection failed" request_id=` + first + ` code=receipt_not_found status=404
level=INFO msg="inspection answered" request_id=` + last + ` code="" status=200
`
		if diff := cmp.Diff(want, records.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A client prints without its key.
func TestNothingPrintsTheKey(t *testing.T) {
	t.Parallel()
	client := newClient(t, &wire{})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, struct{ C *hermesx.Client }{client}) + fmt.Sprintf(verb, client); strings.Contains(text, canary) {
			t.Errorf("%s: %s", verb, text)
		}
	}
}
