package agentclient_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	valid := agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: static(canary)}
	for name, test := range map[string]struct {
		change func(*agentclient.Config)
		opts   []agentclient.Option
		names  string
	}{
		"no URL":         {func(c *agentclient.Config) { c.HubURL = "" }, nil, "HubURL"},
		"plain http":     {func(c *agentclient.Config) { c.HubURL = "http://hub.example.com" }, nil, "HubURL"},
		"a query":        {func(c *agentclient.Config) { c.HubURL = hubURL + "?token=" + canary }, nil, "HubURL"},
		"user info":      {func(c *agentclient.Config) { c.HubURL = "https://" + canary + "@hub.example.com" }, nil, "HubURL"},
		"no workspace":   {func(c *agentclient.Config) { c.Workspace = "" }, nil, "Workspace"},
		"auto":           {func(c *agentclient.Config) { c.Workspace = "auto" }, nil, "Workspace"},
		"bad workspace":  {func(c *agentclient.Config) { c.Workspace = " " + canary }, nil, "Workspace"},
		"no source":      {func(c *agentclient.Config) { c.TokenSource = nil }, nil, "TokenSource"},
		"nil option":     {nil, []agentclient.Option{nil}, "option"},
		"negative limit": {nil, []agentclient.Option{agentclient.WithTimeout(-1)}, "WithTimeout"},
		"retries -1":     {nil, []agentclient.Option{agentclient.WithMaxRetries(-1)}, "WithMaxRetries"},
		"retries 3":      {nil, []agentclient.Option{agentclient.WithMaxRetries(3)}, "WithMaxRetries"},
		"negative reuse": {nil, []agentclient.Option{agentclient.WithNegotiationReuse(-1)}, "WithNegotiationReuse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := valid
			if test.change != nil {
				test.change(&cfg)
			}
			client, err := agentclient.New(cfg, test.opts...)
			if client != nil || !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Fatalf("%v, %v", client, err)
			}
			failureOf(t, err)
			if !strings.Contains(err.Error(), test.names) {
				t.Errorf("%q does not name %s", err, test.names)
			}
		})
	}
}

func TestBadArgumentsSendNothing(t *testing.T) {
	t.Parallel()
	w := &wire{answer: good}
	client := newClient(t, w)
	for _, id := range []string{"", "a", invocationID + "\n", invocationID + "a", strings.ToUpper(invocationID), invocationID[:63], invocationID[:63] + "g", "../" + invocationID[3:], invocationID[:61] + "%61"} {
		_, err := client.InspectInvocation(t.Context(), id)
		failure := failureOf(t, err)
		if failure.Feedback.Code != feedback.CodeInvalidRequest || failure.Feedback.Origin != feedback.OriginSDK ||
			failure.Feedback.InvocationID != "" || failure.Feedback.Dispatch != feedback.DispatchNotDispatched {
			t.Errorf("%q: %+v", id, failure.Feedback)
		}
		if !strings.Contains(err.Error(), "invocation id") || len(id) > 2 && strings.Contains(err.Error(), id) {
			t.Errorf("%q: %s", id, err)
		}
	}
	var none context.Context
	if _, err := client.InspectInvocation(none, invocationID); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("nil context: %v", err)
	}
	if _, err := client.InvocationInspectionCapabilities(none); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("nil context: %v", err)
	}
	if sent := w.sent(); len(sent) != 0 {
		t.Errorf("sent: %v", sent)
	}
}

