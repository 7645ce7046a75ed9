package registrytest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
)

func givesWhatWasSaved(s *scene) {
	s.stored(s.a, s.loginA)
	replaced := login(s.a, 3)
	s.login(replaced, s.a)
	s.stored(s.a, replaced)
}

func keepsConnectionsApart(s *scene) {
	s.stored(s.a, s.loginA)
	s.stored(s.b, s.loginB)
	if err := s.update(s.Store, s.b.Key, rotate); err != nil {
		s.Errorf("UpdateCredentials: %v", err)
	}
	s.stored(s.a, s.loginA)
	s.stored(s.b, rotated(s.loginB))
	if err := s.Logout(context.Background(), s.b.Key); err != nil {
		s.Errorf("Logout: %v", err)
	}
	s.stored(s.a, s.loginA)
	s.gone(s.b, registry.ErrNotLoggedIn)
}

func doesNotKnowOtherKeys(s *scene) {
	key, err := descriptor("unknown").ConnectionKey()
	if err != nil {
		s.Fatal(err)
	}
	unknown := registry.Connection{Key: key}
	for _, store := range s.handles {
		got, err := store.Connection(context.Background(), key)
		if !errors.Is(err, registry.ErrNotFound) || got != (registry.Connection{}) {
			s.Errorf("Connection of an unknown key gives %+v, %v; want ErrNotFound alone", got, err)
		}
		s.untouched(context.Background(), store, key, registry.ErrNotFound)
	}
	s.gone(unknown, registry.ErrNotFound)
}

func knowsWhoIsNotLoggedIn(s *scene) {
	if err := s.Logout(context.Background(), s.a.Key); err != nil {
		s.Fatalf("Logout: %v", err)
	}
	for _, c := range []registry.Connection{s.a, s.c} {
		s.gone(c, registry.ErrNotLoggedIn)
		for _, store := range s.handles {
			if got, err := store.Connection(context.Background(), c.Key); err != nil || !equal(got, c) {
				s.Errorf("Connection without a login gives %+v, %v; want %+v", got, err, c)
			}
			s.untouched(context.Background(), store, c.Key, registry.ErrNotLoggedIn)
		}
	}
	s.login(s.loginA, s.a)
	s.stored(s.a, s.loginA)
}

func forgetsWhatIsRemoved(s *scene) {
	if err := s.Remove(context.Background(), s.a.Key); err != nil {
		s.Fatalf("Remove: %v", err)
	}
	s.gone(s.a, registry.ErrNotFound)
	for _, store := range s.handles {
		if _, err := store.Connection(context.Background(), s.a.Key); !errors.Is(err, registry.ErrNotFound) {
			s.Errorf("Connection after Remove: %v; want ErrNotFound", err)
		}
		s.untouched(context.Background(), store, s.a.Key, registry.ErrNotFound)
	}
	// The next person to register the same must not find the login of the last.
	s.gone(s.register(s.a.Workspace), registry.ErrNotLoggedIn)
	s.stored(s.b, s.loginB)
}

func savesARotation(s *scene) {
	want := s.loginA
	for _, store := range s.handles {
		type contextKey struct{}
		var given registry.Credentials
		var value any
		err := within(s, "UpdateCredentials", func(ctx context.Context) error {
			ctx = context.WithValue(ctx, contextKey{}, "kept")
			var runs atomic.Int64
			err := store.UpdateCredentials(ctx, s.a.Key, counted(&runs, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
				given, value = c, ctx.Value(contextKey{})
				return rotated(c), nil
			}))
			if n := runs.Load(); n != 1 {
				return fmt.Errorf("update was run %d times, want once (%v)", n, err)
			}
			return err
		})
		if err != nil {
			s.Fatalf("UpdateCredentials: %v", err)
		}
		if !given.Equal(want) {
			s.Errorf("update was given credentials that differ from the stored ones in %s", difference(given, want))
		}
		if value != "kept" {
			s.Error("update was given a context that is not the caller's or made from it")
		}
		want = rotated(want)
		s.stored(s.a, want)
	}
}

