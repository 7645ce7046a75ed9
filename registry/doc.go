// Package registry knows which connections to Hubs a host has, and the login
// of each.
//
// A [Connection] is a client app and a workspace of a Hub; [Credentials] are a
// login of it, an agent session with its tokens. A [Store] keeps both.
// Inspections read them from there, and rotate tokens through it. Where a
// person has logged in with another program on this machine, [Dir] opens its
// folder; [Memory] lives as long as its process:
//
//	store := registry.NewMemory()
//	connection, err := store.Register(ctx, registry.Descriptor{
//		HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory",
//	}, registry.WithAlias("shop"))
//	if err != nil {
//		return err
//	}
//	err = store.SaveCredentials(ctx, connection.Key, credentials)
//
// A [Binding] is what a host keeps with every operation that it sends: the
// Hub, client app, workspace and session that the operation was sent under.
// Evidence of the operation is asked for under the same four, or not at all.
//
// A host with a database of its own implements [Store] and runs the suite of
// package registrytest on it. [EncodeCredentials] and [DecodeCredentials] give
// it the form that credential files have.
//
// Tokens are [Secret]: they do not show when they are printed, logged or
// marshalled. Errors of this package are [*Error], whose text is safe to show.
//
// This package knows no HTTP. How a token is refreshed is up to the update
// that [Store] is given.
package registry
