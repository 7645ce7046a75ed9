package registrytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	handles []handle
	a, b, c registry.Connection
	// loginA and loginB are what a and b were logged in with.
	loginA, loginB registry.Credentials
}

// A handle is one on the store, with the name that it has in the fixture.
type handle struct {
	registry.Store
	name string
}

// The workspaces of the connections.
const workspaceA, workspaceB, workspaceC = "inventory", "orders", "returns"

// newScene opens a store and sets the scene. Scenes that may have been given
// the same store are set one after the other, so that it shows.
func newScene(tb testing.TB, open func(testing.TB) Fixture, setting *sync.Mutex) *scene {
	tb.Helper()
	f := open(tb)
	for _, field := range [...]struct {
		name  string
		isNil bool
	}{
		{"Store", f.Store == nil},
		{"Register", f.Register == nil},
		{"Login", f.Login == nil},
		{"Logout", f.Logout == nil},
		{"Remove", f.Remove == nil},
	} {
		if field.isNil {
			tb.Fatalf("registrytest: Fixture.%s is nil", field.name)
		}
	}
	s := &scene{TB: tb, Fixture: f, handles: []handle{{f.Store, "Store"}}}
	if f.Other != nil {
		s.handles = append(s.handles, handle{f.Other, "Other"})
	}
	setting.Lock()
	defer setting.Unlock()
	for _, workspace := range []string{workspaceA, workspaceB, workspaceC} {
		key := s.key(workspace)
		if found, err := f.Store.Connection(context.Background(), key); err == nil && found.Key == key {
			tb.Fatal("registrytest: open must give an empty store each time, and this one has a connection of the suite already")
		}
	}
	s.a, s.b, s.c = s.register(workspaceA), s.register(workspaceB), s.register(workspaceC)
	s.loginA, s.loginB = login(s.a, 1), login(s.b, 2)
	s.login(s.loginA, s.a)
	s.login(s.loginB, s.b)
	return s
}

func descriptor(workspace string) registry.Descriptor {
	return registry.Descriptor{HubURL: "https://hub.example.com/bailing", ClientAppID: "commerce-agent", Workspace: workspace}
}

func (s *scene) key(workspace string) string {
	s.Helper()
	key, err := descriptor(workspace).ConnectionKey()
	if err != nil {
		s.Fatal(err)
	}
	return key
}

func (s *scene) register(workspace string) registry.Connection {
	s.Helper()
	d := descriptor(workspace)
	connection, err := s.Register(context.Background(), d)
	if err != nil {
		s.Fatalf("Fixture.Register: %s", describe(err))
	}
	if key := s.key(workspace); connection.Key != key || connection.Descriptor() != d {
		s.Fatalf("Fixture.Register gives %+v; want the key %s of %+v", connection, key, d)
	}
	return connection
}

func (s *scene) login(credentials registry.Credentials, to registry.Connection) {
	s.Helper()
	if err := s.Login(context.Background(), to.Key, credentials); err != nil {
		s.Fatalf("Fixture.Login: %s", describe(err))
	}
}

func (s *scene) logout(of registry.Connection) {
	s.Helper()
	if err := s.Logout(context.Background(), of.Key); err != nil {
		s.Fatalf("Fixture.Logout: %s", describe(err))
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

func same(_ context.Context, c registry.Credentials) (registry.Credentials, error) { return c, nil }

func rotate(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
	return rotated(c), nil
}

func counted(runs *atomic.Int64, do update) update {
	return func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
		runs.Add(1)
		return do(ctx, c)
	}
}

// update runs an update that must be run exactly once, and gives the error of
// UpdateCredentials.
func (s *scene) update(through handle, key string, do update) error {
	s.Helper()
	return s.updateWithin(Limit, through, key, do)
}

func (s *scene) updateWithin(limit time.Duration, through handle, key string, do update) error {
	s.Helper()
	var runs atomic.Int64
	err, ok := attemptWithin(limit, func(ctx context.Context) error {
		return through.UpdateCredentials(ctx, key, counted(&runs, do))
	})
	if !ok {
		s.Fatal(exclusion.cited(fmt.Sprintf("UpdateCredentials through %s did not return within %v", through.name, limit)))
	}
	if n := runs.Load(); n != 1 {
		s.breaks(once, "UpdateCredentials through %s ran update %d times, want once; it returned %s", through.name, n, describe(err))
	}
	return err
}

// tryUpdate makes an update that changes nothing, and reports whether it was
// run. How says what is particular about it; p is the paragraph by which it
// has to return soon.
func (s *scene) tryUpdate(ctx context.Context, p paragraph, through handle, how, key string) (ran bool, err error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*Limit)
	defer cancel()
	var runs atomic.Int64
	err = within(s, p, "UpdateCredentials through "+through.name+" "+how, func(context.Context) error {
		return through.UpdateCredentials(ctx, key, counted(&runs, same))
	})
	return runs.Load() > 0, err
}