func savesNothingUnchanged(s *scene) {
	for _, store := range s.handles {
		s.login(s.loginA, s.a)
		if err := s.update(store, s.a.Key, same); err != nil {
			s.Errorf("UpdateCredentials that changes nothing: %v", err)
		}
		s.stored(s.a, s.loginA)

		// With nothing to save there is no contest with a newer login: nil and
		// ErrChanged are both true.
		newer := login(s.a, 3)
		err := s.update(store, s.a.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			err, _ := attempt(func(ctx context.Context) error { return s.Login(ctx, s.a.Key, newer) })
			return c, err
		})
		if err != nil && !errors.Is(err, registry.ErrChanged) {
			s.Errorf("UpdateCredentials that changes nothing while a login came: %v", err)
		}
		s.stored(s.a, newer)
	}
}

// spoiled gives credentials that must not be saved under the connection of c.
func spoiled(c registry.Credentials) map[string]registry.Credentials {
	spoil := func(change func(*registry.Credentials)) registry.Credentials {
		c := c
		change(&c)
		return c
	}
	return map[string]registry.Credentials{
		"no access token":              spoil(func(c *registry.Credentials) { c.AccessToken = registry.Secret{} }),
		"no refresh token":             spoil(func(c *registry.Credentials) { c.RefreshToken = registry.Secret{} }),
		"a token with a line end":      spoil(func(c *registry.Credentials) { c.AccessToken = registry.NewSecret("a\r\nb") }),
		"no access expiry":             spoil(func(c *registry.Credentials) { c.AccessExpiresAt = time.Time{} }),
		"a refresh that expires first": spoil(func(c *registry.Credentials) { c.RefreshExpiresAt = c.AccessExpiresAt }),
		"no session":                   spoil(func(c *registry.Credentials) { c.SessionID = "" }),
		"another Hub":                  spoil(func(c *registry.Credentials) { c.HubURL = "https://other.example.com" }),
		"another client app":           spoil(func(c *registry.Credentials) { c.ClientAppID = "other-agent" }),
		"another workspace":            spoil(func(c *registry.Credentials) { c.Workspace = "orders" }),
		"nothing":                      {},
	}
}

func savesNothingInvalid(s *scene) {
	for _, store := range s.handles {
		for flaw, after := range spoiled(rotated(s.loginA)) {
			s.login(s.loginA, s.a)
			err := s.update(store, s.a.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) { return after, nil })
			if err == nil {
				s.Errorf("UpdateCredentials that returns credentials with %s: no error", flaw)
			}
			s.stored(s.a, s.loginA)
		}
	}
}

func takesNoInvalidLogin(s *scene) {
	for flaw, credentials := range spoiled(login(s.a, 3)) {
		s.login(s.loginA, s.a)
		if err := s.Login(context.Background(), s.a.Key, credentials); err == nil {
			s.Errorf("Login with credentials with %s: no error", flaw)
		}
		s.stored(s.a, s.loginA)
	}
}

// failure is an error that only errors.As finds.
type failure struct{ reason string }

func (f *failure) Error() string { return f.reason }

func returnsTheErrorOfAnUpdate(s *scene) {
	refused := errors.New("the Hub refused the refresh token")
	for _, store := range s.handles {
		for _, cause := range []error{refused, &failure{"lost"}, context.Canceled, registry.ErrChanged, registry.ErrNotLoggedIn} {
			err := s.update(store, s.a.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				return rotated(c), fmt.Errorf("refreshing: %w", cause)
			})
			if !errors.Is(err, cause) {
				s.Errorf("UpdateCredentials: %v; want the error of update, %q", err, cause)
			}
			s.stored(s.a, s.loginA)
		}
	}
}

func survivesAPanic(s *scene) {
	for _, store := range s.handles {
		value := new(int)
		got := within(s, "UpdateCredentials with a panic in update", func(ctx context.Context) (got any) {
			defer func() { got = recover() }()
			_ = store.UpdateCredentials(ctx, s.a.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) { panic(value) })
			return nil
		})
		if got != value {
			s.Errorf("a panic in update surfaced in the caller as %v, want its value", got)
		}
		s.stored(s.a, s.loginA)
		s.stillWorks()
	}
}

func survivesGoexit(s *scene) {
	for _, store := range s.handles {
		returned := within(s, "UpdateCredentials with runtime.Goexit in update", func(ctx context.Context) bool {
			ended := make(chan bool, 1)
			go func() {
				returned := false
				defer func() { ended <- returned }()
				_ = store.UpdateCredentials(ctx, s.a.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
					runtime.Goexit()
					return registry.Credentials{}, nil
				})
				returned = true
			}()
			return <-ended
		})
		if returned {
			s.Error("runtime.Goexit in update did not end the goroutine of the caller")
		}
		s.stored(s.a, s.loginA)
		s.stillWorks()
	}
}

