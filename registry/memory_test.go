package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/registry"
)

const unknownKey = "conn_00000000000000000000000000000000"

func register(t *testing.T, m *registry.Memory, d registry.Descriptor, options ...registry.RegisterOption) registry.Connection {
	t.Helper()
	c, err := m.Register(t.Context(), d, options...)
	if err != nil {
		t.Fatalf("Register: %v", err)
	}
	return c
}

func TestRegister(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := registry.NewMemory()
		<-time.After(1234567 * time.Nanosecond)
		start := time.Now().UTC().Truncate(time.Millisecond)
		d := shop()
		d.HubURL = "HTTPS://hub.example.com:443/"
		got := register(t, m, d, registry.WithAlias("shop"))
		want := registry.Connection{
			Key: "conn_ad8c5f3426e68dfa6b0838bd575794c2", Alias: "shop",
			HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
			CreatedAt: start, UpdatedAt: start,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Register (-want +got):\n%s", diff)
		}
		if got.Descriptor() != shop() {
			t.Errorf("Descriptor() = %+v, want %+v", got.Descriptor(), shop())
		}

		// Again, with nothing new: the same entry, not touched.
		<-time.After(time.Hour)
		if diff := cmp.Diff(want, register(t, m, shop())); diff != "" {
			t.Errorf("Register again (-want +got):\n%s", diff)
		}

		// Again, with another alias and the flag.
		d.AllowInsecureHTTP = true
		want.Alias, want.AllowInsecureHTTP, want.UpdatedAt = "库存", true, start.Add(time.Hour)
		if diff := cmp.Diff(want, register(t, m, d, registry.WithAlias("库存"))); diff != "" {
			t.Errorf("Register with other options (-want +got):\n%s", diff)
		}
		<-time.After(time.Hour)
		want.Alias, want.AllowInsecureHTTP, want.UpdatedAt = "", false, start.Add(2*time.Hour)
		if diff := cmp.Diff(want, register(t, m, shop(), registry.WithAlias(""))); diff != "" {
			t.Errorf("Register without an alias (-want +got):\n%s", diff)
		}
		all, err := m.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]registry.Connection{want}, all); diff != "" {
			t.Errorf("List (-want +got):\n%s", diff)
		}
	})
}

func TestRegisterKeepsTheLogin(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	if err := m.SaveCredentials(t.Context(), c.Key, credentials()); err != nil {
		t.Fatal(err)
	}
	register(t, m, shop(), registry.WithAlias("shop"))
	got, err := m.Credentials(t.Context(), c.Key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(credentials(), got); diff != "" {
		t.Errorf("Credentials (-want +got):\n%s", diff)
	}
}

func TestRegisterInstances(t *testing.T) {
	t.Parallel()
	var m registry.Memory
	plain := register(t, &m, shop())
	first := register(t, &m, shop(), registry.WithInstance(instance))
	second := register(t, &m, shop(), registry.WithInstance(registry.NewInstanceID()), registry.WithAlias("second"))
	if first.Key != "conn_3bdf6e3e011b09eefb9280bcf0ec0847" || first.InstanceID != instance {
		t.Errorf("a named instance is %+v", first)
	}
	if plain.Key == first.Key || first.Key == second.Key || plain.InstanceID != "" {
		t.Error("instances share a key")
	}
	if again := register(t, &m, shop(), registry.WithInstance(instance)); again != first {
		t.Errorf("registering an instance again gives %+v, want %+v", again, first)
	}
	other := shop()
	other.Workspace = "orders"
	_, err := m.Register(t.Context(), other, registry.WithInstance(instance))
	wantInvalid(t, err, "instance ID", instance)
	all, err := m.List(t.Context())
	if err != nil || len(all) != 3 || !slices.IsSortedFunc(all, func(a, b registry.Connection) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("List = %+v, %v; want three, sorted by key", all, err)
	}
}

func TestNewInstanceID(t *testing.T) {
	t.Parallel()
	first, second := registry.NewInstanceID(), registry.NewInstanceID()
	if first == second || !identifier.InstanceID(first) || !identifier.InstanceID(second) {
		t.Errorf("NewInstanceID gives %q and %q", first, second)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	taken := register(t, m, shop(), registry.WithAlias("taken"))
	other := registry.Descriptor{HubURL: "https://other.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"}
	for _, test := range []struct {
		argument, value string
		descriptor      registry.Descriptor
		option          registry.RegisterOption
	}{
		{"Hub URL", "", registry.Descriptor{}, nil},
		{"Hub URL", "http://plain.example.com", registry.Descriptor{HubURL: "http://plain.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"}, nil},
		{"client app ID", "Agent One", registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "Agent One", Workspace: "inventory"}, nil},
		{"workspace", "auto", registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "auto"}, nil},
		{"alias", "taken", other, registry.WithAlias("taken")},
		{"alias", " spaced ", other, registry.WithAlias(" spaced ")},
		{"alias", "line\nend", other, registry.WithAlias("line\nend")},
		{"alias", "turn\u202eround", other, registry.WithAlias("turn\u202eround")},
		{"alias", taken.Key, other, registry.WithAlias(taken.Key)},
		{"alias", strings.Repeat("x", 129), other, registry.WithAlias(strings.Repeat("x", 129))},
		{"instance ID", "instance_1", other, registry.WithInstance("instance_1")},
		{"instance ID", "", other, registry.WithInstance("")},
		{"option", "", other, registry.RegisterOption(nil)},
	} {
		options := []registry.RegisterOption{test.option}
		if test.option == nil && test.argument != "option" {
			options = nil
		}
		got, err := m.Register(t.Context(), test.descriptor, options...)
		if test.value == taken.Key || test.value == "taken" || test.value == "auto" {
			// The key of the connection in the way is named; "auto" is a rule.
			test.value = ""
		}
		wantInvalid(t, err, test.argument, test.value)
		if got != (registry.Connection{}) {
			t.Errorf("Register gives %+v beside its error", got)
		}
	}
	if all, err := m.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("List = %+v, %v; want what was there before", all, err)
	}
}

