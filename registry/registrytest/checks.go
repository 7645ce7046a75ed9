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
	s.stored(reads, "after a login", s.a, s.loginA)
	replaced := login(s.a, 3)
	s.login(replaced, s.a)
	s.stored(reads, "after a login in place of another", s.a, replaced)
	s.a = s.register(workspaceA)
	s.stored(reads, "after registering again what is registered", s.a, replaced)
}

func keepsConnectionsApart(s *scene) {
	s.stored(reads, "with two connections", s.a, s.loginA)
	s.stored(reads, "with two connections", s.b, s.loginB)
	if err := s.update(s.handles[0], s.b.Key, rotate); err != nil {
		s.breaks(saving, "UpdateCredentials through Store: %s; want no error", describe(err))
	}
	s.stored(saving, "after a rotation of orders", s.a, s.loginA)
	s.stored(saving, "after a rotation of orders", s.b, rotated(s.loginB))
	s.logout(s.b)
	s.stored(reads, "after a logout of orders", s.a, s.loginA)
	s.gone(errs, "after a logout of orders", s.b, registry.ErrNotLoggedIn)
}

func doesNotKnowOtherKeys(s *scene) {
	key := s.key("unknown")
	s.unknown("with a key that is not registered", key)
	s.refusesUpdates(errs, "a key that is not registered", key, registry.ErrNotFound)
	// Whatever these answer, they make no connection of it.
	unknown := registry.Connection{Key: key, HubURL: s.a.HubURL, ClientAppID: s.a.ClientAppID, Workspace: "unknown"}
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"Fixture.Logout", func() error { return s.Logout(context.Background(), key) }},
		{"Fixture.Remove", func() error { return s.Remove(context.Background(), key) }},
		{"Fixture.Login", func() error { return s.Login(context.Background(), key, login(unknown, 3)) }},
	} {
		_ = change.do()
		s.unknown("after "+change.name+" of a key that is not registered", key)
	}
}

func knowsWhoIsNotLoggedIn(s *scene) {
	s.logout(s.a)
	for _, state := range []struct {
		name string
		of   registry.Connection
	}{
		{"a connection after its logout", s.a},
		{"a connection before its first login", s.c},
	} {
		s.gone(errs, "with "+state.name, state.of, registry.ErrNotLoggedIn)
		s.registered("with "+state.name, state.of)
		s.refusesUpdates(errs, state.name, state.of.Key, registry.ErrNotLoggedIn)
	}
	s.login(s.loginA, s.a)
	s.stored(reads, "after a login that followed a logout", s.a, s.loginA)
}

func givesNoneOfAnotherConnection(s *scene) {
	if s.Plant == nil {
		s.Log("registrytest: Fixture.Plant is nil, so this is not checked")
		return
	}
	for _, planted := range foreign(login(s.a, 3)) {
		if err := s.Plant(context.Background(), s.a.Key, planted.credentials); err != nil {
			s.Fatalf("Fixture.Plant: %s", describe(err))
		}
		state := "a connection whose row has credentials of " + planted.flaw
		s.gone(reads, "with "+state, s.a, registry.ErrDamaged)
		s.refusesUpdates(reads, state, s.a.Key, registry.ErrDamaged)
		s.stored(reads, "beside "+state, s.b, s.loginB)
		s.login(s.loginA, s.a)
		s.stored(reads, "after a login in place of credentials of "+planted.flaw, s.a, s.loginA)
	}
}

func forgetsWhatIsRemoved(s *scene) {
	if err := s.Remove(context.Background(), s.a.Key); err != nil {
		s.Fatalf("Fixture.Remove: %s", describe(err))
	}
	s.unknown("after a removal", s.a.Key)
	s.refusesUpdates(errs, "a removed connection", s.a.Key, registry.ErrNotFound)
	// The next person to register the same must not find the login of the last.
	s.gone(errs, "after a removal and a new registration", s.register(workspaceA), registry.ErrNotLoggedIn)
	s.stored(reads, "after a removal of inventory", s.b, s.loginB)
}

