package agentauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

// pipes is a listener within the process, for tests whose clock is not the real
// one and for many connections.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	port   int
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{}), 43123} }

func (p *pipes) listen(context.Context, string, string) (net.Listener, error) { return p, nil }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.port} }

// transport gives what a browser dials through.
func (p *pipes) transport() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case p.conns <- there:
			return here, nil
		case <-p.closed:
			return nil, syscall.ECONNREFUSED
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// waited is what Wait gave.
type waited struct {
	credentials registry.Credentials
	session     agentauth.Session
	err         error
}

func wait(ctx context.Context, l *agentauth.Login) <-chan waited {
	done := make(chan waited, 1)
	go func() {
		var w waited
		w.credentials, w.session, w.err = l.Wait(ctx)
		done <- w
	}()
	return done
}

// expectError checks an error of a login for its code, its next action and the
// causes that it matches.
func expectError(t *testing.T, err error, code feedback.Code, next feedback.NextAction, causes ...error) {
	t.Helper()
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		t.Errorf("the error is %v", err)
		return
	}
	if failure.Feedback.Code != code || failure.Feedback.NextAction != next || failure.Feedback.NextAction == feedback.NextInspectOriginal {
		t.Errorf("%s, %s: %v; want %s, %s", failure.Feedback.Code, failure.Feedback.NextAction, err, code, next)
	}
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			t.Errorf("%v does not match %v", err, cause)
		}
	}
	if strings.Contains(err.Error(), "synthetic") {
		t.Errorf("a secret is in %q", err)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	for name, test := range map[string]struct {
		options []agentauth.BeginOption
		prefix  string
	}{
		"any port":   {nil, "http://127.0.0.1:"},
		"IPv6":       {[]agentauth.BeginOption{agentauth.WithIPv6Callback()}, "http://[::1]:"},
		"a port":     {[]agentauth.BeginOption{agentauth.WithCallbackPort(port)}, "http://127.0.0.1:" + strconv.Itoa(port) + "/callback"},
		"its path":   {[]agentauth.BeginOption{agentauth.WithCallbackPath("/a.b/~c_d-e")}, "http://127.0.0.1:"},
		"no options": {[]agentauth.BeginOption{agentauth.WithCallbackPort(0)}, "http://127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			h.subject = "Example Person 例"
			client := h.client()
			before := time.Now()
			l, err := client.Begin(t.Context(), test.options...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(l.Redirect(), test.prefix) || !strings.Contains(l.Redirect(), l.CallbackAddress()) {
				t.Errorf("the browser comes back to %s", l.Redirect())
			}
			if left := l.ExpiresAt().Sub(before); left < 600*time.Second || left > 660*time.Second {
				t.Errorf("%v to decide", left)
			}
			done := wait(t.Context(), l)
			status, page := browse(t, h.approve(l.URL()))
			w := <-done
			if w.err != nil {
				t.Fatal(w.err)
			}
			if status != http.StatusOK || !strings.Contains(page, "You are logged in") {
				t.Errorf("%d: %s", status, page)
			}
			s := h.only()
			want := registry.Binding{HubURL: hubURL, ClientAppID: clientApp, Workspace: workspace, SessionID: s.ID}
			if diff := cmp.Diff(want, w.credentials.Binding()); diff != "" {
				t.Error(diff)
			}
			if w.credentials.AccessToken.Reveal() != s.AccessToken || w.credentials.RefreshToken.Reveal() != s.RefreshToken {
				t.Error("other tokens")
			}
			if until := w.credentials.RefreshExpiresAt.Sub(before); until < 30*24*time.Hour-2*time.Second || until > 30*24*time.Hour+time.Minute {
				t.Errorf("the session ends in %v", until)
			}
			wantSession := agentauth.Session{
				ID: s.ID, ClientAppID: clientApp, DeviceLabel: "Test device", OnBehalfOf: "user-1", SubjectName: "Example Person 例",
				Principal:  agentauth.Principal{ID: "user-1", Tenant: "tenant-1", Roles: []string{"clerk"}},
				Workspaces: []string{workspace}, CreatedAt: s.CreatedAt.UTC(), AccessExpiresAt: s.AccessExpiresAt.UTC(), EndsAt: s.RefreshExpiresAt.UTC(),
			}
			if diff := cmp.Diff(wantSession, w.session); diff != "" {
				t.Error(diff)
			}
			if _, page := browse2(l.Redirect()); !strings.Contains(page, "refused") {
				t.Errorf("the port is still open: %s", page)
			}
			if _, _, err := l.Wait(t.Context()); !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("a second Wait: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := l.Paste(t.Context(), l.Redirect()); !errors.Is(err, feedback.CodeInvalidRequest) {
				t.Errorf("a late paste: %v", err)
			}
			if again, err := client.Session(t.Context(), w.credentials); err != nil || !cmp.Equal(again, w.session) {
				t.Errorf("%+v, %v", again, err)
			}
			if err := client.Revoke(t.Context(), w.credentials); err != nil || len(h.living()) != 0 {
				t.Errorf("%v, %q live on", err, h.living())
			}
			_, err = client.Session(t.Context(), w.credentials)
			expectError(t, err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize)
			if err := client.Revoke(t.Context(), w.credentials); err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// browse2 is a visit that is to fail.
func browse2(address string) (int, string) {
	transport := &http.Transport{DisableKeepAlives: true}
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	response.Body.Close()
	return response.StatusCode, ""
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A port whose number browsers leave out comes back without it.
func TestLoginAtTheUsualPort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newPipes()
		p.port = 80
		l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
		if err != nil {
			t.Fatal(err)
		}
		done := wait(t.Context(), l)
		back := strings.Replace(h.approve(l.URL()), "127.0.0.1:80", "127.0.0.1", 1)
		if status, page := browseThrough(t, p.transport(), back); status != http.StatusOK {
			t.Errorf("%d: %s", status, page)
		}
		if w := <-done; w.err != nil {
			t.Error(w.err)
		}
	})
}

// Whatever is not the browser that comes back from the page of this login does
// not end it and learns nothing, however often it comes.
func TestForgedCallbacks(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := newPipes()
	l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
	if err != nil {
		t.Fatal(err)
	}
	done := wait(t.Context(), l)
	browser := p.transport()
	right := h.approve(l.URL())
	forged := []struct {
		method, address, host string
		status                int
	}{
		{"GET", "http://127.0.0.1:43123/callback", "", 400},
		{"GET", "http://127.0.0.1:43123/callback?code=x", "", 400},
		{"GET", "http://127.0.0.1:43123/callback?code=x&state=", "", 400},
		{"GET", "http://127.0.0.1:43123/callback?code=x&state=wrong", "", 400},
		{"GET", "http://127.0.0.1:43123/callback?error=access_denied&state=" + strings.Repeat("A", 43), "", 400},
		{"GET", right + "&state=" + l.State(), "", 400},
		{"GET", right + "&x=%zz", "", 400},
		{"GET", "http://127.0.0.1:43123/favicon.ico", "", 404},
		{"GET", "http://127.0.0.1:43123/", "", 404},
		{"GET", strings.Replace(right, "/callback", "/callback/", 1), "", 404},
		{"GET", strings.Replace(right, "/callback", "/%63allback", 1), "", 404},
		{"GET", strings.Replace(right, "/callback", "//callback", 1), "", 404},
		{"POST", right, "", 404},
		{"HEAD", right, "", 404},
		{"OPTIONS", right, "", 404},
		{"GET", right, "evil.example.com", 404},
		{"GET", right, "localhost:43123", 404},
		{"GET", right, "127.0.0.1", 404},
		{"GET", right, "127.0.0.1:43124", 404},
		{"GET", right, "[::1]:43123", 404},
	}
	const hits = 10_000
	for i := range hits {
		f := forged[i%len(forged)]
		request, err := http.NewRequest(f.method, f.address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.host != "" {
			request.Host = f.host
		}
		response, err := browser.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != f.status {
			t.Fatalf("%+v: %d, %s, %v", f, response.StatusCode, page, err)
		}
		if told := fmt.Sprint(response.Header) + string(page); strings.Contains(told, l.State()) || strings.Contains(told, "synthetic") {
			t.Fatalf("%+v: something of the login is in %s", f, told)
		}
	}
	select {
	case w := <-done:
		t.Fatalf("it ended the login: %v", w.err)
	default:
	}
	if status, page := browseThrough(t, browser, right); status != http.StatusOK || !strings.Contains(page, "You are logged in") {
		t.Errorf("%d: %s", status, page)
	}
	if w := <-done; w.err != nil {
		t.Error(w.err)
	}
}

// The ways in which a login ends without a session. None asks the Hub for one.
func TestEndings(t *testing.T) {
	t.Parallel()
	why := errors.New("the window was closed")
	for name, test := range map[string]struct {
		do     func(t *testing.T, h *hub, l *agentauth.Login, p *pipes, cancel context.CancelCauseFunc)
		code   feedback.Code
		next   feedback.NextAction
		causes []error
		page   string
	}{
		"denied": {
			do: func(t *testing.T, h *hub, l *agentauth.Login, p *pipes, _ context.CancelCauseFunc) {
				if status, page := browseThrough(t, p.transport(), h.deny(l.URL())); status != http.StatusOK || !strings.Contains(page, "refused") {
					t.Errorf("%d: %s", status, page)
				}
			},
			code: feedback.CodeAccessDenied, next: feedback.NextReauthorize,
		},
		"another error": {
			do: func(t *testing.T, h *hub, l *agentauth.Login, p *pipes, _ context.CancelCauseFunc) {
				browseThrough(t, p.transport(), l.Redirect()+"?error=server_error&code=x&state="+l.State())
			},
			code: feedback.CodeAccessDenied, next: feedback.NextReauthorize,
		},
		"no code": {
			do: func(t *testing.T, h *hub, l *agentauth.Login, p *pipes, _ context.CancelCauseFunc) {
				if _, page := browseThrough(t, p.transport(), l.Redirect()+"?state="+l.State()); !strings.Contains(page, "did not work") {
					t.Error(page)
				}
			},
			code: feedback.CodeAgentInvalidResponse, next: feedback.NextNone,
		},
		"a long code": {
			do: func(t *testing.T, h *hub, l *agentauth.Login, p *pipes, _ context.CancelCauseFunc) {
				browseThrough(t, p.transport(), l.Redirect()+"?state="+l.State()+"&code="+strings.Repeat("x", 4097))
			},
			code: feedback.CodeAgentInvalidResponse, next: feedback.NextNone,
		},
		"two codes": {
			do: func(t *testing.T, h *hub, l *agentauth.Login, p *pipes, _ context.CancelCauseFunc) {
				browseThrough(t, p.transport(), l.Redirect()+"?state="+l.State()+"&code=x&code=y")
			},
			code: feedback.CodeAgentInvalidResponse, next: feedback.NextNone,
		},
		"a person who never comes": {
			do: func(t *testing.T, _ *hub, l *agentauth.Login, _ *pipes, _ context.CancelCauseFunc) {
				time.Sleep(599 * time.Second)
				if err := l.Paste(t.Context(), "nothing"); !errors.Is(err, feedback.CodeInvalidRequest) || strings.Contains(err.Error(), "ended already") {
					t.Errorf("just before the end: %v", err)
				}
			},
			code: feedback.CodeLoginExpired, next: feedback.NextReauthorize,
		},
		"a caller who gives up": {
			do: func(_ *testing.T, _ *hub, _ *agentauth.Login, _ *pipes, cancel context.CancelCauseFunc) {
				time.Sleep(time.Minute)
				cancel(why)
			},
			code: feedback.CodeAgentRequestCancelled, next: feedback.NextNone, causes: []error{context.Canceled, why},
		},
		"closed": {
			do: func(t *testing.T, _ *hub, l *agentauth.Login, _ *pipes, _ context.CancelCauseFunc) {
				time.Sleep(time.Minute)
				for range 3 {
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
			},
			code: feedback.CodeAgentRequestCancelled, next: feedback.NextNone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHub(t)
				p := newPipes()
				l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := wait(ctx, l)
				test.do(t, h, l, p, cancel)
				w := <-done
				expectError(t, w.err, test.code, test.next, test.causes...)
				if w.credentials != (registry.Credentials{}) {
					t.Error("there are credentials")
				}
				if diff := cmp.Diff([]string{"start"}, h.requests); diff != "" {
					t.Error(diff)
				}
				select {
				case <-p.closed:
				default:
					t.Error("the port is still open")
				}
			})
		})
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		l, err := h.client().Begin(t.Context(), agentauth.WithListen(newPipes().listen))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = l.Wait(ctx)
		expectError(t, err, feedback.CodeAgentRequestTimeout, feedback.NextReauthorize, context.DeadlineExceeded)
	})
}

