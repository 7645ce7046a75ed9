package agentauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// lister is a store of logins whose content a test can see.
type lister interface {
	agentauth.Store
	List(context.Context) ([]registry.Connection, error)
}

// eachStore runs a test on a registry in memory and on one in a folder.
func eachStore(t *testing.T, test func(*testing.T, lister)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, registry.NewMemory())
	})
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		store, _ := newDir(t)
		test(t, store)
	})
}

func newDir(t *testing.T) (store *registry.Dir, path string) {
	t.Helper()
	plain, err := descriptor().ConnectionKey()
	if err != nil {
		t.Fatal(err)
	}
	path = lockport.Quiet(t.TempDir(), "registry", plain)
	store, err = registry.OpenDir(path, registry.AllowPlainCredentials())
	if err != nil {
		t.Fatal(err)
	}
	return store, path
}

// agreeing gives the options of a login whose person agrees at once.
func agreeing(t *testing.T, h *hub) agentauth.LogInOptions {
	return agentauth.LogInOptions{
		Client: []agentclient.Option{h.option(), agentclient.WithMaxRetries(0)}, // whose waits would be real
		Show: func(_ context.Context, prompt agentauth.Prompt) error {
			if left := time.Until(prompt.ExpiresAt); left < 5*time.Minute || !strings.HasPrefix(prompt.URL, "https://business.example.test/") || !strings.HasPrefix(prompt.CallbackAddress, "127.0.0.1:") {
				t.Errorf("%+v", prompt)
			}
			go browse(t, h.approve(prompt.URL))
			return nil
		},
	}
}

func mustLogIn(t *testing.T, store agentauth.Store, options agentauth.LogInOptions) agentauth.Result {
	t.Helper()
	result, err := agentauth.LogIn(t.Context(), store, config(), options)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// image is everything that a store holds.
type image struct {
	Connections []registry.Connection
	Current     string
	Sessions    map[string]string
}

func look(t *testing.T, store lister) image {
	t.Helper()
	connections, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := image{Connections: connections, Sessions: map[string]string{}}
	for i, c := range connections {
		seen.Connections[i].UpdatedAt = time.Time{}
		credentials, err := store.Credentials(t.Context(), c.Key)
		switch {
		case err == nil:
			seen.Sessions[c.Key] = credentials.SessionID
		case !errors.Is(err, registry.ErrNotLoggedIn):
			seen.Sessions[c.Key] = "unreadable"
		}
	}
	if current, err := store.Current(t.Context()); err == nil {
		seen.Current = current.Key
	}
	return seen
}

func unchanged(t *testing.T, store lister, before image) {
	t.Helper()
	if diff := cmp.Diff(before, look(t, store), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the store has changed: %s", diff)
	}
}

func TestLogIn(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		options := agreeing(t, h)
		options.Alias = "shop"
		first := mustLogIn(t, store, options)
		plain, _ := descriptor().ConnectionKey()
		if first.Connection.Key != plain || first.Connection.Alias != "shop" || first.Session.ID == "" || first.Replaced != nil {
			t.Errorf("%+v", first)
		}
		credentials, err := store.Credentials(t.Context(), plain)
		if err != nil || credentials.SessionID != first.Session.ID {
			t.Errorf("%v, %v", credentials, err)
		}
		seen := look(t, store)
		if seen.Current != plain || len(seen.Connections) != 1 {
			t.Errorf("%+v", seen)
		}

		// A second login is a named instance beside it, and becomes current.
		second := mustLogIn(t, store, agreeing(t, h))
		if second.Connection.Key == plain || second.Connection.InstanceID == "" || second.Replaced != nil {
			t.Errorf("%+v", second)
		}
		seen = look(t, store)
		want := map[string]string{plain: first.Session.ID, second.Connection.Key: second.Session.ID}
		if diff := cmp.Diff(want, seen.Sessions); diff != "" || seen.Current != second.Connection.Key || len(h.living()) != 2 {
			t.Errorf("%s, current %s, %q live", diff, seen.Current, h.living())
		}

		// The name of the first one is refused before anybody is asked.
		before := look(t, store)
		asked := len(h.requests)
		_, err = agentauth.LogIn(t.Context(), store, config(), options)
		expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone)
		if len(h.requests) != asked {
			t.Errorf("the Hub was asked: %q", h.requests[asked:])
		}
		unchanged(t, store, before)

		// Once the first is logged out, its connection is free for the next.
		if err := agentauth.LogOut(t.Context(), store, plain, agentauth.LogOutOptions{Client: options.Client}); err != nil {
			t.Fatal(err)
		}
		third := mustLogIn(t, store, options)
		if third.Connection.Key != plain || third.Connection.Alias != "shop" || len(h.living()) != 2 {
			t.Errorf("%+v", third)
		}
	})
}