func savesARotation(s *scene) {
	want := s.loginA
	for _, through := range s.handles {
		type contextKey struct{}
		var given registry.Credentials
		var value any
		var runs atomic.Int64
		err := within(s, exclusion, "UpdateCredentials through "+through.name, func(ctx context.Context) error {
			ctx = context.WithValue(ctx, contextKey{}, "kept")
			return through.UpdateCredentials(ctx, s.a.Key, counted(&runs, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
				given, value = c, ctx.Value(contextKey{})
				return rotated(c), nil
			}))
		})
		if n := runs.Load(); n != 1 {
			s.Fatal(once.cited(fmt.Sprintf("UpdateCredentials through %s ran update %d times, want once; it returned %s", through.name, n, describe(err))))
		}
		if err != nil {
			s.Fatal(saving.cited(fmt.Sprintf("UpdateCredentials through %s: %s; want no error", through.name, describe(err))))
		}
		if !given.Equal(want) {
			s.breaks(once, "UpdateCredentials through %s gave update another %s than is stored", through.name, difference(given, want))
		}
		if value != "kept" {
			s.breaks(once, "UpdateCredentials through %s gave update a context that is not the caller's or made from it", through.name)
		}
		want = rotated(want)
		s.stored(saving, "after a rotation through "+through.name, s.a, want)
	}
}

func savesNothingUnchanged(s *scene) {
	for _, through := range s.handles {
		s.login(s.loginA, s.a)
		if err := s.update(through, s.a.Key, same); err != nil {
			s.breaks(saving, "UpdateCredentials through %s when update changes nothing: %s; want no error", through.name, describe(err))
		}
		s.stored(saving, "after an update that changes nothing", s.a, s.loginA)

		// With nothing to save there is no contest with a newer login: nil and
		// ErrChanged are both true.
		newer := login(s.a, 3)
		err := s.updateDuring(through, "Fixture.Login", func(ctx context.Context) error { return s.Login(ctx, s.a.Key, newer) }, same)
		if err != nil && !errors.Is(err, registry.ErrChanged) {
			s.breaks(saving, "UpdateCredentials through %s when update changes nothing and a login came: %s; want no error or registry.ErrChanged", through.name, describe(err))
		}
		s.stored(saving, "after an update that changes nothing, and a login in the middle of it", s.a, newer)
	}
}

// updateDuring is update of a where something happens before update returns,
// which must not wait for it.
func (s *scene) updateDuring(through handle, name string, happens func(context.Context) error, do update) error {
	s.Helper()
	var problem error
	returned := true
	err := s.updateWithin(2*Limit, through, s.a.Key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
		problem, returned = attempt(happens)
		return do(ctx, c)
	})
	if !returned {
		s.Fatal(once.cited(fmt.Sprintf("%s inside update, through %s, did not return within %v: it waits for the update", name, through.name, Limit)))
	}
	if problem != nil {
		s.breaks(once, "%s inside update, through %s: %s; want no error", name, through.name, describe(problem))
	}
	return err
}

// A flawed login is one that must not be saved under some connection.
type flawed struct {
	flaw        string
	credentials registry.Credentials
}

func spoil(c registry.Credentials, flaw string, change func(*registry.Credentials)) flawed {
	change(&c)
	return flawed{flaw, c}
}

// foreign gives credentials that are well formed and of another connection
// than c.
func foreign(c registry.Credentials) []flawed {
	return []flawed{
		spoil(c, "another Hub", func(c *registry.Credentials) { c.HubURL = "https://other.example.com" }),
		spoil(c, "another client app", func(c *registry.Credentials) { c.ClientAppID = "other-agent" }),
		spoil(c, "another workspace", func(c *registry.Credentials) { c.Workspace = workspaceB }),
	}
}