func TestRegisterTakesAnAliasOnlyWhole(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	register(t, m, shop(), registry.WithAlias("shop"))
	other := shop()
	other.Workspace = "orders"
	before := register(t, m, other, registry.WithAlias("orders"))
	if _, err := m.Register(t.Context(), other, registry.WithAlias("shop")); err == nil {
		t.Error("an alias is taken twice")
	}
	if got, err := m.Connection(t.Context(), before.Key); err != nil || got != before {
		t.Errorf("after a refusal the connection is %+v, %v; want %+v", got, err, before)
	}
}

func TestRegisterIsLimited(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	d := shop()
	for i := range registry.MaxConnections {
		d.Workspace = fmt.Sprintf("workspace-%d", i)
		register(t, m, d)
	}
	register(t, m, d) // One that is there is not one more.
	d.Workspace = "one-more"
	_, err := m.Register(t.Context(), d)
	var safe *registry.Error
	if !errors.As(err, &safe) || !strings.Contains(err.Error(), "256") || errors.Is(err, feedback.CodeInvalidRequest) {
		t.Errorf("Register of one too many: %v", err)
	}
	all, err := m.List(t.Context())
	if err != nil || len(all) != registry.MaxConnections {
		t.Fatalf("List gives %d, %v", len(all), err)
	}
	if err := m.Remove(t.Context(), all[100].Key); err != nil {
		t.Fatal(err)
	}
	register(t, m, d)
}

func TestListIsACopy(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	all, err := m.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all[0].HubURL = "https://evil.example.com"
	if got, err := m.Connection(t.Context(), c.Key); err != nil || got != c {
		t.Errorf("a change of the list changed the registry: %+v, %v", got, err)
	}
}

func TestByAlias(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	other := shop()
	other.Workspace = "orders"
	register(t, m, other)
	want := register(t, m, shop(), registry.WithAlias("Shop"))
	if got, err := m.ByAlias(t.Context(), "Shop"); err != nil || got != want {
		t.Errorf("ByAlias = %+v, %v; want %+v", got, err, want)
	}
	for _, alias := range []string{"shop", "", "Shop "} {
		if got, err := m.ByAlias(t.Context(), alias); !errors.Is(err, registry.ErrNotFound) || got != (registry.Connection{}) {
			t.Errorf("ByAlias(%q) = %+v, %v; want ErrNotFound", alias, got, err)
		}
	}
}

func TestCurrent(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	wantNone := func() {
		t.Helper()
		if got, err := m.Current(t.Context()); !errors.Is(err, registry.ErrNotFound) || got != (registry.Connection{}) {
			t.Errorf("Current = %+v, %v; want ErrNotFound", got, err)
		}
	}
	set := func(key string) {
		t.Helper()
		if err := m.SetCurrent(t.Context(), key); err != nil {
			t.Errorf("SetCurrent: %v", err)
		}
	}
	wantNone()
	set(c.Key)
	if got, err := m.Current(t.Context()); err != nil || got != c {
		t.Errorf("Current = %+v, %v; want %+v", got, err, c)
	}
	if err := m.SetCurrent(t.Context(), unknownKey); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("SetCurrent of an unknown key: %v; want ErrNotFound", err)
	}
	if got, err := m.Current(t.Context()); err != nil || got != c {
		t.Errorf("Current after a refusal = %+v, %v; want %+v", got, err, c)
	}
	set("")
	wantNone()
	set(c.Key)
	if err := m.Remove(t.Context(), c.Key); err != nil {
		t.Fatal(err)
	}
	wantNone()
	register(t, m, shop())
	wantNone()
}

