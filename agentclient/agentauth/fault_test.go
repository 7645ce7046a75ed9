package agentauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

// edited lets the request take effect and changes the body of its answer.
func edited(edit func(body string) string) fault {
	return func(_ string, real func() *http.Response) (*http.Response, error) {
		r := real()
		body, _ := io.ReadAll(r.Body)
		return answer(r.StatusCode, edit(string(body))), nil
	}
}

func replaced(old, new string) fault {
	return edited(func(body string) string { return strings.Replace(body, old, new, 1) })
}

// instead lets the request take effect and gives another answer.
func instead(status int, body string) fault {
	return func(_ string, real func() *http.Response) (*http.Response, error) {
		real()
		r := answer(status, body)
		if status/100 == 3 {
			r.Header.Set("Location", "https://evil.example.com/")
		}
		return r, nil
	}
}

// unasked answers without the request ever having got to the Hub.
func unasked(status int, body string) fault {
	return func(string, func() *http.Response) (*http.Response, error) { return answer(status, body), nil }
}

// lost lets the request take effect, or not, and gives an error.
func lost(effect bool, err error) fault {
	return func(_ string, real func() *http.Response) (*http.Response, error) {
		if effect {
			real()
		}
		return nil, err
	}
}

// cut loses the answer in the middle of its body.
func cut(_ string, real func() *http.Response) (*http.Response, error) {
	r := real()
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body[:len(body)/2])), brokenReader{}))
	return r, nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// slow takes effect and answers after an hour.
func slow(_ string, real func() *http.Response) (*http.Response, error) {
	r := real()
	time.Sleep(time.Hour)
	return r, nil
}

// padded makes a body longer than any answer may be.
func padded(body string) string {
	return strings.TrimSuffix(body, "}") + `,"padding":"` + strings.Repeat("x", 1<<20) + `"}`
}

var sessionID = regexp.MustCompile(`"session_id":"[0-9a-f-]{36}"`)

var faults = map[string]fault{
	"lost before":          lost(false, io.EOF),
	"lost after":           lost(true, io.ErrUnexpectedEOF),
	"refused":              lost(false, syscall.ECONNREFUSED),
	"cut":                  cut,
	"slow":                 slow,
	"301":                  instead(301, ""),
	"302":                  instead(302, `{"access_token":"synthetic-access-1"}`),
	"307":                  instead(307, ""),
	"304":                  instead(304, ""),
	"102":                  instead(102, ""),
	"202":                  instead(202, `{}`),
	"204":                  instead(204, ""),
	"206":                  instead(206, `{"revoked":true}`),
	"400 page":             instead(400, "<html>no</html>"),
	"400 invalid_request":  unasked(400, `{"error":"invalid_request"}`),
	"400 unknown code":     instead(400, `{"error":"something_new","error_description":"synthetic-words"}`),
	"400 number":           instead(400, `{"error":5}`),
	"401":                  instead(401, `{"error":"unauthorized"}`),
	"403":                  instead(403, `{"error":"forbidden"}`),
	"404":                  instead(404, `{"error":"not_found"}`),
	"405":                  instead(405, ``),
	"408":                  instead(408, ``),
	"413":                  instead(413, ``),
	"425":                  instead(425, ``),
	"429":                  instead(429, `{"error":"rate_limited"}`),
	"500":                  instead(500, `{"error":"internal_error","request_id":"synthetic-id"}`),
	"501":                  instead(501, ``),
	"502":                  instead(502, `<html>bad gateway</html>`),
	"503 unavailable":      unasked(503, `{"error":"agent_auth_unavailable"}`),
	"503 page":             instead(503, `{"error":"agent_authorize_url_invalid"}`),
	"504":                  instead(504, ``),
	"over 1 MiB":           edited(padded),
	"not JSON":             edited(func(body string) string { return "<html>" + body }),
	"an array":             edited(func(body string) string { return "[" + body + "]" }),
	"two objects":          edited(func(body string) string { return body + body }),
	"a mark in front":      edited(func(body string) string { return "\ufeff" + body }),
	"no UTF-8":             edited(func(body string) string { return strings.TrimSuffix(body, "}") + ",\"x\":\"\xff\"}" }),
	"nothing":              edited(func(string) string { return "" }),
	"empty object":         edited(func(string) string { return "{}" }),
	"null":                 edited(func(string) string { return "null" }),
	"a member twice":       edited(func(body string) string { return strings.TrimSuffix(body, "}") + "," + strings.TrimPrefix(body, "{") }),
	"capitals":             edited(func(body string) string { return strings.ReplaceAll(body, `_`, `_X`) }),
	"expires_in 0":         edited(expiry("0")),
	"expires_in text":      edited(expiry(`"900"`)),
	"expires_in negative":  edited(expiry("-1")),
	"expires_in fraction":  edited(expiry("900.5")),
	"expires_in exponent":  edited(expiry("9e2")),
	"expires_in null":      edited(expiry("null")),
	"expires_in huge":      edited(expiry("99999999999999999999")),
	"expires_in 3601":      edited(expiry("3601")),
	"bearer in lower case": replaced(`"Bearer"`, `"bearer"`),
	"another token type":   replaced(`"Bearer"`, `"mac"`),
	"another session": edited(func(body string) string {
		return sessionID.ReplaceAllString(body, `"session_id":"cccccccc-cccc-4ccc-8ccc-cccccccccccc"`)
	}),
	"no session":           edited(func(body string) string { return sessionID.ReplaceAllString(body, `"session_id":"cccccccc-cccc"`) }),
	"another client":       replaced(`"client_app_id":"demo-client"`, `"client_app_id":"other-client"`),
	"another workspace":    replaced(`["inventory"]`, `["orders"]`),
	"no workspace":         replaced(`["inventory"]`, `[]`),
	"a workspace's text":   replaced(`["inventory"]`, `"inventory"`),
	"a star":               replaced(`["inventory"]`, `["*"]`),
	"no access token":      edited(func(body string) string { return strings.Replace(body, `"access_token":"`, `"access_toke":"`, 1) }),
	"a token with a space": replaced("synthetic-access-", "synthetic access "),
	"no refresh token":     replaced(`"refresh_token"`, `"refresh_toke"`),
	"a short session":      replaced(`"refresh_expires_in":2592000`, `"refresh_expires_in":0`),
	"no time":              replaced(`"created_at":"2`, `"created_at":"x`),
	"no authorization":     replaced(`"authorization_id":"`, `"authorization_id":"x`),
	"a script's address":   replaced("https://business.example.test", "javascript://business.example.com"),
	"an open address":      replaced("https://business.example.test", "http://business.example.com"),
	"a user's address":     replaced("https://business.example.test", "https://a@business.example.com"),
	"no confirmation":      replaced(`"revoked":true`, `"revoked":false`),
}