// spoiled gives credentials that must not be saved under the connection of c.
func spoiled(c registry.Credentials) []flawed {
	return append(foreign(c),
		spoil(c, "no access token", func(c *registry.Credentials) { c.AccessToken = registry.Secret{} }),
		spoil(c, "no refresh token", func(c *registry.Credentials) { c.RefreshToken = registry.Secret{} }),
		spoil(c, "a token with a line end", func(c *registry.Credentials) { c.AccessToken = registry.NewSecret("a\r\nb") }),
		spoil(c, "no access expiry", func(c *registry.Credentials) { c.AccessExpiresAt = time.Time{} }),
		spoil(c, "a refresh that expires first", func(c *registry.Credentials) { c.RefreshExpiresAt = c.AccessExpiresAt }),
		spoil(c, "no session", func(c *registry.Credentials) { c.SessionID = "" }),
		flawed{"nothing at all", registry.Credentials{}},
	)
}

func savesNothingInvalid(s *scene) {
	for _, through := range s.handles {
		for _, after := range spoiled(rotated(s.loginA)) {
			s.login(s.loginA, s.a)
			err := s.update(through, s.a.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
				return after.credentials, nil
			})
			if err == nil {
				s.breaks(saving, "UpdateCredentials through %s when update returns credentials with %s: no error", through.name, after.flaw)
			}
			s.stored(saving, "after an update that returned credentials with "+after.flaw, s.a, s.loginA)
		}
	}
}

func takesNoInvalidLogin(s *scene) {
	for _, given := range spoiled(login(s.a, 3)) {
		s.login(s.loginA, s.a)
		if err := s.Login(context.Background(), s.a.Key, given.credentials); err == nil {
			s.breaks(saving, "Fixture.Login with credentials with %s: no error", given.flaw)
		}
		s.stored(saving, "after a login with credentials with "+given.flaw, s.a, s.loginA)
	}
}

// failure is an error that only errors.As finds.
type failure struct{ reason string }

func (f *failure) Error() string { return f.reason }

func returnsTheErrorOfAnUpdate(s *scene) {
	refused := errors.New("the Hub refused the refresh token")
	for _, through := range s.handles {
		for _, cause := range []error{refused, &failure{"lost"}, context.Canceled, registry.ErrChanged, registry.ErrNotLoggedIn} {
			err := s.update(through, s.a.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				return rotated(c), fmt.Errorf("refreshing: %w", cause)
			})
			if !errors.Is(err, cause) {
				s.breaks(failing, "UpdateCredentials through %s when update fails: %s; want update's own error, %s", through.name, describe(err), describe(cause))
			}
			s.stored(failing, "after an update that failed", s.a, s.loginA)
		}
	}
}

func survivesAPanic(s *scene) {
	for _, through := range s.handles {
		value := new(int)
		got := within(s, failing, "UpdateCredentials through "+through.name+" with a panic in update", func(ctx context.Context) (got any) {
			defer func() { got = recover() }()
			_ = through.UpdateCredentials(ctx, s.a.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) { panic(value) })
			return nil
		})
		if got != value {
			s.breaks(failing, "a panic in update, through %s, surfaced in the caller as %v; want its value", through.name, got)
		}
		s.stored(failing, "after a panic in update", s.a, s.loginA)
		s.stillWorks(failing, "after a panic in update")
	}
}

func survivesGoexit(s *scene) {
	for _, through := range s.handles {
		returned := within(s, failing, "UpdateCredentials through "+through.name+" with runtime.Goexit in update", func(ctx context.Context) bool {
			ended := make(chan bool, 1)
			go func() {
				returned := false
				defer func() { ended <- returned }()
				_ = through.UpdateCredentials(ctx, s.a.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
					runtime.Goexit()
					return registry.Credentials{}, nil
				})
				returned = true
			}()
			return <-ended
		})
		if returned {
			s.breaks(failing, "runtime.Goexit in update, through %s, did not end the goroutine of the caller", through.name)
		}
		s.stored(failing, "after runtime.Goexit in update", s.a, s.loginA)
		s.stillWorks(failing, "after runtime.Goexit in update")
	}
}

// stillWorks checks that a can be updated through every handle.
func (s *scene) stillWorks(p paragraph, when string) {
	s.Helper()
	for _, through := range s.handles {
		ran, err := s.tryUpdate(context.Background(), p, through, when, s.a.Key)
		if !ran || err != nil {
			s.breaks(p, "%s: UpdateCredentials through %s ran update: %t; it returned %s, want no error", when, through.name, ran, describe(err))
		}
	}
}

