package agentclient_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// waitingSource ignores every context until it is released, and counts the
// calls of it.
type waitingSource struct {
	release          chan struct{}
	calls, refreshes atomic.Int64
	now, most        atomic.Int64
	onlyRefresh      bool // a token is had at once
}

func (s *waitingSource) wait() (*oauth2.Token, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	<-s.release
	return &oauth2.Token{AccessToken: canary}, nil
}

func (s *waitingSource) Token() (*oauth2.Token, error) { return s.TokenContext(context.Background()) }

func (s *waitingSource) TokenContext(context.Context) (*oauth2.Token, error) {
	s.calls.Add(1)
	if s.onlyRefresh {
		return &oauth2.Token{AccessToken: canary + "-old"}, nil
	}
	return s.wait()
}

func (s *waitingSource) Refresh(context.Context, *oauth2.Token) (*oauth2.Token, error) {
	s.refreshes.Add(1)
	return s.wait()
}

// plainSource is a source without a context.
type plainSource struct{ of *waitingSource }

func (s plainSource) Token() (*oauth2.Token, error) { return s.of.Token() }

// A source that ignores its context is stuck once, however many give up on it,
// and what it brings in the end is for all who still wait.
func TestOneCallOfTheTokenSourceAtATime(t *testing.T) {
	t.Parallel()
	refusing := func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") != "Bearer "+canary {
			return respond(401, ""), nil
		}
		return good(r)
	}
	for name, test := range map[string]struct {
		source func(*waitingSource) oauth2.TokenSource
		answer func(*http.Request) (*http.Response, error)
		stuck  func(*waitingSource) int64
	}{
		"Token":        {func(s *waitingSource) oauth2.TokenSource { return plainSource{s} }, good, func(s *waitingSource) int64 { return s.calls.Load() }},
		"TokenContext": {func(s *waitingSource) oauth2.TokenSource { return s }, good, func(s *waitingSource) int64 { return s.calls.Load() }},
		"Refresh": {func(s *waitingSource) oauth2.TokenSource { s.onlyRefresh = true; return s }, refusing,
			func(s *waitingSource) int64 { return s.refreshes.Load() }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &waitingSource{release: make(chan struct{})}
			client := newClientOf(t, test.source(s), &wire{answer: test.answer}, agentclient.WithTimeout(time.Second))
			for range 100 {
				_, err := client.InspectInvocation(t.Context(), invocationID)
				if failure := failureOf(t, err); failure.Feedback.Code != feedback.CodeAgentRequestTimeout || !strings.Contains(failure.Message, "the token source") {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if n := test.stuck(s); n != 1 {
				t.Errorf("%s: %d calls are stuck", name, n)
			}
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if _, err := client.InspectInvocation(t.Context(), invocationID); err != nil && name != "Refresh" {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			synctest.Wait()
			if n := test.stuck(s); n != 1 {
				t.Errorf("%s: %d calls are stuck", name, n)
			}
			close(s.release)
			all.Wait()
			if s.most.Load() != 1 {
				t.Errorf("%s: %d calls at once", name, s.most.Load())
			}
		})
	}
}

// expiring gives tokens that have so long to live.
type expiring struct{ lives time.Duration }

func (s expiring) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: canary + "-first", Expiry: time.Now().Add(s.lives)}, nil
}

// renewing can renew them, for so long.
type renewing struct {
	expiring
	forTime time.Duration
	fail    error
}

func (s renewing) Refresh(_ context.Context, refused *oauth2.Token) (*oauth2.Token, error) {
	if refused.AccessToken != canary+"-first" {
		return nil, errors.New("not the one that expired")
	}
	return &oauth2.Token{AccessToken: canary + "-second", Expiry: time.Now().Add(s.forTime)}, s.fail
}