// A login that nobody waits for is closed all the same.
func TestCloseWithoutWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newPipes()
		l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-p.closed:
		default:
			t.Error("the port is still open")
		}
		_, _, err = l.Wait(t.Context())
		expectError(t, err, feedback.CodeAgentRequestCancelled, feedback.NextNone)
	})
}

// The browser comes twice, as when a page is reloaded: the second time while the
// first waits for its page.
func TestCallbackTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		held := make(chan struct{})
		h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
			if step == "session" {
				<-held
			}
			return real(), nil
		})
		p := newPipes()
		l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
		if err != nil {
			t.Fatal(err)
		}
		done := wait(t.Context(), l)
		back := h.approve(l.URL())
		first := make(chan string, 1)
		go func() {
			_, page := browseThrough(t, p.transport(), back)
			first <- page
		}()
		synctest.Wait()
		if status, page := browseThrough(t, p.transport(), back); status != http.StatusConflict || strings.Contains(page, "logged in") {
			t.Errorf("%d: %s", status, page)
		}
		if err := l.Paste(t.Context(), back); !errors.Is(err, feedback.CodeInvalidRequest) || !strings.Contains(err.Error(), "already") {
			t.Errorf("pasted as well: %v", err)
		}
		close(held)
		if w := <-done; w.err != nil {
			t.Error(w.err)
		}
		if page := <-first; !strings.Contains(page, "You are logged in") {
			t.Error(page)
		}
	})
}