func TestReplacing(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		options := agreeing(t, h)
		options.Alias = "shop"
		mustLogIn(t, store, options)
		second := mustLogIn(t, store, agreeing(t, h)) // a named instance
		kept := look(t, store)

		options = agreeing(t, h)
		options.Replace = second.Connection.Key
		options.Alias = "yard"
		show := options.Show
		var told *agentauth.Replaced
		options.Show = func(ctx context.Context, prompt agentauth.Prompt) error {
			told = prompt.Replaces
			return show(ctx, prompt)
		}
		third := mustLogIn(t, store, options)
		if told == nil || told.SessionID != second.Session.ID || told.Connection.Key != second.Connection.Key ||
			time.Until(told.EndsAt) < 29*24*time.Hour || time.Until(told.EndsAt) > 31*24*time.Hour {
			t.Errorf("the person was told %+v", told)
		}
		if third.Connection.Key != second.Connection.Key || third.Connection.Alias != "yard" || third.Replaced == nil || third.Replaced.SessionID != second.Session.ID || third.ReplacedLivesOn {
			t.Errorf("%+v", third)
		}
		seen := look(t, store)
		kept.Sessions[third.Connection.Key] = third.Session.ID
		if diff := cmp.Diff(kept.Sessions, seen.Sessions); diff != "" || len(h.living()) != 2 {
			t.Errorf("%s, %q live", diff, h.living())
		}

		// Where the old session cannot be ended, the new login stands.
		h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
			if step == "revoke" {
				return nil, io.EOF
			}
			return real(), nil
		})
		options = agreeing(t, h)
		options.Replace = third.Connection.Key
		fourth := mustLogIn(t, store, options)
		if !fourth.ReplacedLivesOn || fourth.Connection.Alias != "yard" || look(t, store).Sessions[third.Connection.Key] != fourth.Session.ID {
			t.Errorf("%+v", fourth)
		}
		h.fault(nil)

		before := look(t, store)
		for name, replace := range map[string]string{"unknown": "conn_0123456789abcdef0123456789abcdef", "not a key": "yard"} {
			options.Replace = replace
			if _, err := agentauth.LogIn(t.Context(), store, config(), options); err == nil {
				t.Errorf("%s: there is a login", name)
			}
		}
		other, err := store.Register(t.Context(), registry.Descriptor{HubURL: hubURL, ClientAppID: clientApp, Workspace: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		options.Replace = other.Key
		_, err = agentauth.LogIn(t.Context(), store, config(), options)
		expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone)
		if err := store.Remove(t.Context(), other.Key); err != nil {
			t.Fatal(err)
		}
		unchanged(t, store, before)
	})
}

// To replace a login that is not there is to make one.
func TestReplacingNothing(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		connection, err := store.Register(t.Context(), descriptor(), registry.WithAlias("shop"))
		if err != nil {
			t.Fatal(err)
		}
		options := agreeing(t, h)
		options.Replace = connection.Key
		result := mustLogIn(t, store, options)
		if result.Replaced != nil || result.Connection.Key != connection.Key || result.Connection.Alias != "shop" {
			t.Errorf("%+v", result)
		}
	})
}

func descriptor() registry.Descriptor {
	return registry.Descriptor{HubURL: hubURL, ClientAppID: clientApp, Workspace: workspace}
}

