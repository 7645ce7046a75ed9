package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

// expiring makes the stored access token one that has this long to live.
func (w *world) expiring(left time.Duration) {
	w.t.Helper()
	credentials, err := w.store.Credentials(context.Background(), w.connection.Key)
	w.must(err)
	credentials.AccessExpiresAt = time.Now().Add(left)
	w.must(w.store.SaveCredentials(context.Background(), w.connection.Key, credentials))
}

func (w *world) stored() registry.Credentials {
	w.t.Helper()
	credentials, err := w.store.Credentials(context.Background(), w.connection.Key)
	w.must(err)
	return credentials
}

func TestRefreshBeforeExpiry(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration][]string{
		30 * time.Second:                    {"capabilities", "receipt"},
		30*time.Second - time.Millisecond:   {"refresh", "capabilities", "receipt"},
		-24 * time.Hour:                     {"refresh", "capabilities", "receipt"},
		24*time.Hour - 30*time.Second:       {"capabilities", "receipt"},
		time.Duration(-1) * time.Nanosecond: {"refresh", "capabilities", "receipt"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.expiring(left)
			if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, w.wire.requests()); diff != "" {
				t.Errorf("%v left: requests (-want +got):\n%s", left, diff)
			}
			if w.wire.count("refresh") == 0 {
				return
			}
			hub, _ := w.hub.Session(w.session.ID)
			stored := w.stored()
			if stored.AccessToken.Reveal() != hub.AccessToken || stored.RefreshToken.Reveal() != hub.RefreshToken || hub.Rotations != 1 {
				t.Errorf("%v left: the rotation is not what is stored", left)
			}
		})
	}
}

func TestRefreshAfter401(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.ExpireAccess(w.session.ID)
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"capabilities", "refresh", "capabilities", "receipt"}, w.wire.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A 401 to a token that is not the stored one any more only reads again.
func TestA401ToAnOldTokenReadsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wire.before = on("capabilities", sync.OnceFunc(func() {
		// Another process was first.
		other := w.newTransport(w.store, agentclient.WithHTTPClient(&http.Client{Transport: w.hub.Transport()}))
		w.hub.ExpireAccess(w.session.ID)
		if _, err := other.InspectInvocation(t.Context(), w.original); err != nil {
			t.Error(err)
		}
	}))
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"capabilities", "capabilities", "receipt"}, w.wire.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// An inspection refreshes once: a fresh token that lives shorter than the
// margin is used all the same, and a second 401 is final.
func TestOneRefreshInAnInspection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hubtest.WithLifetimes(10*time.Second, time.Hour))
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"refresh", "capabilities", "receipt"}, w.wire.requests()); diff != "" {
		t.Errorf("short-lived token: requests (-want +got):\n%s", diff)
	}

	for name, want := range map[string][]string{
		"after an expired token": {"refresh", "capabilities"},
		"after a 401":            {"capabilities", "refresh", "capabilities"},
	} {
		w := newWorld(t)
		if name == "after an expired token" {
			w.expiring(0)
		}
		w.hub.Inject(hubtest.Fault{On: hubtest.CapabilitiesRequest, Status: 401, Times: -1})
		failure := w.refused(feedback.CodeAgentAuthorizationUnavailable)
		if failure.StatusCode != 401 || failure.Feedback.Origin != feedback.OriginCore {
			t.Errorf("%s: %+v", name, failure)
		}
		if diff := cmp.Diff(want, w.wire.requests()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
}

func TestManyMeetAnExpiredToken(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]func(*world){
		"expired": func(w *world) { w.expiring(time.Second) },
		"dead":    func(w *world) { w.hub.ExpireAccess(w.session.ID) },
		"both":    func(w *world) { w.expiring(time.Second); w.hub.ExpireAccess(w.session.ID) },
		"the Hub's": func(w *world) {
			w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: 50 * time.Millisecond})
			w.expiring(0)
		},
	} {
		w := newWorld(t)
		expire(w)
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if n := w.wire.count("refresh"); n != 1 {
			t.Errorf("%s: %d refreshes", name, n)
		}
		if n := w.wire.count("receipt"); n != 64 {
			t.Errorf("%s: %d receipts", name, n)
		}
	}
}

