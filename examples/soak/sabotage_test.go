package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// Each of these breaks one thing on purpose. A run that does not notice is
// blind.
func TestSabotageIsNoticed(t *testing.T) {
	noticed := map[invariant]bool{}
	for _, test := range []struct {
		name   string
		config config
		want   invariant
		or     invariant // the same, but where the SDK itself may be the first to notice
	}{
		{"a letter of a text is changed on the way", config{wire: onReceipts(changeLetter)}, receiptIsTrue, receiptIsTrue},
		{"an older answer is given", config{wire: stale}, receiptIsTrue, receiptIsTrue},
		{"a Hub's answer is given for another one", config{wire: swapped()}, receiptIsTrue, receiptIsTrue},
		{"an answer of another session is given", config{sdk: oneForAll}, bindingIsKept, bindingIsKept},
		{"a binding that changed is overlooked", config{store: func(s registry.Store) registry.Store { return &unchanging{Store: s} }}, bindingIsKept, errorIsKnown},
		{"an operation is sent", config{above: also(submit)}, nothingIsDone, nothingIsDone},
		{"an operation is sent where nobody looks", config{wire: also(submit)}, nothingIsDone, nothingIsDone},
		{"an operation is resumed", config{above: also(resume)}, nothingIsDone, nothingIsDone},
		{"the host's cookies are sent", config{above: withCookie}, nothingIsDone, nothingIsDone},
		{"the token of another session is sent", config{store: func(s registry.Store) registry.Store { return &mixed{Store: s} }}, tokenStaysHome, tokenStaysHome},
		{"a read is sent twice", config{above: also(func(r *http.Request) *http.Request { return r.Clone(r.Context()) })}, requestIsChecked, requestIsChecked},
		{"an error is of another kind", config{sdk: failing(func(error) error { return io.ErrUnexpectedEOF })}, errorIsKnown, errorIsKnown},
		{"an error shows a token", config{sdk: failing(withToken)}, errorIsKnown, errorIsKnown},
		{"an error wraps a token", config{sdk: failing(wrappingToken)}, errorIsKnown, errorIsKnown},
		{"an error has no reason", config{sdk: failing(bindingChanged)}, errorIsKnown, errorIsKnown},
		{"an error is of another invocation", config{sdk: failing(ofNothing)}, errorIsKnown, errorIsKnown},
		{"a refresh is sent twice", config{above: repeatedPost}, refreshIsOnce, refreshIsOnce},
		{"a rotation is not saved", config{store: func(s registry.Store) registry.Store { return forgetful{s} }}, refreshIsOnce, refreshIsOnce},
		{"a refresh is sent twice where nobody looks", config{wire: repeatedPost}, refreshIsOnce, refreshIsOnce},
		{"a batch leaves an entry out", config{sdk: batching(0)}, answerIsOnce, answerIsOnce},
		{"a batch answers an entry twice", config{sdk: batching(2)}, answerIsOnce, answerIsOnce},
		{"a watch tells the same twice", config{sdk: watching(2)}, answerIsOnce, answerIsOnce},
		{"a watch just ends", config{sdk: watching(0)}, answerIsOnce, answerIsOnce},
		{"a goroutine stays", config{wire: leaking(leakGoroutine), duration: short, settle: short}, nothingIsLeft, nothingIsLeft},
		{"a descriptor stays", config{wire: leaking(leakDescriptor), duration: short, settle: short}, nothingIsLeft, nothingIsLeft},
		{"a session is not saved in the end", config{sdk: func(s sdk) sdk { return unsavedInTheEnd{s} }, duration: short}, sessionIsKept, sessionIsKept},
		{"memory grows", config{wire: leaking(leakMemory)}, memoryIsBounded, memoryIsBounded},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaked.reset()
			defer leaked.reset()
			c := test.config
			c.seed = 1
			if c.duration == 0 {
				c.duration = 30 * time.Second // it takes a moment
			}
			_, err := run(t.Context(), c)
			breach, ok := errors.AsType[*breach](err)
			if !ok || breach.invariant != test.want && breach.invariant != test.or {
				t.Fatalf("%v, want a breach of %q", err, test.want)
			}
			if hasToken(breach.account) {
				t.Errorf("a token is in the account: %s", breach.account)
			}
			noticed[breach.invariant] = true
		})
	}
	for _, i := range []invariant{receiptIsTrue, bindingIsKept, nothingIsDone, tokenStaysHome, requestIsChecked, errorIsKnown, refreshIsOnce, sessionIsKept, answerIsOnce, nothingIsLeft, memoryIsBounded} {
		if !noticed[i] {
			t.Errorf("nothing was noticed that breaks %q", i)
		}
	}
}

// unsavedInTheEnd is a transport that has something left when it is closed.
type unsavedInTheEnd struct{ sdk }

func (u unsavedInTheEnd) Close(ctx context.Context) error {
	return errors.Join(u.sdk.Close(ctx), host.ErrSessionUnsaved)
}