func letsANewerLoginWin(s *scene) {
	later := func(change func(*registry.Credentials)) registry.Credentials {
		c := s.loginA
		change(&c)
		return c
	}
	for _, newer := range []struct {
		name  string
		login registry.Credentials
	}{
		{"in everything", login(s.a, 3)},
		{"in the session", later(func(c *registry.Credentials) { c.SessionID = login(s.a, 3).SessionID })},
		{"in the access token", later(func(c *registry.Credentials) { c.AccessToken = registry.NewSecret("synthetic-access-newer") })},
		{"in the refresh token", later(func(c *registry.Credentials) { c.RefreshToken = registry.NewSecret("synthetic-refresh-newer") })},
		{"in the access expiry", later(func(c *registry.Credentials) { c.AccessExpiresAt = c.AccessExpiresAt.Add(time.Millisecond) })},
		{"in the refresh expiry", later(func(c *registry.Credentials) { c.RefreshExpiresAt = c.RefreshExpiresAt.Add(time.Millisecond) })},
		{"in all but the session", rotated(rotated(s.loginA))},
	} {
		for _, through := range s.handles {
			s.login(s.loginA, s.a)
			err := s.updateDuring(through, "Fixture.Login", func(ctx context.Context) error { return s.Login(ctx, s.a.Key, newer.login) }, rotate)
			if !errors.Is(err, registry.ErrChanged) {
				s.breaks(saving, "UpdateCredentials through %s while a login came that is newer %s: %s; want registry.ErrChanged", through.name, newer.name, describe(err))
			}
			s.stored(saving, "after a login in the middle of an update that is newer "+newer.name, s.a, newer.login)
		}
	}
}

func letsARemovalWin(s *scene) {
	restore := func() {
		s.a = s.register(workspaceA)
		s.login(s.loginA, s.a)
	}
	for _, removal := range []struct {
		name   string
		do     func(ctx context.Context) error
		reason error
	}{
		{"a logout", func(ctx context.Context) error { return s.Logout(ctx, s.a.Key) }, registry.ErrNotLoggedIn},
		{"a removal", func(ctx context.Context) error { return s.Remove(ctx, s.a.Key) }, registry.ErrNotFound},
		{"a removal and a new registration", func(ctx context.Context) error {
			removed := s.Remove(ctx, s.a.Key)
			_, err := s.Register(ctx, descriptor(workspaceA))
			return errors.Join(removed, err)
		}, registry.ErrNotLoggedIn},
	} {
		for _, through := range s.handles {
			restore()
			err := s.updateDuring(through, removal.name, removal.do, rotate)
			if !errors.Is(err, registry.ErrChanged) {
				s.breaks(saving, "UpdateCredentials through %s while %s came: %s; want registry.ErrChanged", through.name, removal.name, describe(err))
			}
			s.gone(saving, "after "+removal.name+" in the middle of an update", s.a, removal.reason)
		}
	}
}

func savesAlthoughTheContextHasEnded(s *scene) {
	want := s.loginA
	for _, through := range s.handles {
		err := within(s, exclusion, "UpdateCredentials through "+through.name, func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return through.UpdateCredentials(ctx, s.a.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				cancel()
				return rotated(c), nil
			})
		})
		if err != nil {
			s.breaks(saving, "UpdateCredentials through %s that was cancelled while update ran: %s; want no error, and the rotation saved: its old token is used up", through.name, describe(err))
		}
		want = rotated(want)
		s.stored(saving, "after an update that was cancelled while it ran", s.a, want)
	}
}

func doesNotBeginWhenTheContextHasEnded(s *scene) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for _, through := range s.handles {
		for _, ended := range []context.Context{cancelled, expired} {
			switch ran, err := s.tryUpdate(ended, exclusion, through, "whose context had ended before", s.a.Key); {
			case ran:
				s.breaks(exclusion, "update ran through %s although the context had ended before (%s)", through.name, describe(ended.Err()))
			case !errors.Is(err, ended.Err()):
				s.breaks(exclusion, "UpdateCredentials through %s whose context had ended before: %s; want %s", through.name, describe(err), describe(ended.Err()))
			}
		}
	}
}