func expiry(value string) func(string) string {
	return func(body string) string {
		for _, usual := range []string{"600", "900"} {
			body = strings.Replace(body, `"expires_in":`+usual, `"expires_in":`+value, 1)
		}
		return body
	}
}

// Whatever goes wrong at whichever step, once or for good: either there is a
// login, stored and alive, or the store is as it was, and no session lives on
// that nobody holds, or the error says so.
func TestFaultsAtEachStep(t *testing.T) {
	t.Parallel()
	count := 0
	for _, step := range []string{"start", "exchange", "session", "revoke"} {
		for name, fault := range faults {
			for _, often := range []int{1, 100} {
				for _, alsoRevoke := range []bool{false, true} {
					if alsoRevoke && (often == 1 || step == "start" || step == "revoke") {
						continue
					}
					count++
					t.Run(fmt.Sprint(step, "/", name, "/", often, alsoRevoke), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { tryFault(t, step, fault, often, alsoRevoke) })
					})
				}
			}
		}
	}
	if count < 200 {
		t.Errorf("only %d logins", count)
	}
}

func tryFault(t *testing.T, faulty string, fault fault, often int, alsoRevoke bool) {
	var met atomic.Int32 // by requests, some of which nobody waits for any more
	h := newHub(t)
	h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
		if step == faulty || alsoRevoke && step == "revoke" {
			if int(met.Add(1)) <= often || alsoRevoke && step == "revoke" {
				return fault(step, real)
			}
		}
		if faulty == "revoke" && step == "session" { // there must be something to end
			return faults["another workspace"](step, real)
		}
		return real(), nil
	})
	store := registry.NewMemory()
	p := newPipes()
	result, err := agentauth.LogIn(t.Context(), store, config(), agentauth.LogInOptions{
		Client:   []agentclient.Option{h.option()},
		Callback: []agentauth.BeginOption{agentauth.WithListen(p.listen)},
		Show: func(_ context.Context, prompt agentauth.Prompt) error {
			go browseThrough(t, p.transport(), h.approve(prompt.URL))
			return nil
		},
	})
	time.Sleep(10 * time.Hour) // for requests that the client has given up
	connections, _ := store.List(t.Context())
	living := h.living()
	if err == nil {
		credentials, err := store.Credentials(t.Context(), result.Connection.Key)
		if err != nil || len(living) != 1 || living[0] != credentials.SessionID || credentials.SessionID != result.Session.ID {
			t.Errorf("a login of %q (%v), and %q live", credentials.SessionID, err, living)
		}
		return
	}
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok || failure.Feedback.Operation != feedback.OperationLogin || failure.Feedback.NextAction == feedback.NextInspectOriginal || failure.Feedback.InvocationID != "" {
		t.Errorf("%#v", err)
	}
	if strings.Contains(err.Error(), "synthetic") || strings.Contains(err.Error(), "html") {
		t.Errorf("a server's words, or a secret, in %v", err)
	}
	if len(connections) != 0 {
		t.Errorf("the store has %v", connections)
	}
	if says := errors.Is(err, agentauth.ErrSessionLivesOn); len(living) != 0 && !says {
		t.Errorf("%q live on, and the error is %v", living, err)
	} else if says != strings.Contains(err.Error(), "lives on") {
		t.Errorf("the sentence and the sentinel differ: %v", err)
	}
}