// Two transports over one store stand for two processes.
func TestTransportsShareARefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	transports := []*host.Transport{w.transport, w.newTransport(w.store), w.newTransport(w.store)}
	for range 20 {
		before := w.wire.count("refresh")
		w.hub.ExpireAccess(w.session.ID)
		var all sync.WaitGroup
		for n := range 24 {
			all.Go(func() {
				if _, err := transports[n%3].InspectInvocation(t.Context(), w.original); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := w.wire.count("refresh") - before; n != 1 {
			t.Errorf("%d refreshes", n)
		}
	}
}

// A caller that gives up returns at once; the flight goes on, saves, and is
// there for the others.
func TestGivingUpDuringARefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expiring(0)
	hold := w.hub.Hold(hubtest.RefreshRequest, hubtest.AtAnswer)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := w.transport.InspectInvocation(ctx, w.original)
		gone <- err
	}()
	<-hold.Arrived()
	stays := make(chan error, 1)
	go func() {
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		stays <- err
	}()
	cancel()
	w.failure(<-gone, feedback.CodeAgentRequestCancelled)
	hold.Release()
	if err := <-stays; err != nil {
		t.Errorf("the other caller: %v", err)
	}
	if n := w.wire.count("refresh"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
	if hub, _ := w.hub.Session(w.session.ID); w.stored().AccessToken.Reveal() != hub.AccessToken {
		t.Error("the rotation was not saved")
	}
}

func TestNobodyWaitsForARefreshAndItIsSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expiring(0)
		w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: 3 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := w.transport.InspectInvocation(ctx, w.original)
		failure := w.failure(err, feedback.CodeAgentRequestTimeout)
		if time.Since(start) != time.Second || failure.Feedback.Dispatch != feedback.DispatchNotDispatched {
			t.Errorf("%v after %v", failure.Feedback, time.Since(start))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if hub, _ := w.hub.Session(w.session.ID); hub.Rotations != 1 || w.stored().AccessToken.Reveal() != hub.AccessToken {
			t.Errorf("%d rotations, or the last one was not saved", hub.Rotations)
		}
	})
}

// The Hub takes the refresh token, and its answer stalls until the time is over:
// the same token is not sent again within a minute. Then it may be, because
// nothing is left to lose.
func TestRefreshThatStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expiring(0)
		hold := w.hub.Hold(hubtest.RefreshRequest, hubtest.AtBody)
		defer hold.Release()
		w.refused(feedback.CodeAgentRequestTimeout)
		time.Sleep(59 * time.Second)
		w.refused(feedback.CodeAgentRequestTimeout)
		if n := w.wire.count("refresh"); n != 1 {
			t.Errorf("sent %d times", n)
		}
		time.Sleep(2 * time.Second)
		w.refused(feedback.CodeAgentAuthorizationUnavailable)
		if n := w.wire.count("refresh"); n != 2 {
			t.Errorf("sent %d times", n)
		}
	})
}

// grant is a good answer to a refresh, with one member changed.
func grant(session, member, value string) []byte {
	members := map[string]string{
		"token_type": `"Bearer"`, "access_token": `"synthetic-access-next"`, "refresh_token": `"synthetic-refresh-next"`,
		"expires_in": "900", "refresh_expires_in": "2592000", "session_id": `"` + session + `"`, "client_app_id": `"` + hubtest.DefaultClient + `"`,
	}
	if value == "" {
		delete(members, member)
	} else if member != "" {
		members[member] = value
	}
	var list []string
	for name, value := range members {
		list = append(list, `"`+name+`":`+value)
	}
	return []byte("{" + strings.Join(list, ",") + "}")
}