func canBeReadInsideAnUpdate(s *scene) {
	for _, through := range s.handles {
		var failures []string
		err := s.updateDuring(through, "reading", func(context.Context) error {
			for _, inner := range s.handles {
				failures = append(failures, look(inner, s.a, s.loginA), look(inner, s.b, s.loginB))
			}
			return nil
		}, same)
		for _, failure := range failures {
			if failure != "" {
				s.breaks(once, "inside update, through %s: %s", through.name, failure)
			}
		}
		if err != nil {
			s.breaks(once, "UpdateCredentials through %s with reads inside update: %s; want no error", through.name, describe(err))
		}
	}
}

func holdsNobodyUp(s *scene) {
	const during = "during a slow update of inventory"
	release := s.hold(s.handles[0], s.a.Key, rotate)
	wantB := s.loginB
	for _, through := range s.handles {
		for _, failure := range within(s, reads, "reading through "+through.name+" "+during, func(context.Context) []string {
			return []string{look(through, s.a, s.loginA), look(through, s.b, wantB)}
		}) {
			if failure != "" {
				s.breaks(reads, "%s: %s", during, failure)
			}
		}
		err := within(s, exclusion, "UpdateCredentials of orders through "+through.name+" "+during, func(ctx context.Context) error {
			return through.UpdateCredentials(ctx, s.b.Key, rotate)
		})
		if err != nil {
			s.breaks(exclusion, "UpdateCredentials of orders through %s %s: %s; want no error", through.name, during, describe(err))
		}
		wantB = rotated(wantB)
	}
	for _, change := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"Fixture.Login", func(ctx context.Context) error { return s.Login(ctx, s.c.Key, login(s.c, 3)) }},
		{"Fixture.Logout", func(ctx context.Context) error { return s.Logout(ctx, s.c.Key) }},
		{"Fixture.Remove", func(ctx context.Context) error { return s.Remove(ctx, s.c.Key) }},
		{"Fixture.Register", func(ctx context.Context) error {
			_, err := s.Register(ctx, descriptor(workspaceC))
			return err
		}},
	} {
		if err := within(s, exclusion, change.name+" of returns "+during, change.do); err != nil {
			s.breaks(exclusion, "%s of returns %s: %s; want no error", change.name, during, describe(err))
		}
	}
	if err := release(); err != nil {
		s.breaks(saving, "the slow UpdateCredentials through Store: %s; want no error", describe(err))
	}
	s.stored(saving, "after a slow update of inventory", s.a, rotated(s.loginA))
	s.stored(saving, "after an update of orders during a slow one of inventory", s.b, wantB)
}

func excludesOtherUpdates(s *scene) {
	holder := s.handles[0]
	release := s.hold(holder, s.a.Key, rotate)
	for _, through := range s.handles {
		expiring, cancel := context.WithTimeout(context.Background(), patience)
		waited := s.waits(expiring, through, context.DeadlineExceeded)
		cancel()
		if !waited {
			continue
		}

		cancelled, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(patience, cancel)
		s.waits(cancelled, through, context.Canceled)
		timer.Stop()
		cancel()
	}
	if err := release(); err != nil {
		s.breaks(saving, "UpdateCredentials through %s that others waited for: %s; want no error", holder.name, describe(err))
	}
	s.stored(saving, "after an update that others waited for", s.a, rotated(s.loginA))
	s.stillWorks(exclusion, "after an update that others waited for")
}