// A damaged login is neither overwritten nor in the way, unless it is to be
// replaced.
func TestDamagedLogin(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	store, path := newDir(t)
	first := mustLogIn(t, store, agreeing(t, h))
	file := filepath.Join(path, "agent-connections", first.Connection.Key+".json")
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	second := mustLogIn(t, store, agreeing(t, h))
	if second.Connection.InstanceID == "" {
		t.Errorf("%+v", second)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != `{}` {
		t.Errorf("%s, %v", data, err)
	}
	err := agentauth.LogOut(t.Context(), store, first.Connection.Key, agentauth.LogOutOptions{Client: agreeing(t, h).Client})
	expectError(t, err, feedback.CodeUnknownFailure, feedback.NextNone, registry.ErrDamaged)
	options := agreeing(t, h)
	options.Replace = first.Connection.Key
	third := mustLogIn(t, store, options)
	if third.Replaced == nil || third.Replaced.SessionID != "" || look(t, store).Sessions[first.Connection.Key] != third.Session.ID {
		t.Errorf("%+v", third)
	}
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	err = agentauth.LogOut(t.Context(), store, first.Connection.Key, agentauth.LogOutOptions{Client: options.Client, Forget: true})
	expectError(t, err, feedback.CodeUnknownFailure, feedback.NextNone, registry.ErrDamaged, agentauth.ErrSessionLivesOn)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// failing is a store of which one method fails, with words that may hold a
// secret.
type failing struct {
	lister
	method string
	err    error
	after  bool // it does its work before it fails
}

func (f *failing) fails(method string, do func() error) error {
	if method != f.method {
		return do()
	}
	if f.after {
		if err := do(); err != nil {
			return err
		}
	}
	return f.err
}

func (f *failing) Register(ctx context.Context, d registry.Descriptor, options ...registry.RegisterOption) (c registry.Connection, err error) {
	err = f.fails("Register", func() (err error) { c, err = f.lister.Register(ctx, d, options...); return err })
	return c, err
}

func (f *failing) AddCredentials(ctx context.Context, key string, c registry.Credentials) error {
	return f.fails("AddCredentials", func() error { return f.lister.AddCredentials(ctx, key, c) })
}

func (f *failing) SetCurrent(ctx context.Context, key string) error {
	return f.fails("SetCurrent", func() error { return f.lister.SetCurrent(ctx, key) })
}

func (f *failing) Current(ctx context.Context) (c registry.Connection, err error) {
	err = f.fails("Current", func() (err error) { c, err = f.lister.Current(ctx); return err })
	return c, err
}

func (f *failing) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	return f.fails("UpdateCredentials", func() error { return f.lister.UpdateCredentials(ctx, key, update) })
}

func (f *failing) DeleteSession(ctx context.Context, key, session string) error {
	return f.fails("DeleteSession", func() error { return f.lister.DeleteSession(ctx, key, session) })
}

// A login that the store does not take is ended at the Hub, and the store is as
// it was.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	disk := errors.New("synthetic words of a database")
	for _, method := range []string{"Register", "AddCredentials", "SetCurrent", "Current", "UpdateCredentials"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, store lister) {
				h := newHub(t)
				options := agreeing(t, h)
				options.Alias = "shop"
				if method == "UpdateCredentials" {
					options.Replace = mustLogIn(t, store, agreeing(t, h)).Connection.Key
				}
				for range 2 {
					before, living := look(t, store), len(h.living())
					_, err := agentauth.LogIn(t.Context(), &failing{lister: store, method: method, err: disk}, config(), options)
					expectError(t, err, feedback.CodeUnknownFailure, feedback.NextNone)
					if errors.Is(err, disk) || len(h.living()) != living {
						t.Errorf("%v, %q live", err, h.living())
					}
					unchanged(t, store, before)
					if method != "UpdateCredentials" {
						mustLogIn(t, store, agreeing(t, h)) // and with something there
					}
				}
			})
		})
	}
}

// A login that was saved and may not outlast a power failure is a login.
func TestNotSynced(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		first := mustLogIn(t, &failing{lister: store, method: "AddCredentials", err: registry.ErrNotSynced, after: true}, agreeing(t, h))
		options := agreeing(t, h)
		options.Replace = first.Connection.Key
		second := mustLogIn(t, &failing{lister: store, method: "UpdateCredentials", err: registry.ErrNotSynced, after: true}, options)
		if seen := look(t, store); seen.Sessions[first.Connection.Key] != second.Session.ID || len(h.living()) != 1 {
			t.Errorf("%+v, %q live", seen, h.living())
		}
	})
}

// Where the store cannot be brought back either, the error says where to look.
func TestStoreThatStaysChanged(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	store := registry.NewMemory()
	_, err := agentauth.LogIn(t.Context(), &broken{failing{lister: store, method: "SetCurrent", err: io.EOF}}, config(), agreeing(t, h))
	expectError(t, err, feedback.CodeUnknownFailure, feedback.NextNone)
	if key := look(t, store).Connections[0].Key; !strings.Contains(err.Error(), key) || len(h.living()) != 0 {
		t.Errorf("%v, %q live", err, h.living())
	}
}

type broken struct{ failing }

func (*broken) DeleteSession(context.Context, string, string) error { return io.EOF }