func TestRefreshAnswers(t *testing.T) {
	t.Parallel()
	type test struct {
		fault      hubtest.Fault
		code       feedback.Code
		status     int
		again      bool // the refresh token may be sent once more
		retryAfter time.Duration
	}
	tests := map[string]test{
		"lost before":         {fault: hubtest.Fault{Drop: hubtest.DropRequest}, code: feedback.CodeAgentTransportUnavailable, again: true},
		"lost in the middle":  {fault: hubtest.Fault{Status: 200, Body: grant("", "", ""), Drop: hubtest.DropMidBody}, code: feedback.CodeAgentTransportUnavailable},
		"too long":            {fault: hubtest.Fault{Status: 200, Body: append(grant("", "", ""), bytes.Repeat([]byte(" "), 64<<10)...)}, code: feedback.CodeAgentAuthorizationUnavailable, status: 200},
		"encoded":             {fault: hubtest.Fault{Status: 200, Body: grant("", "", ""), Header: http.Header{"Content-Encoding": {"br"}}}, code: feedback.CodeAgentAuthorizationUnavailable, status: 200},
		"web page":            {fault: hubtest.Fault{Status: 200, Body: []byte("<html>")}, code: feedback.CodeAgentAuthorizationUnavailable, status: 200},
		"two objects":         {fault: hubtest.Fault{Status: 200, Body: []byte("{}{}")}, code: feedback.CodeAgentAuthorizationUnavailable, status: 200},
		"twice in the object": {fault: hubtest.Fault{Status: 200, Body: []byte(`{"access_token":"synthetic-a","access_token":"synthetic-b"}`)}, code: feedback.CodeAgentAuthorizationUnavailable, status: 200},
		"created":             {fault: hubtest.Fault{Status: 201, Body: grant("", "", "")}, code: feedback.CodeAgentAuthorizationUnavailable, status: 201},
		"moved":               {fault: hubtest.Fault{Status: 307, Header: http.Header{"Location": {"https://elsewhere.example.com/"}}}, code: feedback.CodeAgentAuthorizationUnavailable, status: 307},
	}
	for _, status := range []int{400, 401, 403, 404, 405, 409, 422} {
		tests[fmt.Sprint(status)] = test{fault: hubtest.Fault{Status: status, Body: []byte(`{"error":"hub_paused"}`)}, code: feedback.CodeAgentAuthorizationUnavailable, status: status}
	}
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504, 599} {
		tests[fmt.Sprint(status)] = test{fault: hubtest.Fault{Status: status, Header: http.Header{"Retry-After": {"7"}}}, code: feedback.CodeAgentTransportUnavailable, status: status, again: true, retryAfter: 7 * time.Second}
	}
	for member, values := range map[string][]string{
		"token_type":         {"", "null", `"MAC"`, `"bearer"`, "1"},
		"access_token":       {"", "null", `""`, "17", `"a b"`, `"a\nb"`, `"\ud800"`},
		"refresh_token":      {"", "null", `""`, `"` + strings.Repeat("x", 8193) + `"`},
		"expires_in":         {"", "null", "0", "-1", "900.0", "9e2", `"900"`, "true"},
		"refresh_expires_in": {"", "0", "1.5", "99999999999999999999"},
		"session_id":         {"", "null", `"x"`, "1"},
		"client_app_id":      {"", "null", `""`},
	} {
		for _, value := range values {
			name := member + " " + value[:min(len(value), 12)]
			tests[name] = test{fault: hubtest.Fault{Status: 200, Body: []byte("own session"), Rewrite: nil}, code: feedback.CodeAgentAuthorizationUnavailable, status: 200}
			changed := tests[name]
			changed.fault.Rewrite = func([]byte) []byte { return grant(sessionID, member, value) }
			tests[name] = changed
		}
	}
	for name, other := range map[string][]byte{
		"another session": grant("99999999-9999-4999-8999-999999999999", "", ""),
		"another client":  grant(sessionID, "client_app_id", `"other-host"`),
	} {
		tests[name] = test{fault: hubtest.Fault{Status: 200, Body: other}, code: feedback.CodeAgentBindingChanged}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, sessionID)
			w.expiring(0)
			before := w.stored()
			test.fault.On = hubtest.RefreshRequest
			w.hub.Inject(test.fault)
			failure := w.refused(test.code)
			if failure.StatusCode != test.status || failure.RetryAfter != test.retryAfter || failure.Feedback.Dispatch != feedback.DispatchNotDispatched {
				t.Errorf("status %d, retry after %v, %s", failure.StatusCode, failure.RetryAfter, failure.Feedback.Dispatch)
			}
			if diff := cmp.Diff([]string{"refresh"}, w.wire.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if !w.stored().Equal(before) {
				t.Error("the stored credentials changed")
			}
			// What the Hub took or refused is not sent again.
			_, _ = w.transport.InspectInvocation(t.Context(), w.original)
			if again := w.wire.count("refresh") == 2; again != test.again {
				t.Errorf("sent again: %v, want %v", again, test.again)
			}
		})
	}
}