// waits checks that an update of a, which another one through Store excludes,
// waits until its context ends, and reports whether it was not run.
func (s *scene) waits(ctx context.Context, through handle, want error) bool {
	s.Helper()
	const how = "whose context ended while it waited"
	ran, err := s.tryUpdate(ctx, exclusion, through, how, s.a.Key)
	switch {
	case ran && through.name != s.handles[0].name:
		s.breaks(exclusion, "update ran through %s while one was running through %s: the exclusion does not reach across handles", through.name, s.handles[0].name)
	case ran:
		s.breaks(exclusion, "update ran through %s while one of the same key was running through it: there is no exclusion", through.name)
	case !errors.Is(err, want):
		s.breaks(exclusion, "UpdateCredentials through %s %s: %s; want %s", through.name, how, describe(err), describe(want))
	}
	return !ran
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
	release := s.hold(s.handles[0], s.a.Key, same)
	var group sync.WaitGroup
	problems := make(chan string, goroutines*rounds*len(s.handles)*len(connections)*2)
	inside := make([]atomic.Int64, len(connections))
	ctx, cancel := context.WithTimeout(context.Background(), 6*Limit)
	defer cancel()
	for i := range goroutines * len(s.handles) * len(connections) {
		through, which := s.handles[i%len(s.handles)], i/len(s.handles)%len(connections)
		group.Go(func() {
			for range rounds {
				var runs atomic.Int64
				err := through.UpdateCredentials(ctx, connections[which].Key, counted(&runs, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					if inside[which].Add(1) > 1 {
						problems <- exclusion.cited("two updates of one key ran at once")
					}
					defer inside[which].Add(-1)
					n, err := strconv.Atoi(c.AccessToken.Reveal())
					if err != nil {
						return c, errors.New("update was given credentials that nobody saved under this key")
					}
					runtime.Gosched()
					c.AccessToken = registry.NewSecret(strconv.Itoa(n + 1))
					return c, nil
				}))
				switch n := runs.Load(); {
				case n != 1:
					problems <- once.cited(fmt.Sprintf("UpdateCredentials through %s, among many, ran update %d times, want once; it returned %s", through.name, n, describe(err)))
				case errors.Is(err, registry.ErrChanged):
					problems <- once.cited(fmt.Sprintf("UpdateCredentials through %s, among many: %s; want no error: what update is given is read after the exclusion was obtained", through.name, describe(err)))
				case err != nil:
					problems <- exclusion.cited(fmt.Sprintf("UpdateCredentials through %s, among many: %s; want no error", through.name, describe(err)))
				}
			}
		})
	}
	for range 100 {
		runtime.Gosched() // Lets most of them get to where they wait.
	}
	if err := release(); err != nil {
		s.breaks(exclusion, "UpdateCredentials through %s that many waited for: %s; want no error", s.handles[0].name, describe(err))
	}
	group.Wait()
	close(problems)
	for problem := range problems {
		s.Fatal(problem)
	}
	for _, c := range connections {
		want := login(c, 4)
		want.AccessToken = registry.NewSecret(strconv.Itoa(goroutines * rounds * len(s.handles)))
		s.stored(exclusion, "after many rotations, each of which counts the access token up by one", c, want)
	}
}

// comparesAndWritesInOneStep lets a newer login come while an update is saved, so
// often that one comes between comparing and writing where these are two steps:
// one that won shows that it came before the comparison, and the next one comes
// a little later; one that did not comes a little earlier the next time.
// Whatever the moment, the newer login is what is stored in the end.
func comparesAndWritesInOneStep(s *scene) {
	const rounds = 64
	// A login begins so long after update returns; before it, where that is
	// negative. How long a save takes says what a large step is.
	var offset, step time.Duration
	var wonBefore bool
	for round := range rounds {
		through := s.handles[round%len(s.handles)]
		newer := login(s.a, 10+round)
		s.login(s.loginA, s.a)
		begin, done := make(chan struct{}), make(chan error, 1)
		go func() {
			<-begin
			time.Sleep(offset)
			done <- s.Login(context.Background(), s.a.Key, newer)
		}()
		var returned time.Time
		err := s.update(through, s.a.Key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
			close(begin)
			time.Sleep(-offset)
			returned = time.Now()
			return rotate(ctx, c)
		})
		took := time.Since(returned)
		won := errors.Is(err, registry.ErrChanged)
		if err != nil && !won {
			s.breaks(saving, "UpdateCredentials through %s while a login came: %s; want no error or registry.ErrChanged", through.name, describe(err))
		}
		if err := within(s, once, "Fixture.Login during a save", func(context.Context) error { return <-done }); err != nil {
			s.Fatalf("Fixture.Login during a save: %s", describe(err))
		}
		if failure := lookAtLogin(through, s.a, newer); failure != "" {
			s.Fatal(saving.cited("after a login during the save of an update: " + failure + ": comparing and writing are two steps, and the login came in between"))
		}
		switch {
		case step == 0:
			step = took
		case won != wonBefore:
			step = max(step/2, took/32)
		}
		if wonBefore = won; won {
			offset += step
		} else {
			offset -= step
		}
	}
}

