package registry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

// A login as the Hub's token endpoint gave it.
func newLogin(c registry.Connection) registry.Credentials {
	return registry.Credentials{
		HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace,
		SessionID:        "11111111-1111-4111-8111-111111111111",
		AccessToken:      registry.NewSecret("synthetic-access"),
		RefreshToken:     registry.NewSecret("synthetic-refresh"),
		AccessExpiresAt:  time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		RefreshExpiresAt: time.Date(2099, 2, 1, 0, 0, 0, 0, time.UTC),
	}
}

func Example() {
	ctx := context.Background()
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{
		HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
	}, registry.WithAlias("shop"))
	if err != nil {
		log.Fatal(err)
	}
	if err := store.SaveCredentials(ctx, connection.Key, newLogin(connection)); err != nil {
		log.Fatal(err)
	}
	login, err := store.Credentials(ctx, connection.Key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(connection.Key, connection.Alias)
	fmt.Println(login.Binding().SessionID)
	fmt.Println("token:", login.AccessToken)
	// Output:
	// conn_ad8c5f3426e68dfa6b0838bd575794c2 shop
	// 11111111-1111-4111-8111-111111111111
	// token: [redacted]
}

func ExampleDescriptor_ConnectionKey() {
	d := registry.Descriptor{HubURL: "HTTPS://Hub.Example.COM:443/", ClientAppID: "commerce-agent", Workspace: "inventory"}
	fmt.Println(d.ConnectionKey())
	// Output: conn_ad8c5f3426e68dfa6b0838bd575794c2 <nil>
}

func ExampleDescriptor_InstanceKey() {
	d := registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"}
	fmt.Println(d.InstanceKey("instance_0123456789abcdef0123456789abcdef"))
	// Output: conn_3bdf6e3e011b09eefb9280bcf0ec0847 <nil>
}

func ExampleNormalizeHubURL() {
	normal, err := registry.NormalizeHubURL("HTTPS://中枢.Example.com:443/bailing/", false)
	fmt.Println(normal, err)

	_, err = registry.NormalizeHubURL("https://hub.example.com?token=1", false)
	fmt.Println(err)
	fmt.Println(errors.Is(err, feedback.CodeInvalidRequest))
	// Output:
	// https://xn--fiq933d.example.com/bailing <nil>
	// registry: the Hub URL must not have a query
	// true
}

func ExampleSecret() {
	token := registry.NewSecret("synthetic-access")
	fmt.Printf("%v %q %#v\n", token, token, struct{ Token registry.Secret }{token})
	fmt.Println(token.Reveal())
	// Output:
	// [redacted] [redacted] struct { Token registry.Secret }{Token:[redacted]}
	// synthetic-access
}

func ExampleEncodeCredentials() {
	data, err := registry.EncodeCredentials(newLogin(registry.Connection{
		HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data[:70]), "…")
	// Output: {"schema_version":1,"base_url":"https://hub.example.com","client_app_i …
}

func ExampleDecodeCredentials() {
	_, err := registry.DecodeCredentials([]byte(`{"schema_version":1,"base_url":"https://hub.example.com","access_token":"synthetic"}`))
	fmt.Println(err)
	fmt.Println(errors.Is(err, registry.ErrDamaged))
	// Output:
	// registry: damaged: the text of the credentials lacks a member
	// true
}

func ExampleConnection_Check() {
	connection := registry.Connection{
		Key: "conn_ad8c5f3426e68dfa6b0838bd575794c2", HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
	}
	login := newLogin(connection)
	fmt.Println(connection.Check(login))

	login.AccessToken = registry.Secret{}
	fmt.Println(connection.Check(login))
	// Output:
	// <nil>
	// registry: the access token of the credentials must be 1 to 8192 visible ASCII characters
}

func ExampleWithInstance() {
	ctx := context.Background()
	store := registry.NewMemory()
	shop := registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"}
	for _, person := range []string{"ada", "lin"} {
		if _, err := store.Register(ctx, shop, registry.WithInstance(registry.NewInstanceID()), registry.WithAlias(person)); err != nil {
			log.Fatal(err)
		}
	}
	ada, err := store.ByAlias(ctx, "ada")
	if err != nil {
		log.Fatal(err)
	}
	lin, err := store.ByAlias(ctx, "lin")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ada.Workspace == lin.Workspace, ada.Key == lin.Key)
	// Output: true false
}

func ExampleMemory_UpdateCredentials() {
	ctx := context.Background()
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.SaveCredentials(ctx, connection.Key, newLogin(connection)); err != nil {
		log.Fatal(err)
	}
	err = store.UpdateCredentials(ctx, connection.Key, func(ctx context.Context, login registry.Credentials) (registry.Credentials, error) {
		// Here the refresh token is used, once.
		login.AccessToken = registry.NewSecret("synthetic-access-2")
		login.RefreshToken = registry.NewSecret("synthetic-refresh-2")
		return login, nil
	})
	switch {
	case errors.Is(err, registry.ErrChanged):
		fmt.Println("a newer login won")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("saved")
	}
	// Output: saved
}

// A host finds the operations of the login that it has now.
func ExampleBinding_Equal() {
	kept := registry.Binding{
		HubURL: "https://hub.example.com/", ClientAppID: "commerce-agent", Workspace: "inventory",
		SessionID: "11111111-1111-4111-8111-111111111111",
	}
	now := kept
	now.HubURL = "https://HUB.example.com:443"
	fmt.Println(kept.Equal(now))
	now.SessionID = "22222222-2222-4222-8222-222222222222" // a new login
	fmt.Println(kept.Equal(now))
	fmt.Println(registry.Binding{}.Equal(registry.Binding{}))
	// Output:
	// true
	// false
	// false
}

// A second login beside the first one gets a name of its own.
func ExampleMemory_Rename() {
	ctx := context.Background()
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{
		HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
	}, registry.WithInstance(registry.NewInstanceID()))
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Rename(ctx, connection.Key, "night shift"); err != nil {
		log.Fatal(err)
	}
	found, err := store.ByAlias(ctx, "night shift")
	fmt.Println(found.Key == connection.Key, err)
	// Output: true <nil>
}