const sessionID = "11111111-1111-4111-8111-111111111111"

// newWorldOf is newWorld with a session of this id.
func newWorldOf(t testing.TB, id string) *world {
	w := newWorld(t)
	w.session = w.hub.Login(hubtest.Grant{SessionID: id})
	w.login(w.session)
	invocation, err := w.hub.Submit(id, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	w.must(err)
	w.original, err = w.transport.Capture(context.Background(), w.connection.Key, invocation)
	w.must(err)
	return w
}

func TestRefreshRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expiring(0)
	var header http.Header
	var body []byte
	base := w.wire.base
	w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if nameOf(r) == "refresh" {
			header = r.Header.Clone()
			if r.GetBody != nil {
				t.Error("a layer below could send the body again")
			}
			body, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		return base.RoundTrip(r)
	})
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"bailinghub-go/0.1.0"}, "Content-Type": {"application/json"}}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	var sent map[string]string
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"grant_type": "refresh_token", "client_app_id": hubtest.DefaultClient, "refresh_token": w.session.RefreshToken}, sent); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The refresh is on the wire once, over real connections that were used before
// and break in the middle of it too: net/http sends a request again that it
// believes to be safe.
func TestRefreshIsOnTheWireOnce(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*hubtest.Hub) *hubtest.Server{"HTTP/1.1": (*hubtest.Hub).Start, "HTTP/2": (*hubtest.Hub).StartTLS} {
		for _, drop := range []hubtest.Drop{hubtest.DropRequest, hubtest.DropAnswer, hubtest.DropMidBody} {
			hub := hubtest.New()
			server := start(hub)
			session := hub.Login(hubtest.Grant{})
			store, key := loggedIn(t.Context(), server.URL, session)
			transport, err := host.New(store, agentclient.WithHTTPClient(server.Client()))
			if err != nil {
				t.Fatal(err)
			}
			id, err := hub.Submit(session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
			if err != nil {
				t.Fatal(err)
			}
			original, err := transport.Capture(t.Context(), key, id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := transport.InspectInvocation(t.Context(), original); err != nil {
				t.Fatal(err)
			}
			hub.ExpireAccess(session.ID)
			hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Drop: drop})
			if _, err := transport.InspectInvocation(t.Context(), original); !errors.Is(err, feedback.CodeAgentTransportUnavailable) {
				t.Errorf("%s, drop %d: %v", name, drop, err)
			}
			if n := hub.Requests().Refresh; n != 1 {
				t.Errorf("%s, drop %d: the refresh arrived %d times", name, drop, n)
			}
			hub.Close()
		}
	}
}

// Lifetimes count from before the request, are capped, and always make
// credentials that can be saved.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for name, test := range map[string]struct {
		access, refresh         string
		wantAccess, wantRefresh time.Duration
	}{
		"as given":        {"900", "2592000", 900 * time.Second, 30 * day},
		"shortest":        {"1", "1", 0, time.Second},
		"the same":        {"3600", "3600", 3599 * time.Second, time.Hour},
		"capped":          {"2678401", "31622401", 31 * day, 366 * day},
		"huge":            {"9223372036854775807", "9223372036854775807", 31 * day, 366 * day},
		"the wrong order": {"7200", "3600", 3599 * time.Second, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, sessionID)
			w.expiring(0)
			w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: 2 * time.Second, Status: 200, Rewrite: func([]byte) []byte {
				return bytes.Replace(grant(sessionID, "expires_in", test.access), []byte("2592000"), []byte(test.refresh), 1)
			}})
			start := time.Now()
			_, _ = w.transport.InspectInvocation(t.Context(), w.original)
			stored := w.stored()
			if access, refresh := stored.AccessExpiresAt.Sub(start), stored.RefreshExpiresAt.Sub(start); access != test.wantAccess || refresh != test.wantRefresh {
				t.Errorf("%s: %v and %v, want %v and %v", name, access, refresh, test.wantAccess, test.wantRefresh)
			}
		})
	}
}

func TestExpiredRefreshTokenIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	credentials := w.stored()
	credentials.AccessExpiresAt, credentials.RefreshExpiresAt = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	w.must(w.store.SaveCredentials(t.Context(), w.connection.Key, credentials))
	w.refused(feedback.CodeAgentAuthorizationUnavailable)
	if sent := w.wire.requests(); len(sent) != 0 {
		t.Errorf("sent: %v", sent)
	}
}

// A store that fails before anything was sent loses nothing, and nothing is
// sent.
func TestStoreThatFailsBeforeTheRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expiring(0)
	w.transport = w.newTransport(&hooked{Store: w.store, update: func(context.Context, string, func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
		return errors.New("lock not had: synthetic-secret")
	}})
	if failure := w.refused(feedback.CodeUnknownFailure); errors.Is(failure, host.ErrSessionUnsaved) || len(w.wire.requests()) != 0 {
		t.Errorf("%s, sent %v", failure, w.wire.requests())
	}
}

// A new login of the same session that came in during the refresh wins, and is
// what the inspection goes on with.
func TestNewerLoginWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expiring(0)
	w.wire.after = on("refresh", sync.OnceFunc(func() {
		session, _ := w.hub.Session(w.session.ID)
		newer := credentialsOf(session)
		newer.AccessExpiresAt = newer.AccessExpiresAt.Add(-time.Minute)
		w.must(w.store.SaveCredentials(t.Context(), w.connection.Key, newer))
	}))
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"refresh", "capabilities", "receipt"}, w.wire.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A store that ignores its context holds nobody up.
func TestStuckStore(t *testing.T) {
	t.Parallel()
	for name, stuck := range map[string]func(*world, *hooked, chan struct{}){
		"reading at entry": func(_ *world, h *hooked, release chan struct{}) { h.reads = func(int) { <-release } },
		"reading later": func(_ *world, h *hooked, release chan struct{}) {
			h.reads = func(n int) {
				if n > 1 {
					<-release
				}
			}
		},
		"reading after the answer": func(_ *world, h *hooked, release chan struct{}) {
			h.reads = func(n int) {
				if n > 2 {
					<-release
				}
			}
		},
		"held lock": func(w *world, h *hooked, release chan struct{}) {
			w.expiring(0)
			h.update = func(context.Context, string, func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
				<-release
				return errors.New("never had")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				store, release := &hooked{Store: w.store}, make(chan struct{})
				defer close(release)
				stuck(w, store, release)
				w.transport = w.newTransport(store)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				start := time.Now()
				_, err := w.transport.InspectInvocation(ctx, w.original)
				w.failure(err, feedback.CodeAgentRequestCancelled)
				if !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				start = time.Now()
				w.refused(feedback.CodeAgentRequestTimeout)
				if took := time.Since(start); took != 15*time.Second {
					t.Errorf("the time limit took %v", took)
				}
			})
		})
	}
}

// A panic in the store surfaces in the caller that met it. Others who waited
// for the same refresh get an error.
func TestStorePanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recovered := func(transport *host.Transport) (value any, err error) {
			defer func() { value = recover() }()
			_, err = transport.InspectInvocation(t.Context(), w.original)
			return nil, err
		}
		if value, err := recovered(w.newTransport(&hooked{Store: w.store, reads: func(int) { panic("mine") }})); value != "mine" {
			t.Errorf("at entry: %v, %v", value, err)
		}
		w.expiring(0)
		release := make(chan struct{})
		transport := w.newTransport(&hooked{Store: w.store, update: func(context.Context, string, func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
			<-release
			panic("mine")
		}})
		var panics, failures atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				switch value, err := recovered(transport); {
				case value == "mine":
					panics.Add(1)
				case errors.Is(err, feedback.CodeUnknownFailure):
					failures.Add(1)
				default:
					t.Errorf("%v, %v", value, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if panics.Load() != 1 || failures.Load() != 3 {
			t.Errorf("%d panics, %d failures", panics.Load(), failures.Load())
		}
	})
}