const short = 300 * time.Millisecond

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// onReceipts changes the bodies of good receipts.
func onReceipts(change func([]byte) []byte) func(*hub, http.RoundTripper) http.RoundTripper {
	return func(_ *hub, below http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := below.RoundTrip(r)
			if err != nil || invocationIn(r.URL.Path) == "" || response.StatusCode != http.StatusOK {
				return response, err
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil {
				return nil, err
			}
			response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(change(body))), -1
			return response, nil
		})
	}
}

func changeLetter(body []byte) []byte {
	return bytes.Replace(body, []byte("Synthetic text."), []byte("Synthetic test."), 1)
}

// stale is a cache in front of a Hub.
func stale(h *hub, below http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	old := map[string][]byte{}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		return onReceipts(func(body []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			if old[r.URL.Path] == nil {
				old[r.URL.Path] = body
			}
			return old[r.URL.Path]
		})(h, below).RoundTrip(r)
	})
}

// swapped gives what another Hub says of the same id.
func swapped() func(*hub, http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	said := map[string]map[*hub][]byte{}
	return func(h *hub, below http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return onReceipts(func(body []byte) []byte {
				mu.Lock()
				defer mu.Unlock()
				if said[r.URL.Path] == nil {
					said[r.URL.Path] = map[*hub][]byte{}
				}
				said[r.URL.Path][h] = body
				own := membersOf(body)
				for other, answer := range said[r.URL.Path] {
					// One that the SDK itself refuses would prove nothing here.
					if theirs := membersOf(answer); other != h && own.route == theirs.route && own.tool == theirs.tool {
						return bytes.Replace(answer, []byte(theirs.run), []byte(own.run), 1)
					}
				}
				return body
			})(h, below).RoundTrip(r)
		})
	}
}

// members are those of a receipt that the SDK can compare with the original.
type members struct{ route, tool, run string }

func membersOf(body []byte) members {
	value := func(name string) string {
		_, rest, _ := strings.Cut(string(body), `"`+name+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	return members{value("route"), value("tool"), value("agent_run_id")}
}

// also sends another request beside each read.
func also(another func(*http.Request) *http.Request) func(*hub, http.RoundTripper) http.RoundTripper {
	return func(_ *hub, below http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				if response, err := below.RoundTrip(another(r)); err == nil {
					response.Body.Close()
				}
			}
			return below.RoundTrip(r)
		})
	}
}

func submit(r *http.Request) *http.Request {
	return post(r, "/agent-api/v1/tool-invocations", `{"route":"catalog-agent","tool":"product_update"}`)
}

func resume(r *http.Request) *http.Request {
	return post(r, "/agent-api/v1/tool-invocations/"+strings.Repeat("0", 64)+"/resume", "")
}

func post(r *http.Request, path, body string) *http.Request {
	p := r.Clone(r.Context())
	p.Method, p.URL.Path, p.Body, p.ContentLength = http.MethodPost, path, io.NopCloser(strings.NewReader(body)), int64(len(body))
	return p
}

func withCookie(_ *hub, below http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Cookie", "of=the host")
		return below.RoundTrip(r)
	})
}

// repeatedPost is a transport that repeats what must not be repeated.
func repeatedPost(_ *hub, below http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			// Of the call, without what the SDK put in the way of a second attempt.
			again := r.Clone(context.WithValue(context.Background(), callKey{}, callOf(r.Context())))
			again.Body = io.NopCloser(bytes.NewReader(body))
			if response, err := below.RoundTrip(again); err == nil {
				response.Body.Close()
			}
		}
		return below.RoundTrip(r)
	})
}

// unchanging is a store that does not notice new logins and removals: it gives
// what it last gave of the session that a call is for.
type unchanging struct {
	registry.Store
	mu          sync.Mutex
	connections map[string]registry.Connection
	credentials map[string]registry.Credentials // by session
}

func (s *unchanging) Connection(ctx context.Context, key string) (registry.Connection, error) {
	connection, err := s.Store.Connection(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connections == nil {
		s.connections, s.credentials = map[string]registry.Connection{}, map[string]registry.Credentials{}
	}
	if err == nil {
		s.connections[key] = connection
	}
	return s.connections[key], nil
}

func (s *unchanging) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	credentials, err := s.Store.Credentials(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.credentials[credentials.SessionID] = credentials
	}
	if c := callOf(ctx); c != nil && len(c.questions) == 1 {
		if old, ok := s.credentials[c.questions[0].session()]; ok {
			return old, nil
		}
	}
	return credentials, err
}

// mixed gives the token of a session that it has seen with another login.
type mixed struct {
	registry.Store
	mu   sync.Mutex
	seen map[string]registry.Secret
}

func (s *mixed) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	credentials, err := s.Store.Credentials(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]registry.Secret{}
	}
	for other, token := range s.seen {
		if err == nil && other != key {
			credentials.AccessToken = token
		}
	}
	if err == nil && s.seen[key] == (registry.Secret{}) {
		s.seen[key] = credentials.AccessToken
	}
	return credentials, err
}