// A token whose expiry has passed is not sent.
func TestExpiredTokensAreNotSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source oauth2.TokenSource
		sent   []string // the tokens
		code   feedback.Code
	}{
		"not yet":             {expiring{time.Nanosecond}, []string{"-first", "-first"}, ""},
		"now":                 {expiring{0}, nil, feedback.CodeAgentAuthorizationUnavailable},
		"long ago":            {expiring{-time.Hour}, nil, feedback.CodeAgentAuthorizationUnavailable},
		"renewed":             {renewing{expiring{-time.Hour}, time.Hour, nil}, []string{"-second"}, feedback.CodeAgentAuthorizationUnavailable},
		"renewed for no time": {renewing{expiring{-time.Hour}, 0, nil}, nil, feedback.CodeAgentAuthorizationUnavailable},
		"not renewed":         {renewing{expiring{-time.Hour}, 0, errors.New("no")}, nil, feedback.CodeAgentAuthorizationUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: good}
			_, err := newClientOf(t, test.source, w).InspectInvocation(t.Context(), invocationID)
			if test.code == "" && err != nil || test.code != "" && failureOf(t, err).Feedback.Code != test.code {
				t.Errorf("%s: %v", name, err)
			}
			var sent []string
			for _, r := range w.requests {
				sent = append(sent, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "+canary))
			}
			if !slices.Equal(sent, test.sent) {
				t.Errorf("%s: sent %q", name, sent)
			}
			if failure, ok := errors.AsType[*feedback.Error](err); ok && len(test.sent) == 0 && failure.Feedback.Dispatch != feedback.DispatchNotDispatched {
				t.Errorf("%s: %s", name, failure.Feedback.Dispatch)
			}
		})
	}
}

type (
	sourceMap   map[string]string
	sourceSlice []string
	sourceChan  chan string
)

func (m sourceMap) Token() (*oauth2.Token, error)   { return nil, nil }
func (s sourceSlice) Token() (*oauth2.Token, error) { return nil, nil }
func (c sourceChan) Token() (*oauth2.Token, error)  { return nil, nil }

func TestNilsOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, source := range []oauth2.TokenSource{nil, (*rotating)(nil), sourceFunc(nil), sourceMap(nil), sourceSlice(nil), sourceChan(nil)} {
		if _, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: source}); !errors.Is(err, feedback.CodeInvalidRequest) {
			t.Errorf("%T: %v", source, err)
		}
	}
	if _, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: static(canary)},
		agentclient.WithHTTPClient(&http.Client{Transport: (*http.Transport)(nil)})); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("a nil transport: %v", err)
	}
}

// Whatever ends an inspection, its message says what was waited for.
func TestEndsSayWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	close(released)
	for name, test := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		stuck  bool
		says   string
		late   bool // only a cancellation can come there
	}{
		"token":                {answer: good, stuck: true, says: "the token source"},
		"negotiation":          {answer: silent, says: "the negotiation with the Hub"},
		"slow negotiation":     {answer: slowBody, says: "the negotiation with the Hub"},
		"receipt":              {answer: then(silent), says: "the receipt from the Hub"},
		"slow receipt":         {answer: then(slowBody), says: "the receipt from the Hub"},
		"pause":                {answer: then(status(503, "", "Retry-After", "4")), says: "the end of a pause that the Hub asked for", late: true},
		"pause in negotiation": {answer: status(429, "", "Retry-After", "4"), says: "the end of a pause that the Hub asked for", late: true},
	} {
		for _, end := range []string{"time limit", "deadline", "cancellation", "limit of the borrowed client"} {
			if test.late && end != "cancellation" || test.stuck && end == "limit of the borrowed client" {
				continue
			}
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &waitingSource{release: released}
					if test.stuck {
						s.release = make(chan struct{})
						defer close(s.release)
					}
					borrowed := &http.Client{Transport: &wire{answer: test.answer}}
					opts := []agentclient.Option{agentclient.WithHTTPClient(borrowed)}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					want := "The inspection ran out of time while it waited for " + test.says + ". Its answer is not known; the original can be inspected again."
					code := feedback.CodeAgentRequestTimeout
					switch end {
					case "time limit":
						opts = append(opts, agentclient.WithTimeout(3*time.Second))
					case "deadline":
						ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
						defer cancel()
					case "limit of the borrowed client":
						borrowed.Timeout = 3 * time.Second
					default:
						time.AfterFunc(3*time.Second, cancel)
						want = "The inspection was cancelled by its caller while it waited for " + test.says + "."
						code = feedback.CodeAgentRequestCancelled
					}
					client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: s}, opts...)
					if err != nil {
						t.Fatal(err)
					}
					start := time.Now()
					_, err = client.InspectInvocation(ctx, invocationID)
					if failure := failureOf(t, err); failure.Message != want || failure.Feedback.Code != code || time.Since(start) != 3*time.Second {
						t.Errorf("%s after %v: %s", failure.Feedback.Code, time.Since(start), failure.Message)
					}
				})
			})
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newClient(t, &wire{answer: good}).InspectInvocation(ended, invocationID)
	if failure := failureOf(t, err); failure.Message != "The inspection was cancelled by its caller." {
		t.Errorf("before it began: %s", failure.Message)
	}
}