func TestHostLogger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var out bytes.Buffer
	w.transport = w.newTransport(w.store, agentclient.WithLogger(slog.New(slog.NewJSONHandler(&out, nil))))
	w.expiring(0)
	_, err := w.transport.InspectInvocation(t.Context(), w.original)
	w.must(err)
	w.hub.Revoke(w.session.ID)
	w.refused(feedback.CodeAgentAuthorizationUnavailable)
	w.must(w.store.Remove(t.Context(), w.connection.Key))
	w.refused(feedback.CodeAgentBindingChanged)
	var codes []string
	for line := range strings.Lines(out.String()) {
		var record struct{ Msg, Code string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		codes = append(codes, record.Msg+": "+record.Code)
	}
	want := []string{"inspection answered: ", "inspection failed: agent_authorization_unavailable", "inspection failed: agent_binding_changed"}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if strings.Contains(out.String(), "synthetic-access") || strings.Contains(out.String(), "synthetic-refresh") {
		t.Error("a token is in the log")
	}
}

// The negotiation is remembered for one binding and session, and forgotten
// with any failure, one of the after-check too.
func TestNegotiationReuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.transport = w.newTransport(w.store, agentclient.WithNegotiationReuse(time.Minute))
	inspect := func(want ...string) {
		t.Helper()
		before := len(w.wire.requests())
		_, _ = w.transport.InspectInvocation(t.Context(), w.original)
		if diff := cmp.Diff(want, w.wire.requests()[before:], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	inspect("capabilities", "receipt")
	inspect("receipt")
	away := sync.OnceFunc(func() { w.login(w.hub.Login(hubtest.Grant{})) })
	w.wire.body = on("receipt", away)
	inspect("receipt") // the after-check fails
	w.login(w.session)
	inspect("capabilities", "receipt")
	inspect("receipt")
	w.must(w.store.DeleteCredentials(t.Context(), w.connection.Key))
	inspect() // so does the entry
	w.login(w.session)
	inspect("capabilities", "receipt")

	other := w.hub.Login(hubtest.Grant{})
	w.login(other)
	w.original.ExpectedBinding.SessionID = other.ID
	inspect("capabilities", "receipt")
}

// Whatever there is to see, the business is not touched by looking.
func TestInspectingChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, outcome := range []hubtest.Outcome{hubtest.Executed("done"), hubtest.Hanging(), hubtest.AnswerLost(), hubtest.Rejected(), hubtest.EvidenceDegraded()} {
		w.hub.Plan(outcome)
		id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
		w.must(err)
		before := w.hub.Snapshot()
		w.original.InvocationID = id
		for range 10 {
			if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
				t.Fatal(err)
			}
		}
		if after := w.hub.Snapshot(); after != before {
			t.Errorf("inspecting changed the Hub:\n%s", cmp.Diff(before, after))
		}
	}
}

// A transport remembers a bounded number of sessions and serves any number.
func TestManySessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 1100 {
		o := w.original
		o.ExpectedBinding.SessionID = fmt.Sprintf("11111111-1111-4111-8111-%012d", n)
		if _, err := w.transport.InspectInvocation(t.Context(), o); !errors.Is(err, feedback.CodeAgentBindingChanged) {
			t.Fatal(err)
		}
	}
	if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
		t.Error(err)
	}
}

func TestPrintingATransportShowsNoToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expiring(0)
	_, err := w.transport.InspectInvocation(t.Context(), w.original)
	w.must(err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, w.transport); strings.Contains(text, w.stored().AccessToken.Reveal()) || strings.Contains(text, w.stored().RefreshToken.Reveal()) {
			t.Errorf("%s shows a token: %s", verb, text)
		}
	}
}