// Somebody who logs in to the same while one waits here loses nothing, and
// neither do we.
func TestLoginMeanwhile(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		options := agreeing(t, h)
		show := options.Show
		options.Alias = "shop"
		var theirs agentauth.Result
		options.Show = func(ctx context.Context, prompt agentauth.Prompt) error {
			theirs = mustLogIn(t, store, agreeing(t, h))
			return show(ctx, prompt)
		}
		ours := mustLogIn(t, store, options)
		want := map[string]string{theirs.Connection.Key: theirs.Session.ID, ours.Connection.Key: ours.Session.ID}
		if diff := cmp.Diff(want, look(t, store).Sessions); diff != "" || len(h.living()) != 2 || ours.Connection.InstanceID == "" || ours.Connection.Alias != "shop" {
			t.Errorf("%s: %+v", diff, ours)
		}
	})
}

// raced is a store where somebody else is a moment faster.
type raced struct {
	lister
	once sync.Once
	win  func()
}

func (r *raced) AddCredentials(ctx context.Context, key string, c registry.Credentials) error {
	r.once.Do(r.win)
	return r.lister.AddCredentials(ctx, key, c)
}

func TestLoginAtTheSameMoment(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		var theirs agentauth.Result
		race := &raced{lister: store, win: func() { theirs = mustLogIn(t, store, agreeing(t, h)) }}
		options := agreeing(t, h)
		options.Alias = "shop"
		ours := mustLogIn(t, race, options)
		want := map[string]string{theirs.Connection.Key: theirs.Session.ID, ours.Connection.Key: ours.Session.ID}
		if diff := cmp.Diff(want, look(t, store).Sessions); diff != "" || ours.Connection.Alias != "shop" || theirs.Connection.Alias != "" {
			t.Errorf("%s: %+v", diff, ours)
		}
		both, err := store.Connection(t.Context(), theirs.Connection.Key)
		if err != nil || both.Alias != "" {
			t.Errorf("%+v, %v", both, err)
		}
	})
}

// Many logins at once into one folder.
func TestManyLogins(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		var group sync.WaitGroup
		const many = 12
		for range many {
			group.Go(func() {
				if _, err := agentauth.LogIn(t.Context(), store, config(), agreeing(t, h)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		seen := look(t, store)
		sessions := map[string]bool{}
		for _, session := range seen.Sessions {
			sessions[session] = true
		}
		if len(sessions) != many || len(h.living()) != many || seen.Sessions[seen.Current] == "" {
			t.Errorf("%d sessions are stored, %d live", len(sessions), len(h.living()))
		}
	})
}

func TestLogInArguments(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	options := agreeing(t, h)
	store := registry.NewMemory()
	var none *registry.Memory
	bad := agreeing(t, h)
	bad.Show = nil
	wrong := config()
	wrong.Workspace = "auto"
	for name, err := range map[string]error{
		//lint:ignore SA1012 what is refused
		"no context": second(agentauth.LogIn(nil, store, config(), options)),
		"no store":   second(agentauth.LogIn(t.Context(), nil, config(), options)),
		"nil store":  second(agentauth.LogIn(t.Context(), none, config(), options)),
		"no show":    second(agentauth.LogIn(t.Context(), store, config(), bad)),
		"no config":  second(agentauth.LogIn(t.Context(), store, wrong, options)),
		//lint:ignore SA1012 what is refused
		"out":        agentauth.LogOut(nil, store, "", agentauth.LogOutOptions{}),
		"out of nil": agentauth.LogOut(t.Context(), none, "", agentauth.LogOutOptions{}),
		"no key":     agentauth.LogOut(t.Context(), store, "shop", agentauth.LogOutOptions{}),
	} {
		if !errors.Is(err, feedback.CodeInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	why := errors.New("no terminal")
	bad.Show = func(context.Context, agentauth.Prompt) error { return why }
	_, err := agentauth.LogIn(t.Context(), store, config(), bad)
	expectError(t, err, feedback.CodeInvalidRequest, feedback.NextNone, why)
	ctx, cancel := context.WithCancel(t.Context())
	bad.Show = func(context.Context, agentauth.Prompt) error { cancel(); return why }
	_, err = agentauth.LogIn(ctx, store, config(), bad)
	expectError(t, err, feedback.CodeAgentRequestCancelled, feedback.NextNone, context.Canceled)
	bad.Show = func(context.Context, agentauth.Prompt) error { return nil }
	_, err = agentauth.LogIn(ctx, store, config(), bad)
	expectError(t, err, feedback.CodeAgentRequestCancelled, feedback.NextNone, context.Canceled)
	bad.Alias = "shop"
	_, err = agentauth.LogIn(ctx, store, config(), bad)
	expectError(t, err, feedback.CodeAgentRequestCancelled, feedback.NextNone, context.Canceled)
}

func second[T any](_ T, err error) error { return err }

func TestLogOut(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		login := agreeing(t, h)
		key := mustLogIn(t, store, login).Connection.Key
		options := agentauth.LogOutOptions{Client: login.Client}

		// A Hub that cannot be told: the login stays.
		unreachable := func(step string, real func() *http.Response) (*http.Response, error) { return nil, io.EOF }
		h.fault(unreachable)
		before := look(t, store)
		err := agentauth.LogOut(t.Context(), store, key, options)
		expectError(t, err, feedback.CodeAgentTransportUnavailable, feedback.NextNone, agentauth.ErrSessionLivesOn)
		unchanged(t, store, before)

		h.fault(nil)
		if err := agentauth.LogOut(t.Context(), store, key, options); err != nil || len(h.living()) != 0 {
			t.Errorf("%v, %q live", err, h.living())
		}
		if seen := look(t, store); len(seen.Sessions) != 0 || len(seen.Connections) != 1 {
			t.Errorf("%+v", seen)
		}
		if err := agentauth.LogOut(t.Context(), store, key, options); err != nil {
			t.Errorf("a second time: %v", err)
		}

		// Forgotten all the same, and the error says what lives on.
		mustLogIn(t, store, login)
		h.fault(unreachable)
		options.Forget = true
		err = agentauth.LogOut(t.Context(), store, key, options)
		expectError(t, err, feedback.CodeAgentTransportUnavailable, feedback.NextNone, agentauth.ErrSessionLivesOn)
		if seen := look(t, store); len(seen.Sessions) != 0 || len(h.living()) != 1 {
			t.Errorf("%+v, %q live", seen, h.living())
		}

		err = agentauth.LogOut(t.Context(), store, "conn_0123456789abcdef0123456789abcdef", options)
		expectError(t, err, feedback.CodeAgentAuthorizationUnavailable, feedback.NextReauthorize, registry.ErrNotFound)
	})
}

// A login that takes the place of the one that is logged out stays.
func TestLogOutMeetsANewerLogin(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store lister) {
		h := newHub(t)
		login := agreeing(t, h)
		first := mustLogIn(t, store, login)
		newer, err := store.Credentials(t.Context(), first.Connection.Key)
		if err != nil {
			t.Fatal(err)
		}
		newer.SessionID = "cccccccc-cccc-4ccc-8ccc-000000000001"
		h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
			if step == "revoke" {
				if err := store.SaveCredentials(t.Context(), first.Connection.Key, newer); err != nil {
					t.Error(err)
				}
			}
			return real(), nil
		})
		if err := agentauth.LogOut(t.Context(), store, first.Connection.Key, agentauth.LogOutOptions{Client: login.Client}); err != nil {
			t.Error(err)
		}
		if seen := look(t, store); seen.Sessions[first.Connection.Key] != newer.SessionID {
			t.Errorf("%+v", seen)
		}
	})
}

