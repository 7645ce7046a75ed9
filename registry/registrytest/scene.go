package registrytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
)

// A scene is a store with two connections at one Hub, both logged in, and a
// third that is not.
type scene struct {
	testing.TB
	Fixture
	// handles are Store and, where there is one, Other.
	handles []registry.Store
	a, b, c registry.Connection
	// loginA and loginB are what a and b were logged in with.
	loginA, loginB registry.Credentials
}

func newScene(tb testing.TB, f Fixture) *scene {
	tb.Helper()
	if f.Store == nil || f.Register == nil || f.Login == nil || f.Logout == nil || f.Remove == nil {
		tb.Fatal("registrytest: the fixture lacks a field")
	}
	s := &scene{TB: tb, Fixture: f, handles: []registry.Store{f.Store}}
	if f.Other != nil {
		s.handles = append(s.handles, f.Other)
	}
	s.a, s.b, s.c = s.register("inventory"), s.register("orders"), s.register("returns")
	s.loginA, s.loginB = login(s.a, 1), login(s.b, 2)
	s.login(s.loginA, s.a)
	s.login(s.loginB, s.b)
	return s
}

func descriptor(workspace string) registry.Descriptor {
	return registry.Descriptor{HubURL: "https://hub.example.com/bailing", ClientAppID: "commerce-agent", Workspace: workspace}
}

func (s *scene) register(workspace string) registry.Connection {
	s.Helper()
	d := descriptor(workspace)
	connection, err := s.Register(context.Background(), d)
	if err != nil {
		s.Fatalf("Register: %v", err)
	}
	key, err := d.ConnectionKey()
	if err != nil || connection.Key != key || connection.Descriptor() != d {
		s.Fatalf("Register gives %+v; want the key %s of %+v", connection, key, d)
	}
	return connection
}

func (s *scene) login(credentials registry.Credentials, to registry.Connection) {
	s.Helper()
	if err := s.Login(context.Background(), to.Key, credentials); err != nil {
		s.Fatalf("Login: %v", err)
	}
}

// login gives credentials of a connection; n tells one login from another.
func login(c registry.Connection, n int) registry.Credentials {
	// Milliseconds that floating point would lose, in a zone that is not UTC.
	expires := time.Date(2099, 1, 1, 8, 0, n, 123e6, time.FixedZone("", 8*60*60))
	return registry.Credentials{
		HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace,
		SessionID:        fmt.Sprintf("%08d-1111-4111-8111-111111111111", n),
		AccessToken:      registry.NewSecret(fmt.Sprint("synthetic-access-", n)),
		RefreshToken:     registry.NewSecret(fmt.Sprint("synthetic-refresh-", n)),
		AccessExpiresAt:  expires,
		RefreshExpiresAt: expires.AddDate(0, 1, 0).Add(876 * time.Millisecond),
	}
}

// rotated gives the same session with other tokens that expire later.
func rotated(c registry.Credentials) registry.Credentials {
	c.AccessToken = registry.NewSecret(c.AccessToken.Reveal() + ".next")
	c.RefreshToken = registry.NewSecret(c.RefreshToken.Reveal() + ".next")
	c.AccessExpiresAt = c.AccessExpiresAt.Add(time.Millisecond)
	c.RefreshExpiresAt = c.RefreshExpiresAt.Add(time.Millisecond)
	return c
}

type update = func(context.Context, registry.Credentials) (registry.Credentials, error)

// update runs an update that must be run exactly once, and gives the error of
// UpdateCredentials.
func (s *scene) update(store registry.Store, key string, do update) error {
	s.Helper()
	var runs atomic.Int64
	err := within(s, "UpdateCredentials", func(ctx context.Context) error {
		return store.UpdateCredentials(ctx, key, counted(&runs, do))
	})
	if n := runs.Load(); n != 1 {
		s.Errorf("update was run %d times, want once (UpdateCredentials: %v)", n, err)
	}
	return err
}

// untouched checks that UpdateCredentials fails as it should and does not run
// update.
func (s *scene) untouched(ctx context.Context, store registry.Store, key string, want error) {
	s.Helper()
	var runs atomic.Int64
	err := within(s, "UpdateCredentials", func(context.Context) error {
		return store.UpdateCredentials(ctx, key, counted(&runs, same))
	})
	if !errors.Is(err, want) {
		s.Errorf("UpdateCredentials: %v; want an error that matches %q", err, want)
	}
	if runs.Load() != 0 {
		s.Errorf("update was run; want %q before that", want)
	}
}

