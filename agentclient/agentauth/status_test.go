package agentauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		made := mustLogIn(t, store, agreeing(t, h))
		key := made.Connection.Key
		known, err := agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0))
		if err != nil || known.Session.ID != made.Session.ID || known.SessionID != made.Session.ID || known.Connection != made.Connection ||
			time.Until(known.EndsAt) < 29*24*time.Hour || known.Session.OnBehalfOf != "user-1" {
			t.Errorf("%+v, %v", known, err)
		}

		// An access token that has run out is renewed once, whoever asks.
		age(t, store, key)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if known, err := agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0)); err != nil || known.Session.ID != made.Session.ID {
					t.Errorf("%+v, %v", known, err)
				}
			})
		}
		group.Wait()
		if n := h.times("refresh"); n != 1 {
			t.Errorf("%d refreshes", n)
		}

		// What refuses deletes nothing, and says what is stored.
		before := look(t, store)
		h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
			return answer(401, `{"error":"unauthorized"}`), nil
		})
		known, err = agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0))
		expectError(t, err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize)
		if known.SessionID != made.Session.ID || known.Session.ID != "" || !strings.Contains(err.Error(), "disabled") || !strings.HasPrefix(err.Error(), "status: ") {
			t.Errorf("%+v, %v", known, err)
		}
		age(t, store, key)
		h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
			return answer(400, `{"error":"invalid_grant"}`), nil
		})
		_, err = agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0))
		expectError(t, err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize)
		h.fault(lost(false, io.EOF))
		_, err = agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0))
		expectError(t, err, feedback.CodeAgentTransportUnavailable, feedback.NextNone)
		unchanged(t, store, before)
	})
}

// age has the access token of a login run out.
func age(t *testing.T, store lister, key string) {
	t.Helper()
	credentials, err := store.Credentials(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	credentials.AccessExpiresAt = time.Now().Add(10 * time.Second)
	if err := store.SaveCredentials(t.Context(), key, credentials); err != nil {
		t.Fatal(err)
	}
}

func TestStatusWithoutAnswer(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	store := registry.NewMemory()
	_, err := agentauth.Status(t.Context(), store, "conn_0123456789abcdef0123456789abcdef", h.option(), agentclient.WithMaxRetries(0))
	expectError(t, err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize, registry.ErrNotFound)
	connection, err := store.Register(t.Context(), descriptor())
	if err != nil {
		t.Fatal(err)
	}
	known, err := agentauth.Status(t.Context(), store, connection.Key, h.option(), agentclient.WithMaxRetries(0))
	expectError(t, err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize, registry.ErrNotLoggedIn)
	if known.Connection != connection || known.SessionID != "" {
		t.Errorf("%+v", known)
	}
	var none *registry.Memory
	for name, err := range map[string]error{
		//lint:ignore SA1012 what is refused
		"no context": second(agentauth.Status(nil, store, connection.Key)),
		"no store":   second(agentauth.Status(t.Context(), none, connection.Key)),
		"no key":     second(agentauth.Status(t.Context(), store, "shop")),
	} {
		expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone)
		if err == nil {
			t.Error(name)
		}
	}
	if len(h.requests) != 0 {
		t.Errorf("%q were sent", h.requests)
	}
	key := mustLogIn(t, store, agreeing(t, h)).Connection.Key
	if _, err := agentauth.Status(t.Context(), store, key, nil); !errors.Is(err, feedback.CodeInvalidRequest) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
		cancel()
		return nil, io.EOF
	})
	_, err = agentauth.Status(ctx, store, key, h.option(), agentclient.WithMaxRetries(0))
	expectError(t, err, feedback.CodeAgentRequestCancelled, feedback.NextNone, context.Canceled)
	age(t, store, key)
	_, err = agentauth.Status(ctx, store, key, h.option(), agentclient.WithMaxRetries(0))
	expectError(t, err, feedback.CodeAgentRequestCancelled, feedback.NextNone, context.Canceled)
}

// A login that somebody replaces while the Hub is asked is said to have changed;
// a token that somebody renewed is read again.
func TestStatusMeetsAnother(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	store := registry.NewMemory()
	key := mustLogIn(t, store, agreeing(t, h)).Connection.Key
	credentials, err := store.Credentials(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*registry.Credentials)) func(string, func() *http.Response) (*http.Response, error) {
		changed := credentials
		f(&changed)
		var once sync.Once
		return func(step string, real func() *http.Response) (*http.Response, error) {
			r := real()
			once.Do(func() {
				if err := store.SaveCredentials(t.Context(), key, changed); err != nil {
					t.Error(err)
				}
				r = answer(401, `{"error":"unauthorized"}`)
			})
			return r, nil
		}
	}
	h.fault(change(func(c *registry.Credentials) { c.RefreshToken = registry.NewSecret("synthetic-refresh-other") }))
	_, err = agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0))
	expectError(t, err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize) // the same access token
	h.fault(change(func(c *registry.Credentials) { c.AccessToken = registry.NewSecret("synthetic-access-other") }))
	h.EditSession(credentials.SessionID, func(s *hubtest.Session) { s.AccessToken = "synthetic-access-other" })
	if _, err := agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0)); err != nil {
		t.Errorf("a renewed token: %v", err)
	}
	h.fault(change(func(c *registry.Credentials) { c.SessionID = "cccccccc-cccc-4ccc-8ccc-000000000001" }))
	_, err = agentauth.Status(t.Context(), store, key, h.option(), agentclient.WithMaxRetries(0))
	expectError(t, err, feedback.CodeAgentBindingChanged, feedback.NextNone)
}