func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	for name, err := range map[string]error{
		"Remove":            m.Remove(t.Context(), unknownKey),
		"SaveCredentials":   m.SaveCredentials(t.Context(), unknownKey, credentials()),
		"DeleteCredentials": m.DeleteCredentials(t.Context(), unknownKey),
	} {
		var safe *registry.Error
		if !errors.Is(err, registry.ErrNotFound) || !errors.As(err, &safe) {
			t.Errorf("%s: %v; want ErrNotFound", name, err)
		}
	}
}

func TestDeleteCredentialsTwice(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	for range 2 {
		if err := m.DeleteCredentials(t.Context(), c.Key); err != nil {
			t.Errorf("DeleteCredentials without a login: %v", err)
		}
	}
}

func TestSavedCredentialsAreInNormalForm(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	login := credentials()
	login.HubURL = "HTTPS://HUB.example.com:443/"
	login.AccessExpiresAt = time.Date(2099, 1, 1, 8, 0, 0, 1, time.FixedZone("", 8*3600))
	if err := m.SaveCredentials(t.Context(), c.Key, login); err != nil {
		t.Fatal(err)
	}
	got, err := m.Credentials(t.Context(), c.Key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(credentials(), got); diff != "" {
		t.Errorf("Credentials (-want +got):\n%s", diff)
	}
}

func TestSaveCredentialsRefuses(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	for _, bad := range badCredentials() {
		err := m.SaveCredentials(t.Context(), c.Key, bad.credentials)
		wantInvalid(t, err, bad.member, "")
		if err != nil {
			wantNoCanary(t, err.Error())
		}
	}
	if _, err := m.Credentials(t.Context(), c.Key); !errors.Is(err, registry.ErrNotLoggedIn) {
		t.Errorf("Credentials after refusals: %v; want ErrNotLoggedIn", err)
	}
}

// calls are all methods that take a context and a key.
func calls(m *registry.Memory) map[string]func(ctx context.Context, key string) error {
	same := func(_ context.Context, c registry.Credentials) (registry.Credentials, error) { return c, nil }
	return map[string]func(ctx context.Context, key string) error{
		"Remove":            m.Remove,
		"SaveCredentials":   func(ctx context.Context, key string) error { return m.SaveCredentials(ctx, key, credentials()) },
		"DeleteCredentials": m.DeleteCredentials,
		"SetCurrent":        m.SetCurrent,
		"Connection":        func(ctx context.Context, key string) error { _, err := m.Connection(ctx, key); return err },
		"Credentials":       func(ctx context.Context, key string) error { _, err := m.Credentials(ctx, key); return err },
		"UpdateCredentials": func(ctx context.Context, key string) error { return m.UpdateCredentials(ctx, key, same) },
	}
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	for name, call := range calls(m) {
		for _, key := range []string{"shop", "conn_", unknownKey + "\n", strings.ToUpper(unknownKey), "../" + unknownKey} {
			err := call(t.Context(), key)
			wantInvalid(t, err, "connection key", "")
			if err != nil && strings.Contains(err.Error(), key) && key != "conn_" {
				t.Errorf("%s: error %q repeats the key %q", name, err, key)
			}
		}
	}
	wantInvalid(t, m.Remove(t.Context(), ""), "connection key", "")
}

func TestContextsAreChecked(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	if err := m.SaveCredentials(t.Context(), c.Key, credentials()); err != nil {
		t.Fatal(err)
	}
	all := calls(m)
	all["SetCurrent to none"] = func(ctx context.Context, _ string) error { return m.SetCurrent(ctx, "") }
	all["Register"] = func(ctx context.Context, _ string) error { _, err := m.Register(ctx, shop()); return err }
	all["List"] = func(ctx context.Context, _ string) error { _, err := m.List(ctx); return err }
	all["Current"] = func(ctx context.Context, _ string) error { _, err := m.Current(ctx); return err }
	all["ByAlias"] = func(ctx context.Context, _ string) error { _, err := m.ByAlias(ctx, "shop"); return err }

	cause := errors.New("canary in the text of a cause")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	expired, stop := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), cause)
	defer stop()
	for name, call := range all {
		wantInvalid(t, call(nil, c.Key), "context", "") //nolint:staticcheck // That is the test.
		for want, ctx := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: expired} {
			err := call(ctx, c.Key)
			var safe *registry.Error
			if !errors.Is(err, want) || !errors.Is(err, cause) || !errors.As(err, &safe) {
				t.Errorf("%s with a context that has ended: %v; want %v with its cause", name, err, want)
				continue
			}
			if errors.Is(err, context.Canceled) && errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v does not tell a cancellation from a deadline", name, err)
			}
			wantNoCanary(t, err.Error())
		}
	}
	if got, err := m.Credentials(t.Context(), c.Key); err != nil || !got.Equal(credentials()) {
		t.Errorf("calls with an ended context changed the login: %v", err)
	}
}