// A Hub that takes long keeps the browser waiting for a while only, and the page
// does not say what is not known.
func TestPageOfASlowHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
			if step == "session" {
				time.Sleep(40 * time.Second)
			}
			return real(), nil
		})
		p := newPipes()
		l, err := h.client(agentclient.WithTimeout(time.Minute)).Begin(t.Context(), agentauth.WithListen(p.listen))
		if err != nil {
			t.Fatal(err)
		}
		done := wait(t.Context(), l)
		if status, page := browseThrough(t, p.transport(), h.approve(l.URL())); status != http.StatusOK || !strings.Contains(page, "Go back to the program") {
			t.Errorf("%d: %s", status, page)
		}
		if w := <-done; w.err != nil {
			t.Error(w.err)
		}
	})
}

// A browser that does not read its page holds nothing up for long.
func TestBrowserThatDoesNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newPipes()
		l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
		if err != nil {
			t.Fatal(err)
		}
		done := wait(t.Context(), l)
		back, _ := url.Parse(h.approve(l.URL()))
		here, there := net.Pipe() // a write blocks until it is read
		p.conns <- there
		defer here.Close()
		if _, err := fmt.Fprintf(here, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:43123\r\n\r\n", back.RequestURI()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if w := <-done; w.err != nil {
			t.Error(w.err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestPaste(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	l, err := h.client().Begin(t.Context(), agentauth.WithCallbackPath("/back"))
	if err != nil {
		t.Fatal(err)
	}
	done := wait(t.Context(), l)
	right := h.approve(l.URL())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, wrong := range []string{
		"", "hello", l.URL(), l.Redirect(), l.Redirect() + "?code=x&state=wrong", strings.Replace(right, "/back", "/callback", 1),
		strings.Replace(right, "http:", "https:", 1), strings.Replace(right, "127.0.0.1", "localhost", 1), strings.Replace(right, "//", "//user@", 1),
		right + "#part", "http://%zz", strings.Replace(right, "127.0.0.1:", "127.0.0.1:1", 1),
	} {
		err := l.Paste(t.Context(), wrong)
		expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone)
		if err != nil && strings.Contains(err.Error(), l.State()) {
			t.Errorf("the state is in %v", err)
		}
	}
	if err := l.Paste(ended, right); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	//lint:ignore SA1012 what is refused
	if err := l.Paste(nil, right); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	if err := l.Paste(t.Context(), "  "+strings.TrimPrefix(right, "http://")+"\r\n"); err != nil {
		t.Error(err)
	}
	if w := <-done; w.err != nil {
		t.Error(w.err)
	}
}

// Two logins at once do not see each other; a port can be had once.
func TestTwoLogins(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	client := h.client()
	first, err := client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, portText, _ := net.SplitHostPort(first.CallbackAddress())
	port, _ := strconv.Atoi(portText)
	_, err = client.Begin(t.Context(), agentauth.WithCallbackPort(port))
	expectError(t, err, feedback.CodeUnknownFailure, feedback.NextNone, syscall.EADDRINUSE)
	if err == nil || !strings.Contains(err.Error(), portText) {
		t.Errorf("%v does not name the port", err)
	}
	second, err := client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first.State() == second.State() || first.Verifier() == second.Verifier() || len(first.State()) < 43 || len(first.Verifier()) < 43 {
		t.Error("two logins have the same secrets, or short ones")
	}
	one, two := wait(t.Context(), first), wait(t.Context(), second)
	back := h.approve(second.URL())
	if err := first.Paste(t.Context(), strings.Replace(back, second.CallbackAddress(), first.CallbackAddress(), 1)); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("the address of another login: %v", err)
	}
	browse(t, back)
	browse(t, h.approve(first.URL()))
	a, b := <-one, <-two
	if a.err != nil || b.err != nil || a.session.ID == b.session.ID || len(h.living()) != 2 {
		t.Errorf("%v, %v", a.err, b.err)
	}
	again, err := client.Begin(t.Context(), agentauth.WithCallbackPort(port)) // it is free at once
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestArguments(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	change := func(f func(*agentauth.Config)) agentauth.Config {
		c := config()
		f(&c)
		return c
	}
	for name, c := range map[string]agentauth.Config{
		"no Hub":            change(func(c *agentauth.Config) { c.HubURL = "" }),
		"plain http":        change(func(c *agentauth.Config) { c.HubURL = "http://hub.example.com" }),
		"a secret in it":    change(func(c *agentauth.Config) { c.HubURL = "https://synthetic@hub.example.com" }),
		"no client":         change(func(c *agentauth.Config) { c.ClientAppID = "" }),
		"a capital":         change(func(c *agentauth.Config) { c.ClientAppID = "Demo" }),
		"no workspace":      change(func(c *agentauth.Config) { c.Workspace = "" }),
		"auto":              change(func(c *agentauth.Config) { c.Workspace = "auto" }),
		"a star":            change(func(c *agentauth.Config) { c.Workspace = "*" }),
		"a label of spaces": change(func(c *agentauth.Config) { c.DeviceLabel = "  " }),
		"a long label":      change(func(c *agentauth.Config) { c.DeviceLabel = strings.Repeat("x", 129) }),
		"a line end":        change(func(c *agentauth.Config) { c.DeviceLabel = "a\nb" }),
		"a turned label":    change(func(c *agentauth.Config) { c.DeviceLabel = "a\u202eb" }),
		"no UTF-8":          change(func(c *agentauth.Config) { c.DeviceLabel = "a\xffb" }),
	} {
		_, err := agentauth.New(c)
		expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone)
		if err == nil {
			t.Error(name)
		}
	}
	if _, err := agentauth.New(config(), nil); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	if _, err := agentauth.New(config(), agentclient.WithTimeout(-1)); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	if _, err := agentauth.New(change(func(c *agentauth.Config) { c.HubURL, c.AllowInsecureHTTP = "http://hub.example.com", true })); err != nil {
		t.Error(err)
	}
	client := h.client()
	for name, option := range map[string]agentauth.BeginOption{
		"nil": nil, "port": agentauth.WithCallbackPort(65536), "negative port": agentauth.WithCallbackPort(-1),
		"no path": agentauth.WithCallbackPath(""), "a slash": agentauth.WithCallbackPath("/"), "no slash": agentauth.WithCallbackPath("callback"),
		"query": agentauth.WithCallbackPath("/a?b"), "dots": agentauth.WithCallbackPath("/a/../b"), "dot": agentauth.WithCallbackPath("/."),
		"long": agentauth.WithCallbackPath("/" + strings.Repeat("a", 512)), "escape": agentauth.WithCallbackPath("/%61"),
	} {
		_, err := client.Begin(t.Context(), option)
		expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone)
		if err == nil {
			t.Error(name)
		}
	}
	var none *agentauth.Client
	if _, err := none.Begin(t.Context()); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	//lint:ignore SA1012 what is refused
	if _, err := client.Begin(nil); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Begin(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var login agentauth.Login
	if _, _, err := login.Wait(t.Context()); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	if err := login.Close(); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	if err := login.Paste(t.Context(), ""); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	good := registry.Credentials{
		HubURL: hubURL, ClientAppID: clientApp, Workspace: workspace, SessionID: "bbbbbbbb-bbbb-4bbb-8bbb-000000000001",
		AccessToken: registry.NewSecret("synthetic-access-1"), RefreshToken: registry.NewSecret("synthetic-refresh-1"),
	}
	for name, spoil := range map[string]func(*registry.Credentials){
		"another Hub":       func(c *registry.Credentials) { c.HubURL = "https://other.example.com" },
		"no Hub":            func(c *registry.Credentials) { c.HubURL = "" },
		"another client":    func(c *registry.Credentials) { c.ClientAppID = "other-client" },
		"another workspace": func(c *registry.Credentials) { c.Workspace = "orders" },
		"no access token":   func(c *registry.Credentials) { c.AccessToken = registry.Secret{} },
		"no refresh token":  func(c *registry.Credentials) { c.RefreshToken = registry.NewSecret("a b") },
		"no session":        func(c *registry.Credentials) { c.SessionID = "" },
	} {
		bad := good
		spoil(&bad)
		_, err := client.Session(t.Context(), bad)
		expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone)
		expectError(t, client.Revoke(t.Context(), bad), feedback.CodeInvalidRequest, feedback.NextNone)
		if err == nil {
			t.Error(name)
		}
	}
	if len(h.requests) != 0 {
		t.Errorf("%q were sent", h.requests)
	}
}