// stillWorks checks that a can be updated through every handle.
func (s *scene) stillWorks() {
	s.Helper()
	for _, store := range s.handles {
		if err := s.update(store, s.a.Key, same); err != nil {
			s.Errorf("UpdateCredentials afterwards: %v", err)
		}
	}
}

func letsANewerLoginWin(s *scene) {
	later := func(change func(*registry.Credentials)) registry.Credentials {
		c := s.loginA
		change(&c)
		return c
	}
	for name, newer := range map[string]registry.Credentials{
		"in everything":          login(s.a, 3),
		"in the session":         later(func(c *registry.Credentials) { c.SessionID = login(s.a, 3).SessionID }),
		"in the access token":    later(func(c *registry.Credentials) { c.AccessToken = registry.NewSecret("synthetic-access-newer") }),
		"in the refresh token":   later(func(c *registry.Credentials) { c.RefreshToken = registry.NewSecret("synthetic-refresh-newer") }),
		"in the access expiry":   later(func(c *registry.Credentials) { c.AccessExpiresAt = c.AccessExpiresAt.Add(time.Millisecond) }),
		"in the refresh expiry":  later(func(c *registry.Credentials) { c.RefreshExpiresAt = c.RefreshExpiresAt.Add(time.Millisecond) }),
		"in all but the session": rotated(rotated(s.loginA)),
	} {
		for _, store := range s.handles {
			s.login(s.loginA, s.a)
			err := s.update(store, s.a.Key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
				err, ok := attempt(func(ctx context.Context) error { return s.Login(ctx, s.a.Key, newer) })
				if !ok {
					err = errors.New("a login inside update did not return: it waits for the update")
				}
				return rotated(c), err
			})
			if !errors.Is(err, registry.ErrChanged) {
				s.Errorf("UpdateCredentials while a login came that is newer %s: %v; want ErrChanged", name, err)
			}
			s.stored(s.a, newer)
		}
	}
}

func letsARemovalWin(s *scene) {
	restore := func() {
		s.a = s.register(s.a.Workspace)
		s.login(s.loginA, s.a)
	}
	for _, removal := range []struct {
		name   string
		do     func(ctx context.Context) error
		reason error
	}{
		{"logout", func(ctx context.Context) error { return s.Logout(ctx, s.a.Key) }, registry.ErrNotLoggedIn},
		{"removal", func(ctx context.Context) error { return s.Remove(ctx, s.a.Key) }, registry.ErrNotFound},
		{"removal and new registration", func(ctx context.Context) error {
			removed := s.Remove(ctx, s.a.Key)
			_, err := s.Register(ctx, descriptor(s.a.Workspace))
			return errors.Join(removed, err)
		}, registry.ErrNotLoggedIn},
	} {
		for _, store := range s.handles {
			restore()
			err := s.update(store, s.a.Key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
				err, ok := attempt(removal.do)
				if !ok {
					err = fmt.Errorf("%s inside update did not return: it waits for the update", removal.name)
				}
				return rotated(c), err
			})
			if !errors.Is(err, registry.ErrChanged) {
				s.Errorf("UpdateCredentials while a %s came: %v; want ErrChanged", removal.name, err)
			}
			s.gone(s.a, removal.reason)
		}
	}
}

func savesAlthoughTheContextHasEnded(s *scene) {
	want := s.loginA
	for _, store := range s.handles {
		err := within(s, "UpdateCredentials", func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return store.UpdateCredentials(ctx, s.a.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				cancel()
				return rotated(c), nil
			})
		})
		if err != nil {
			s.Errorf("UpdateCredentials that was cancelled during update: %v; want nil, and the rotation saved: its old token is used up", err)
		}
		want = rotated(want)
		s.stored(s.a, want)
	}
}

func doesNotBeginWhenTheContextHasEnded(s *scene) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for _, store := range s.handles {
		s.untouched(cancelled, store, s.a.Key, context.Canceled)
		s.untouched(expired, store, s.a.Key, context.DeadlineExceeded)
	}
}

func canBeReadInsideAnUpdate(s *scene) {
	for _, store := range s.handles {
		err := s.update(store, s.a.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			for _, inner := range s.handles {
				err, ok := attempt(func(context.Context) error {
					return errors.Join(reads(inner, s.a, s.loginA), reads(inner, s.b, s.loginB))
				})
				if !ok {
					err = fmt.Errorf("reading inside update did not return within %v", Limit)
				}
				if err != nil {
					return c, err
				}
			}
			return c, nil
		})
		if err != nil {
			s.Errorf("UpdateCredentials with reads inside update: %v", err)
		}
	}
}

