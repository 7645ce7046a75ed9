// Package registry stores the connections of a host to Hubs, and the login of each.
//
// A [Connection] is a client app and a workspace of a Hub. [Credentials] are a login
// of a connection: an agent session with its tokens. A [Store] keeps both.
// Inspections read them from the store, and save refreshed tokens in it. [Dir] is a
// store in a folder, such as the one in which another program on this machine has
// saved the login of a person. [Memory] is a store that ends with its process:
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
// A host keeps a [Binding] with every operation that it sends: the Hub, client app,
// workspace and session that the operation was sent under. It asks for evidence of
// the operation under the same four, or not at all.
//
// A host with a database of its own uses package sqlstore, or implements [Store] and
// runs the suite of package registrytest on it. [EncodeCredentials] and
// [DecodeCredentials] give it the form of credential files.
//
// Tokens are [Secret]: they do not show when they are printed, logged or
// marshalled. Errors of this package are [*Error], whose text is safe to show.
//
// This package sends no requests. The update function that the caller gives to a
// [Store] refreshes the tokens.
package registry