// What the Hub can be asked again is asked again.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"exchange", "session"} {
		for name, fault := range map[string]fault{
			"lost before": lost(false, io.EOF), "503": unasked(503, ""), "429": unasked(429, ""), "refused": lost(false, syscall.ECONNREFUSED),
		} {
			t.Run(step+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { expectLogin(t, step, fault) })
			})
		}
	}
	t.Run("session lost after", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { expectLogin(t, "session", lost(true, io.EOF)) })
	})
	t.Run("start lost", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { expectLogin(t, "start", lost(true, io.EOF)) })
	})
}

func expectLogin(t *testing.T, faulty string, fault fault) {
	h := newHub(t)
	times := 0
	h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
		if step == faulty {
			if times++; times <= 2 {
				return fault(step, real)
			}
		}
		return real(), nil
	})
	p := newPipes()
	l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
	if err != nil {
		t.Fatal(err)
	}
	done := wait(t.Context(), l)
	browseThrough(t, p.transport(), h.approve(l.URL()))
	if w := <-done; w.err != nil || times != 3 {
		t.Errorf("%v after %d times", w.err, times)
	}
}

// Whenever the caller gives up, nothing is left behind, within seconds.
func TestGivingUpAtEachStep(t *testing.T) {
	t.Parallel()
	for _, faulty := range []string{"exchange", "session"} {
		for _, effect := range []bool{true, false} {
			for _, hub := range []time.Duration{time.Second, time.Hour} {
				t.Run(fmt.Sprint(faulty, effect, hub), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						h := newHub(t)
						why := errors.New("Ctrl-C")
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						var since time.Time
						h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
							if step != faulty {
								return real(), nil
							}
							var r *http.Response
							if effect {
								r = real()
							}
							since = time.Now()
							cancel(why)
							time.Sleep(hub)
							if !effect {
								return nil, io.EOF
							}
							return r, nil
						})
						p := newPipes()
						l, err := h.client().Begin(ctx, agentauth.WithListen(p.listen))
						if err != nil {
							t.Fatal(err)
						}
						done := wait(ctx, l)
						go browseThrough(t, p.transport(), h.approve(l.URL()))
						w := <-done
						expectError(t, w.err, feedback.CodeAgentRequestCancelled, feedback.NextNone, context.Canceled, why)
						if took := time.Since(since); took > 11*time.Second {
							t.Errorf("it took %v", took)
						}
						time.Sleep(10 * time.Hour) // for requests that the client has given up
						says := errors.Is(w.err, agentauth.ErrSessionLivesOn)
						if lives := len(h.living()) > 0; lives && !says || says && faulty == "session" {
							t.Errorf("lives %v, says %v: %v", lives, says, w.err)
						}
					})
				})
			}
		}
	}
}

// A grant that is not a good one gives its session away: that is ended.
func TestBadGrantsAreEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"expires_in 0", "expires_in text", "expires_in null", "expires_in huge", "bearer in lower case", "another token type", "another client",
		"no session", "no access token", "no refresh token", "a token with a space", "a short session", "no UTF-8", "206 whole", "two objects",
	} {
		fault, ok := faults[name]
		if !ok {
			fault = func(_ string, real func() *http.Response) (*http.Response, error) {
				r := real()
				r.StatusCode = http.StatusPartialContent
				return r, nil
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHub(t)
				h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
					if step == "exchange" {
						return fault(step, real)
					}
					return real(), nil
				})
				p := newPipes()
				l, err := h.client().Begin(t.Context(), agentauth.WithListen(p.listen))
				if err != nil {
					t.Fatal(err)
				}
				done := wait(t.Context(), l)
				browseThrough(t, p.transport(), h.approve(l.URL()))
				w := <-done
				expectError(t, w.err, feedback.CodeAgentInvalidResponse, feedback.NextNone)
				if len(h.living()) != 0 || errors.Is(w.err, agentauth.ErrSessionLivesOn) || !strings.Contains(w.err.Error(), "ended again") {
					t.Errorf("%v, %q live", w.err, h.living())
				}
			})
		})
	}
}