func counted(runs *atomic.Int64, do update) update {
	return func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
		runs.Add(1)
		return do(ctx, c)
	}
}

func same(_ context.Context, c registry.Credentials) (registry.Credentials, error) { return c, nil }

func rotate(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
	return rotated(c), nil
}

// stored checks on every handle what is stored as the login of a connection.
func (s *scene) stored(c registry.Connection, want registry.Credentials) {
	s.Helper()
	for _, store := range s.handles {
		if err := reads(store, c, want); err != nil {
			s.Error(err)
		}
	}
}

// gone checks on every handle that there is no login, for the reason given.
func (s *scene) gone(c registry.Connection, reason error) {
	s.Helper()
	for _, store := range s.handles {
		got, err := store.Credentials(context.Background(), c.Key)
		if !errors.Is(err, reason) {
			s.Errorf("Credentials: %v; want an error that matches %q", err, reason)
		}
		if got != (registry.Credentials{}) {
			s.Error("Credentials gives credentials beside its error")
		}
	}
}

// reads says what is wrong with a connection and its login as a store gives
// them.
func reads(store registry.Store, c registry.Connection, want registry.Credentials) error {
	connection, err := store.Connection(context.Background(), c.Key)
	if err != nil {
		return fmt.Errorf("reading the connection of %s: %w", c.Workspace, err)
	}
	if !equal(connection, c) {
		return fmt.Errorf("the connection of %s is %+v, want %+v", c.Workspace, connection, c)
	}
	got, err := store.Credentials(context.Background(), c.Key)
	if err != nil {
		return fmt.Errorf("reading the credentials of %s: %w", c.Workspace, err)
	}
	if !got.Equal(want) {
		return fmt.Errorf("the credentials of %s differ from those that should be stored in %s", c.Workspace, difference(got, want))
	}
	return nil
}

func equal(a, b registry.Connection) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !a.UpdatedAt.Equal(b.UpdatedAt) {
		return false
	}
	a.CreatedAt, a.UpdatedAt = b.CreatedAt, b.UpdatedAt
	return a == b
}

// difference names the members that differ. The tokens are synthetic here, but
// a habit is a habit.
func difference(a, b registry.Credentials) string {
	var names string
	for _, member := range [...]struct {
		name string
		same bool
	}{
		{"Hub URL", a.HubURL == b.HubURL},
		{"client app", a.ClientAppID == b.ClientAppID},
		{"workspace", a.Workspace == b.Workspace},
		{"session", a.SessionID == b.SessionID},
		{"access token", a.AccessToken == b.AccessToken},
		{"refresh token", a.RefreshToken == b.RefreshToken},
		{"access expiry", a.AccessExpiresAt.Equal(b.AccessExpiresAt)},
		{"refresh expiry", a.RefreshExpiresAt.Equal(b.RefreshExpiresAt)},
	} {
		if !member.same {
			names += ", " + member.name
		}
	}
	return names[min(len(names), len(", ")):]
}

// within calls f, which has nothing to wait for, and fails the test when it
// takes longer than [Limit]. F must not fail the test itself.
func within[T any](s *scene, what string, f func(context.Context) T) T {
	s.Helper()
	result, ok := attempt(f)
	if !ok {
		s.Fatalf("%s did not return within %v", what, Limit)
	}
	return result
}

// attempt calls f and reports whether it returned within [Limit].
func attempt[T any](f func(context.Context) T) (result T, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*Limit)
	defer cancel()
	done := make(chan T, 1)
	go func() { done <- f(ctx) }()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case result = <-done:
		return result, true
	case <-timer.C:
		return result, false
	}
}

// hold begins an update and keeps it from returning until release is called,
// which gives the error of UpdateCredentials.
func (s *scene) hold(store registry.Store, key string, do update) (release func() error) {
	s.Helper()
	entered, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once, enter sync.Once
	open := func() { once.Do(func() { close(gate) }) }
	ctx, cancel := context.WithCancel(context.Background())
	s.Cleanup(func() { open(); cancel() })
	go func() {
		done <- store.UpdateCredentials(ctx, key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
			enter.Do(func() { close(entered) })
			<-gate
			return do(ctx, c)
		})
	}()
	err := within(s, "UpdateCredentials", func(ctx context.Context) error {
		select {
		case <-entered:
			return nil
		case err := <-done:
			return fmt.Errorf("it returned without running update (%v)", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		s.Fatalf("UpdateCredentials: %v", err)
	}
	return func() error {
		s.Helper()
		open()
		return within(s, "UpdateCredentials", func(context.Context) error { return <-done })
	}
}