// refusesUpdates checks on every handle that a connection, which is in a state
// that the paragraph p is about, cannot be updated.
func (s *scene) refusesUpdates(p paragraph, state, key string, want error) {
	s.Helper()
	for _, through := range s.handles {
		switch ran, err := s.tryUpdate(context.Background(), exclusion, through, "of "+state, key); {
		case ran:
			s.breaks(once, "UpdateCredentials of %s ran update through %s; want %s, and update not called", state, through.name, describe(want))
		case !errors.Is(err, want):
			s.breaks(p, "UpdateCredentials of %s through %s: %s; want %s", state, through.name, describe(err), describe(want))
		}
	}
}

// A finding is what is wrong with a store, and the paragraph about that.
type finding struct {
	p       paragraph
	failure string
}

// everywhere looks through every handle. What shows through more than one it
// reports once, and says through which.
func (s *scene) everywhere(when string, look func(handle) []finding) {
	s.Helper()
	const someName = "\x00"
	var found []finding
	names := map[finding][]string{}
	for _, h := range s.handles {
		for _, f := range look(handle{h.Store, someName}) {
			if names[f] == nil {
				found = append(found, f)
			}
			names[f] = append(names[f], h.name)
		}
	}
	for _, f := range found {
		s.breaks(f.p, "%s: %s", when, strings.ReplaceAll(f.failure, someName, strings.Join(names[f], " and ")))
	}
}

// stored checks on every handle what is stored as the login of a connection.
// When says after what; p is the paragraph about that.
func (s *scene) stored(p paragraph, when string, c registry.Connection, want registry.Credentials) {
	s.Helper()
	s.everywhere(when, func(through handle) (found []finding) {
		if failure := lookAtConnection(through, c); failure != "" {
			found = append(found, finding{reads, failure})
		}
		if failure := lookAtLogin(through, c, want); failure != "" {
			found = append(found, finding{p, failure})
		}
		return found
	})
}

// gone checks on every handle that no login of a connection is given, for the
// reason given.
func (s *scene) gone(p paragraph, when string, c registry.Connection, reason error) {
	s.Helper()
	s.everywhere(when, func(through handle) (found []finding) {
		got, err := through.Credentials(context.Background(), c.Key)
		if !errors.Is(err, reason) {
			found = append(found, finding{p, fmt.Sprintf("Credentials through %s: %s; want %s", through.name, describe(err), describe(reason))})
		}
		if err != nil && got != (registry.Credentials{}) {
			found = append(found, finding{p, fmt.Sprintf("Credentials through %s gives credentials beside its error", through.name)})
		}
		if reader, ok := through.Store.(registry.LoginReader); ok {
			connection, credentials, err := reader.ConnectionCredentials(context.Background(), c.Key)
			if !errors.Is(err, reason) {
				found = append(found, finding{p, fmt.Sprintf("ConnectionCredentials through %s: %s; want %s", through.name, describe(err), describe(reason))})
			}
			if err != nil && (connection != registry.Connection{} || credentials != registry.Credentials{}) {
				found = append(found, finding{p, fmt.Sprintf("ConnectionCredentials through %s gives a value beside its error", through.name)})
			}
		}
		return found
	})
}

// registered checks on every handle that a connection is there.
func (s *scene) registered(when string, c registry.Connection) {
	s.Helper()
	s.everywhere(when, func(through handle) []finding {
		if failure := lookAtConnection(through, c); failure != "" {
			return []finding{{reads, failure}}
		}
		return nil
	})
}

// unknown checks on every handle that there is no connection of a key.
func (s *scene) unknown(when, key string) {
	s.Helper()
	s.everywhere(when, func(through handle) (found []finding) {
		got, err := through.Connection(context.Background(), key)
		if !errors.Is(err, registry.ErrNotFound) {
			found = append(found, finding{errs, fmt.Sprintf("Connection through %s: %s; want registry.ErrNotFound", through.name, describe(err))})
		}
		if err != nil && got != (registry.Connection{}) {
			found = append(found, finding{errs, fmt.Sprintf("Connection through %s gives a connection beside its error", through.name)})
		}
		return found
	})
	s.gone(errs, when, registry.Connection{Key: key}, registry.ErrNotFound)
}

// look says what is wrong with a connection and its login as a handle gives
// them; "" for nothing.
func look(through handle, c registry.Connection, want registry.Credentials) string {
	if failure := lookAtConnection(through, c); failure != "" {
		return failure
	}
	return lookAtLogin(through, c, want)
}