// A redirect ends at the Hub, wherever it points and however it is written. The
// answers are those of a real server, because net/http reads the header.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	count := func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }
	other := httptest.NewServer(http.HandlerFunc(count))
	t.Cleanup(other.Close)
	secure := httptest.NewTLSServer(http.HandlerFunc(count))
	t.Cleanup(secure.Close)
	for _, location := range []string{
		other.URL + "/" + canary, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), secure.URL, "/elsewhere", "//" + other.Listener.Addr().String(),
		"http://[::1]:namedport/" + canary, "%zz", "http://" + canary + " host/", "", "?again",
	} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			var requests atomic.Int64
			hub := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if location != "" {
					rw.Header()["Location"] = []string{location}
				}
				rw.WriteHeader(code)
			}))
			client, err := agentclient.New(agentclient.Config{HubURL: hub.URL, Workspace: workspace, TokenSource: static(canary)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.InspectInvocation(t.Context(), invocationID)
			failure := failureOf(t, err)
			if failure.Feedback.Code != feedback.CodeAgentInvalidResponse || failure.StatusCode != code || requests.Load() != 1 {
				t.Errorf("%d to %q: %d requests, %v", code, location, requests.Load(), err)
			}
			for cause := range causes(err) {
				if strings.Contains(cause.Error(), canary) {
					t.Errorf("%d to %q: the header's text is in %T", code, location, cause)
				}
			}
			client.CloseIdleConnections()
			hub.Close()
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// causes walks everything that errors.Is can see.
func causes(err error) func(func(error) bool) {
	return func(yield func(error) bool) {
		for queue := []error{err}; len(queue) > 0; queue = queue[1:] {
			if !yield(queue[0]) {
				return
			}
			switch e := queue[0].(type) {
			case interface{ Unwrap() error }:
				if cause := e.Unwrap(); cause != nil {
					queue = append(queue, cause)
				}
			case interface{ Unwrap() []error }:
				queue = append(queue, e.Unwrap()...)
			}
		}
	}
}

func TestBorrowedHTTPClient(t *testing.T) {
	t.Parallel()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	hub, _ := url.Parse(hubURL)
	jar.SetCookies(hub, []*http.Cookie{{Name: "session", Value: canary}})
	w := &wire{answer: func(r *http.Request) (*http.Response, error) {
		answer, err := good(r)
		answer.Header.Set("Set-Cookie", "tracker=1")
		return answer, err
	}}
	borrowed := &http.Client{Transport: w, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		t.Error("the caller's redirect policy was asked")
		return nil
	}}
	client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: static("synthetic-access")}, agentclient.WithHTTPClient(borrowed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	for _, r := range w.requests {
		if r.Header.Get("Cookie") != "" {
			t.Error("a cookie was sent")
		}
	}
	if n := len(jar.Cookies(hub)); n != 1 {
		t.Errorf("the jar has %d cookies", n)
	}
}

func TestBorrowedTimeoutIsATimeLimit(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){"silent": silent, "slow body": slowBody} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: answer}
			client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: static(canary)},
				agentclient.WithHTTPClient(&http.Client{Transport: w, Timeout: 2 * time.Second}))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = client.InspectInvocation(t.Context(), invocationID)
			if failureOf(t, err).Feedback.Code != feedback.CodeAgentRequestTimeout || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took != 2*time.Second {
				t.Errorf("%s: took %v", name, took)
			}
			if diff := cmp.Diff([]string{"capabilities"}, w.sent()); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", name, diff)
			}
		})
	}
}

func TestPathPrefix(t *testing.T) {
	t.Parallel()
	w := &wire{answer: good}
	client, err := agentclient.New(agentclient.Config{HubURL: "HTTPS://Hub.Example.com:443/%7Ebailing/v2/", Workspace: workspace, TokenSource: static(canary)},
		agentclient.WithHTTPClient(&http.Client{Transport: w}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, r := range w.requests {
		targets = append(targets, r.URL.Scheme+"://"+r.URL.Host+r.URL.RequestURI())
	}
	if diff := cmp.Diff([]string{hubURL + "/%7Ebailing/v2" + capabilitiesPath, hubURL + "/%7Ebailing/v2" + receiptPath}, targets); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestNegotiationReuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		w.answer = then(good, good, status(404, `{"error":"invocation_not_found"}`), good)
		client := newClient(t, w, agentclient.WithNegotiationReuse(time.Minute))
		inspect := func(want ...string) {
			t.Helper()
			before := len(w.sent())
			_, _ = client.InspectInvocation(t.Context(), invocationID)
			if diff := cmp.Diff(want, w.sent()[before:]); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		}
		inspect("capabilities", "receipt")
		time.Sleep(59 * time.Second)
		inspect("receipt")
		inspect("receipt")                 // not found: any failure ends it
		inspect("capabilities", "receipt") // so this one asks again
		inspect("receipt")
		time.Sleep(time.Minute)
		inspect("capabilities", "receipt")
	})
}

func TestEveryInspectionNegotiates(t *testing.T) {
	t.Parallel()
	w := &wire{answer: good}
	client := newClient(t, w, agentclient.WithNegotiationReuse(0))
	for range 3 {
		if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(slices.Repeat([]string{"capabilities", "receipt"}, 3), w.sent()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// An answer that is not a good negotiation is never followed by the request
// for a receipt.
func TestNoReceiptWithoutNegotiation(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"web page": status(200, "<!doctype html><title>Hub</title>"), "no content": status(204, ""), "encoded": status(200, capabilitiesBody, "Content-Encoding", "br"),
		"too long": status(200, capabilitiesBody+strings.Repeat(" ", 64<<10)), "twice": status(200, capabilitiesBody+capabilitiesBody),
		"not found": status(404, ""), "no method": status(405, `{"error":"hub_paused"}`), "not implemented": status(501, `{"error":"TASK_UNAVAILABLE"}`),
	} {
		w := &wire{answer: answer}
		_, err := newClient(t, w).InspectInvocation(t.Context(), invocationID)
		if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentSchemaUnsupported || failure.StatusCode == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]string{"capabilities"}, w.sent()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
}
