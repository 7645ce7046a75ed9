package registry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// logins is what both registries offer for making and ending sessions.
type logins interface {
	registry.Store
	Register(context.Context, registry.Descriptor, ...registry.RegisterOption) (registry.Connection, error)
	SaveCredentials(context.Context, string, registry.Credentials) error
	AddCredentials(context.Context, string, registry.Credentials) error
	DeleteSession(ctx context.Context, key, sessionID string) error
}

func TestSessions(t *testing.T) {
	t.Parallel()
	const first, second = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	for name, open := range map[string]func(*testing.T) logins{
		"memory": func(*testing.T) logins { return registry.NewMemory() },
		"folder": func(t *testing.T) logins {
			path := lockport.Quiet(t.TempDir(), "registry")
			dir, err := registry.OpenDir(path, registry.AllowPlainCredentials())
			if err != nil {
				t.Fatal(err)
			}
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			connection, err := store.Register(t.Context(), registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"})
			if err != nil {
				t.Fatal(err)
			}
			login := func(session string) registry.Credentials {
				now := time.Now()
				return registry.Credentials{
					HubURL: connection.HubURL, ClientAppID: connection.ClientAppID, Workspace: connection.Workspace, SessionID: session,
					AccessToken: registry.NewSecret("synthetic-access-" + session), RefreshToken: registry.NewSecret("synthetic-refresh-" + session),
					AccessExpiresAt: now.Add(time.Hour), RefreshExpiresAt: now.Add(2 * time.Hour),
				}
			}
			stored := func(want string) {
				t.Helper()
				credentials, err := store.Credentials(t.Context(), connection.Key)
				if credentials.SessionID != want || (want == "") != errors.Is(err, registry.ErrNotLoggedIn) {
					t.Errorf("the login is of session %q (%v), want %q", credentials.SessionID, err, want)
				}
			}
			expect := func(err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
			}
			expect(store.DeleteSession(t.Context(), connection.Key, first), nil)
			expect(store.AddCredentials(t.Context(), connection.Key, login(first)), nil)
			stored(first)
			expect(store.AddCredentials(t.Context(), connection.Key, login(second)), registry.ErrChanged)
			stored(first)
			expect(store.DeleteSession(t.Context(), connection.Key, second), registry.ErrChanged)
			stored(first)
			rotated := login(first)
			rotated.AccessToken = registry.NewSecret("synthetic-access-rotated")
			expect(store.SaveCredentials(t.Context(), connection.Key, rotated), nil)
			expect(store.DeleteSession(t.Context(), connection.Key, first), nil)
			stored("")

			other := login(first)
			other.Workspace = "orders"
			expect(store.AddCredentials(t.Context(), connection.Key, other), feedback.CodeInvalidRequest)
			unknown := "conn_0123456789abcdef0123456789abcdef"
			expect(store.AddCredentials(t.Context(), unknown, login(first)), registry.ErrNotFound)
			expect(store.DeleteSession(t.Context(), unknown, first), registry.ErrNotFound)
			expect(store.AddCredentials(t.Context(), "shop", login(first)), feedback.CodeInvalidRequest)
			expect(store.DeleteSession(t.Context(), "shop", first), feedback.CodeInvalidRequest)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			expect(store.AddCredentials(over, connection.Key, login(first)), context.Canceled)
			expect(store.DeleteSession(over, connection.Key, first), context.Canceled)
			stored("")
		})
	}
}
