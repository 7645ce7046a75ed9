//go:build linux

package registry_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// The folder that the programs of a user share is that of DefaultDir; this one
// is made up.
func ExampleOpenDir() {
	path, remove := exampleFolder()
	defer remove()

	store, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	connection, err := store.Register(ctx, registry.Descriptor{
		HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
	}, registry.WithAlias("shop"))
	if err != nil {
		log.Fatal(err)
	}

	// Another process sees it.
	same, err := registry.OpenDir(path)
	if err != nil {
		log.Fatal(err)
	}
	found, err := same.ByAlias(ctx, "shop")
	fmt.Println(found.Key == connection.Key, err)
	_, err = same.Credentials(ctx, found.Key)
	fmt.Println(err)
	// Output:
	// true <nil>
	// registry: logins are kept in plain files here, which the host has not allowed: open the folder with registry.AllowPlainCredentials
}

// exampleFolder gives a path in a temporary folder.
func exampleFolder() (path string, remove func()) {
	temporary, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	return lockport.Quiet(filepath.Join(temporary, "config"), "bailinghub"), func() { _ = os.RemoveAll(temporary) }
}

func ExampleDefaultDir() {
	path, err := registry.DefaultDir("my-product-desktop")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.Base(filepath.Dir(path)), filepath.Base(path))
	// Output: hosts host-332744d745efe35f6377996948b16840
}

// Where a person has logged in with the TypeScript SDK, or with an agent plugin
// that is built on it, the login is there.
func ExampleDir() {
	open := func(ctx context.Context) (*registry.Dir, registry.Connection, error) {
		path, err := registry.DefaultDir("")
		if err != nil {
			return nil, registry.Connection{}, err
		}
		// The person has agreed to logins in plain files.
		store, err := registry.OpenDir(path, registry.AllowPlainCredentials())
		if err != nil {
			return nil, registry.Connection{}, err
		}
		connection, err := store.ByAlias(ctx, "shop")
		return store, connection, err
	}
	_ = open // and host.New(store)
}