func TestLogOutOfAFailingStore(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	login := agreeing(t, h)
	store := registry.NewMemory()
	key := mustLogIn(t, store, login).Connection.Key
	options := agentauth.LogOutOptions{Client: login.Client}
	err := agentauth.LogOut(t.Context(), &failing{lister: store, method: "UpdateCredentials", err: io.EOF}, key, options)
	expectError(t, err, feedback.CodeUnknownFailure, feedback.NextNone)
	if len(h.living()) != 1 {
		t.Error("the session has ended")
	}
	err = agentauth.LogOut(t.Context(), &failing{lister: store, method: "DeleteSession", err: io.EOF}, key, options)
	expectError(t, err, feedback.CodeUnknownFailure, feedback.NextNone)
	if len(h.living()) != 0 || !strings.Contains(err.Error(), "was ended at the Hub") {
		t.Errorf("%v, %q live", err, h.living())
	}
}

// A Hub that does not answer holds up a refresh of the same login no longer than
// another refresh would.
func TestLogOutAtASlowHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		store := registry.NewMemory()
		connection, err := store.Register(t.Context(), descriptor())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		session := h.Login(hubtest.Grant{ClientID: clientApp, Routes: []string{workspace}})
		if err := store.AddCredentials(t.Context(), connection.Key, session.Credentials(hubURL, workspace)); err != nil {
			t.Fatal(err)
		}
		h.fault(slow)
		err = agentauth.LogOut(t.Context(), store, connection.Key, agentauth.LogOutOptions{Client: []agentclient.Option{h.option()}})
		took := time.Since(now)
		expectError(t, err, feedback.CodeAgentRequestTimeout, feedback.NextNone, context.DeadlineExceeded, agentauth.ErrSessionLivesOn)
		if took > 16*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(10 * time.Hour) // for requests that the client has given up
	})
}