func lookAtLogin(through handle, c registry.Connection, want registry.Credentials) string {
	got, err := through.Credentials(context.Background(), c.Key)
	if err != nil {
		return fmt.Sprintf("Credentials of %s through %s: %s; want its login", c.Workspace, through.name, describe(err))
	}
	if !got.Equal(want) {
		return fmt.Sprintf("Credentials of %s through %s gives another %s than should be stored", c.Workspace, through.name, difference(got, want))
	}
	reader, ok := through.Store.(registry.LoginReader)
	if !ok {
		return ""
	}
	connection, credentials, err := reader.ConnectionCredentials(context.Background(), c.Key)
	switch {
	case err != nil:
		return fmt.Sprintf("ConnectionCredentials of %s through %s: %s; want the connection and its login", c.Workspace, through.name, describe(err))
	case !credentials.Equal(want):
		return fmt.Sprintf("ConnectionCredentials of %s through %s gives another %s than should be stored", c.Workspace, through.name, difference(credentials, want))
	}
	if differs := connectionDifference(connection, c); differs != "" {
		return fmt.Sprintf("ConnectionCredentials of %s through %s gives %s", c.Workspace, through.name, differs)
	}
	return ""
}

func lookAtConnection(through handle, c registry.Connection) string {
	connection, err := through.Connection(context.Background(), c.Key)
	if err != nil {
		return fmt.Sprintf("Connection of %s through %s: %s; want the connection", c.Workspace, through.name, describe(err))
	}
	if differs := connectionDifference(connection, c); differs != "" {
		return fmt.Sprintf("Connection of %s through %s gives %s", c.Workspace, through.name, differs)
	}
	return ""
}

// connectionDifference says what of a connection is not as it should be; "" for
// nothing.
func connectionDifference(connection, c registry.Connection) string {
	var differs []string
	for _, member := range [...]struct {
		name      string
		same      bool
		got, want any
	}{
		{"Key", connection.Key == c.Key, connection.Key, c.Key},
		{"InstanceID", connection.InstanceID == c.InstanceID, connection.InstanceID, c.InstanceID},
		{"Alias", connection.Alias == c.Alias, connection.Alias, c.Alias},
		{"HubURL", connection.HubURL == c.HubURL, connection.HubURL, c.HubURL},
		{"ClientAppID", connection.ClientAppID == c.ClientAppID, connection.ClientAppID, c.ClientAppID},
		{"Workspace", connection.Workspace == c.Workspace, connection.Workspace, c.Workspace},
		{"AllowInsecureHTTP", connection.AllowInsecureHTTP == c.AllowInsecureHTTP, connection.AllowInsecureHTTP, c.AllowInsecureHTTP},
		{"CreatedAt", connection.CreatedAt.Equal(c.CreatedAt), connection.CreatedAt, c.CreatedAt},
		{"UpdatedAt", connection.UpdatedAt.Equal(c.UpdatedAt), connection.UpdatedAt, c.UpdatedAt},
	} {
		if !member.same {
			differs = append(differs, fmt.Sprintf("%s %v; want %v", member.name, member.got, member.want))
		}
	}
	return strings.Join(differs, ", and ")
}

// difference names the members that differ. The tokens are synthetic here, but
// a habit is a habit.
func difference(a, b registry.Credentials) string {
	var names []string
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
			names = append(names, member.name)
		}
	}
	return strings.Join(names, ", ")
}

// within calls f, which has nothing to wait for, and fails the test when it
// takes longer than [Limit]. F must not fail the test itself.
func within[T any](s *scene, p paragraph, what string, f func(context.Context) T) T {
	s.Helper()
	result, ok := attempt(f)
	if !ok {
		s.Fatal(p.cited(fmt.Sprintf("%s did not return within %v", what, Limit)))
	}
	return result
}

// attempt calls f and reports whether it returned within [Limit].
func attempt[T any](f func(context.Context) T) (result T, ok bool) {
	return attemptWithin(Limit, f)
}

func attemptWithin[T any](limit time.Duration, f func(context.Context) T) (result T, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	done := make(chan T, 1)
	go func() { done <- f(ctx) }()
	timer := time.NewTimer(limit)
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
func (s *scene) hold(through handle, key string, do update) (release func() error) {
	s.Helper()
	entered, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var enter, leave sync.Once
	open := func() { leave.Do(func() { close(gate) }) }
	ctx, cancel := context.WithCancel(context.Background())
	s.Cleanup(func() { open(); cancel() })
	go func() {
		done <- through.UpdateCredentials(ctx, key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
			enter.Do(func() { close(entered) })
			<-gate
			return do(ctx, c)
		})
	}()
	err := within(s, exclusion, "UpdateCredentials through "+through.name, func(ctx context.Context) error {
		select {
		case <-entered:
			return nil
		case err := <-done:
			return fmt.Errorf("it returned without running update: %s", describe(err))
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		s.Fatal(once.cited(fmt.Sprintf("UpdateCredentials through %s: %v", through.name, err)))
	}
	return func() error {
		s.Helper()
		open()
		return within(s, exclusion, "UpdateCredentials through "+through.name, func(context.Context) error { return <-done })
	}
}