func TestUpdateMustNotBeNil(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	wantInvalid(t, m.UpdateCredentials(t.Context(), register(t, m, shop()).Key, nil), "update", "")
}

// Who waits longest for a key is next, and one that gives up does not disturb
// the others.
func TestUpdatesWaitInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := registry.NewMemory()
		c := register(t, m, shop())
		if err := m.SaveCredentials(t.Context(), c.Key, credentials()); err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			if err := m.UpdateCredentials(t.Context(), c.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
				<-gate
				return c, nil
			}); err != nil {
				t.Errorf("UpdateCredentials: %v", err)
			}
		})
		synctest.Wait()

		var want, got []int
		cause := errors.New("given up")
		impatient, giveUp := context.WithCancelCause(t.Context())
		for i := range 50 {
			ctx := t.Context()
			if i%5 == 3 {
				ctx = impatient
			} else {
				want = append(want, i)
			}
			group.Go(func() {
				err := m.UpdateCredentials(ctx, c.Key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					got = append(got, i)
					return c, nil
				})
				if ctx == impatient && (!errors.Is(err, context.Canceled) || !errors.Is(err, cause) || !strings.Contains(err.Error(), c.Key)) {
					t.Errorf("UpdateCredentials that is given up: %v", err)
				}
				if ctx != impatient && err != nil {
					t.Errorf("UpdateCredentials: %v", err)
				}
			})
			synctest.Wait()
		}
		giveUp(cause)
		synctest.Wait()
		close(gate)
		group.Wait()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order of updates (-want +got):\n%s", diff)
		}
	})
}

func TestUpdateWaitsUntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := registry.NewMemory()
		c := register(t, m, shop())
		if err := m.SaveCredentials(t.Context(), c.Key, credentials()); err != nil {
			t.Fatal(err)
		}
		err := m.UpdateCredentials(t.Context(), c.Key, func(ctx context.Context, login registry.Credentials) (registry.Credentials, error) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(ctx, 7*time.Second)
			defer cancel()
			err := m.UpdateCredentials(ctx, c.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
				t.Error("an update ran inside another of the same key")
				return registry.Credentials{}, nil
			})
			if !errors.Is(err, registry.ErrLocked) {
				t.Errorf("UpdateCredentials: %v, want an error that matches ErrLocked", err)
			}
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 7*time.Second {
				t.Errorf("waiting ended after %v with %v; want the deadline after 7s", time.Since(start), err)
			}
			return login, nil
		})
		if err != nil {
			t.Errorf("UpdateCredentials: %v", err)
		}
	})
}

func TestUpdateRefusesWhatIsNotValid(t *testing.T) {
	t.Parallel()
	m := registry.NewMemory()
	c := register(t, m, shop())
	if err := m.SaveCredentials(t.Context(), c.Key, credentials()); err != nil {
		t.Fatal(err)
	}
	for _, bad := range badCredentials() {
		err := m.UpdateCredentials(t.Context(), c.Key, func(context.Context, registry.Credentials) (registry.Credentials, error) {
			return bad.credentials, nil
		})
		wantInvalid(t, err, bad.member, "")
		if err != nil {
			wantNoCanary(t, err.Error())
		}
	}
	if got, err := m.Credentials(t.Context(), c.Key); err != nil || !got.Equal(credentials()) {
		t.Errorf("a refused update changed the login: %v", err)
	}
}

// What this package says can be shown even when a store of somebody else
// wraps it in words that cannot.
func TestErrorIsSafeInsideOthers(t *testing.T) {
	t.Parallel()
	for _, sentinel := range []error{registry.ErrNotFound, registry.ErrNotLoggedIn, registry.ErrDamaged, registry.ErrChanged} {
		err := fmt.Errorf("SELECT canary FROM logins: %w", sentinel)
		var safe *registry.Error
		if !errors.As(err, &safe) || !errors.Is(safe, sentinel) || !strings.HasPrefix(safe.Error(), "registry: ") {
			t.Errorf("no safe text in %v", err)
			continue
		}
		wantNoCanary(t, safe.Error())
	}
}

func BenchmarkUpdateCredentials(b *testing.B) {
	m := registry.NewMemory()
	c, err := m.Register(b.Context(), shop())
	if err != nil {
		b.Fatal(err)
	}
	if err := m.SaveCredentials(b.Context(), c.Key, credentials()); err != nil {
		b.Fatal(err)
	}
	same := func(_ context.Context, c registry.Credentials) (registry.Credentials, error) { return c, nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := m.UpdateCredentials(b.Context(), c.Key, same); err != nil {
			b.Fatal(err)
		}
	}
}