// isNotUsedUp lets many wait for one key, as a store with a bounded number of
// connections has to bear.
func isNotUsedUp(s *scene) {
	const waiters = 20
	during := fmt.Sprintf("while %d updates of inventory wait", waiters)
	release := s.hold(s.handles[0], s.a.Key, rotate)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	problems := make(chan string, waiters*len(s.handles))
	for _, through := range s.handles {
		for range waiters {
			go func() {
				var problem string
				if err := through.UpdateCredentials(ctx, s.a.Key, same); err != nil && !errors.Is(err, context.Canceled) {
					problem = fmt.Sprintf("UpdateCredentials through %s, among %d that wait: %s; want no error or context.Canceled", through.name, waiters, describe(err))
				}
				problems <- problem
			}()
		}
	}
	// Time for them to come to where they wait. A store that is right passes
	// however many of them do.
	time.Sleep(patience)
	wantB := s.loginB
	for _, through := range s.handles {
		for _, failure := range within(s, exclusion, "reading through "+through.name+" "+during, func(context.Context) []string {
			return []string{look(through, s.a, s.loginA), look(through, s.b, wantB)}
		}) {
			if failure != "" {
				s.breaks(reads, "%s: %s", during, failure)
			}
		}
		err := within(s, exclusion, "UpdateCredentials of orders through "+through.name+" "+during, func(ctx context.Context) error {
			return through.UpdateCredentials(ctx, s.b.Key, rotate)
		})
		if err != nil {
			s.breaks(exclusion, "UpdateCredentials of orders through %s %s: %s; want no error", through.name, during, describe(err))
		}
		wantB = rotated(wantB)
	}
	if err := release(); err != nil {
		s.breaks(exclusion, "the UpdateCredentials of inventory that many wait for: %s; want no error", describe(err))
	}
	cancel()
	for range cap(problems) {
		if problem := within(s, exclusion, "UpdateCredentials whose context ended while it waited", func(context.Context) string { return <-problems }); problem != "" {
			s.breaks(exclusion, "%s", problem)
		}
	}
	s.stored(saving, "after an update that many waited for", s.a, rotated(s.loginA))
	s.stored(saving, "after an update of orders "+during, s.b, wantB)
}

// givesNothingBesideAnError reads what is there with contexts that have ended.
// A store may look at the context or not: what it gives is a value or an error.
// The errors of what is not there are checked where they are due.
func givesNothingBesideAnError(s *scene) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ended := range []context.Context{cancelled, expired} {
		s.everywhere("with a context that has ended ("+describe(ended.Err())+")", func(through handle) (found []finding) {
			report := func(method, what string) {
				found = append(found, finding{errs, fmt.Sprintf("%s through %s gives %s beside its error", method, through.name, what)})
			}
			if connection, err := through.Connection(ended, s.a.Key); err != nil && connection != (registry.Connection{}) {
				report("Connection", "a connection")
			}
			if credentials, err := through.Credentials(ended, s.a.Key); err != nil && credentials != (registry.Credentials{}) {
				report("Credentials", "credentials")
			}
			if reader, ok := through.Store.(registry.LoginReader); ok {
				if connection, credentials, err := reader.ConnectionCredentials(ended, s.a.Key); err != nil && (connection != registry.Connection{} || credentials != registry.Credentials{}) {
					report("ConnectionCredentials", "a value")
				}
			}
			return found
		})
	}
}