func holdsNobodyUp(s *scene) {
	release := s.hold(s.Store, s.a.Key, rotate)
	wantB := s.loginB
	for _, store := range s.handles {
		err := within(s, "reading during a slow update", func(context.Context) error {
			return errors.Join(reads(store, s.a, s.loginA), reads(store, s.b, wantB))
		})
		if err != nil {
			s.Errorf("during a slow update: %v", err)
		}
		err = within(s, "updating another key during a slow update", func(ctx context.Context) error {
			return store.UpdateCredentials(ctx, s.b.Key, rotate)
		})
		if err != nil {
			s.Errorf("UpdateCredentials of another key during a slow update: %v", err)
		}
		wantB = rotated(wantB)
	}
	err := within(s, "login, logout, registration and removal of other keys during a slow update", func(ctx context.Context) error {
		err := errors.Join(s.Login(ctx, s.c.Key, login(s.c, 3)), s.Logout(ctx, s.c.Key), s.Remove(ctx, s.c.Key))
		_, registered := s.Register(ctx, descriptor(s.c.Workspace))
		return errors.Join(err, registered)
	})
	if err != nil {
		s.Errorf("changing other keys during a slow update: %v", err)
	}
	if err := release(); err != nil {
		s.Errorf("the slow UpdateCredentials: %v", err)
	}
	s.stored(s.a, rotated(s.loginA))
	s.stored(s.b, wantB)
}

func excludesOtherUpdates(s *scene) {
	release := s.hold(s.Store, s.a.Key, rotate)
	for _, store := range s.handles {
		expiring, cancel := context.WithTimeout(context.Background(), patience)
		s.untouched(expiring, store, s.a.Key, context.DeadlineExceeded)
		cancel()

		cancelled, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(patience, cancel)
		s.untouched(cancelled, store, s.a.Key, context.Canceled)
		timer.Stop()
		cancel()
	}
	if err := release(); err != nil {
		s.Errorf("UpdateCredentials that others waited for: %v", err)
	}
	s.stored(s.a, rotated(s.loginA))
	s.stillWorks()
}

// losesNoRotation lets many rotate two sessions at once. Each counts the
// access token up by one.
func losesNoRotation(s *scene) {
	const goroutines, rounds = 8, 4
	connections := []registry.Connection{s.a, s.b}
	for _, c := range connections {
		first := login(c, 4)
		first.AccessToken = registry.NewSecret("0")
		s.login(first, c)
	}
	release := s.hold(s.Store, s.a.Key, same)
	var group sync.WaitGroup
	problems := make(chan error, goroutines*rounds*len(s.handles)*len(connections)*2)
	inside := make([]atomic.Int64, len(connections))
	ctx, cancel := context.WithTimeout(context.Background(), 6*Limit)
	defer cancel()
	for i := range goroutines * len(s.handles) * len(connections) {
		store, which := s.handles[i%len(s.handles)], i/len(s.handles)%len(connections)
		group.Go(func() {
			for range rounds {
				var runs atomic.Int64
				err := store.UpdateCredentials(ctx, connections[which].Key, counted(&runs, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					if inside[which].Add(1) > 1 {
						problems <- errors.New("two updates of one key ran at once")
					}
					defer inside[which].Add(-1)
					n, err := strconv.Atoi(c.AccessToken.Reveal())
					runtime.Gosched()
					c.AccessToken = registry.NewSecret(strconv.Itoa(n + 1))
					return c, err
				}))
				if err != nil || runs.Load() != 1 {
					problems <- fmt.Errorf("UpdateCredentials among many: %v; update was run %d times", err, runs.Load())
				}
			}
		})
	}
	for range 100 {
		runtime.Gosched() // Lets most of them get to where they wait.
	}
	if err := release(); err != nil {
		s.Errorf("UpdateCredentials before many: %v", err)
	}
	group.Wait()
	close(problems)
	for problem := range problems {
		s.Fatal(problem)
	}
	for _, c := range connections {
		want := login(c, 4)
		want.AccessToken = registry.NewSecret(strconv.Itoa(goroutines * rounds * len(s.handles)))
		s.stored(c, want)
	}
}