type update = func(context.Context, registry.Credentials) (registry.Credentials, error)

// forgetful saves no rotation.
type forgetful struct{ registry.Store }

func (s forgetful) UpdateCredentials(ctx context.Context, key string, do update) error {
	return s.Store.UpdateCredentials(ctx, key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
		_, err := do(ctx, c)
		return c, err
	})
}

// broken is an SDK that is not itself.
type broken struct {
	sdk
	single func(context.Context, host.Original, *receipt.Receipt, error) (*receipt.Receipt, error)
	times  int // how often a batch or a watch gives each of its answers
	many   bool
	one    bool
}

func (b broken) InspectInvocation(ctx context.Context, o host.Original) (*receipt.Receipt, error) {
	observed, err := b.sdk.InspectInvocation(ctx, o)
	if b.single != nil {
		return b.single(ctx, o, observed, err)
	}
	return observed, err
}

func (b broken) InspectInvocations(ctx context.Context, o []host.Original, opts ...host.BatchOption) iter.Seq[host.Observation] {
	return func(yield func(host.Observation) bool) {
		for observation := range b.sdk.InspectInvocations(ctx, o, opts...) {
			times := 1
			if b.many {
				times = b.times
			}
			for range times {
				if !yield(observation) {
					return
				}
			}
		}
	}
}

func (b broken) WatchInvocation(ctx context.Context, o host.Original, opts ...host.WatchOption) iter.Seq2[*receipt.Receipt, error] {
	return func(yield func(*receipt.Receipt, error) bool) {
		for observed, err := range b.sdk.WatchInvocation(ctx, o, opts...) {
			times := 1
			if b.one {
				times = b.times
			}
			for range times {
				if !yield(observed, err) {
					return
				}
			}
		}
	}
}

func batching(times int) func(sdk) sdk {
	return func(s sdk) sdk { return broken{sdk: s, many: true, times: times} }
}

func watching(times int) func(sdk) sdk {
	return func(s sdk) sdk { return broken{sdk: s, one: true, times: times} }
}

// oneForAll knows each receipt that it ever gave, and asks nobody's session.
func oneForAll(s sdk) sdk {
	var mu sync.Mutex
	known := map[string]*receipt.Receipt{}
	return broken{sdk: s, single: func(ctx context.Context, o host.Original, observed *receipt.Receipt, err error) (*receipt.Receipt, error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			known[o.InvocationID] = observed
		}
		if callOf(ctx).questions[0].crossed && known[o.InvocationID] != nil {
			return known[o.InvocationID], nil
		}
		return observed, err
	}}
}

// failing gives an error in the place of a receipt.
func failing(with func(error) error) func(sdk) sdk {
	return func(s sdk) sdk {
		return broken{sdk: s, single: func(_ context.Context, o host.Original, observed *receipt.Receipt, err error) (*receipt.Receipt, error) {
			if err == nil {
				return nil, with(invocation(o.InvocationID))
			}
			return nil, err
		}}
	}
}

// invocation carries an id to where an error is made.
type invocation string

func (i invocation) Error() string { return string(i) }

func failure(of error, f failures.Failure) error {
	f.InvocationID = of.Error()
	return failures.New(f)
}

func withToken(of error) error {
	return failure(of, failures.Failure{Event: failures.ConnectionLost, Message: "It went with synthetic-access-0."})
}

func wrappingToken(of error) error {
	return failure(of, failures.Failure{Event: failures.ConnectionLost, Causes: []error{errors.New("synthetic-refresh-0")}})
}

func bindingChanged(of error) error {
	return failure(of, failures.Failure{Event: failures.BindingChanged})
}

func ofNothing(error) error {
	return failures.New(failures.Failure{Event: failures.ConnectionLost})
}

// leaked is what the leaks of a test left, to be taken away after it.
var leaked leaks

type leaks struct {
	mu     sync.Mutex
	stop   chan struct{}
	files  []*os.File
	memory [][]byte
}

func (l *leaks) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		close(l.stop)
	}
	for _, f := range l.files {
		f.Close()
	}
	l.stop, l.files, l.memory = make(chan struct{}), nil, nil
}

func leaking(what func(*leaks)) func(*hub, http.RoundTripper) http.RoundTripper {
	return func(_ *hub, below http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			leaked.mu.Lock()
			what(&leaked)
			leaked.mu.Unlock()
			return below.RoundTrip(r)
		})
	}
}

func leakGoroutine(l *leaks) {
	stop := l.stop
	go func() { <-stop }()
}

func leakDescriptor(l *leaks) {
	if f, err := os.Open(os.DevNull); err == nil {
		l.files = append(l.files, f)
	}
}

func leakMemory(l *leaks) { l.memory = append(l.memory, make([]byte, 8<<20)) }
