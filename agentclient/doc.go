// Package agentclient asks a BailingHub how far an original invocation got.
//
// It is the low-level client: it sends two requests that read, checks what
// comes back and can do nothing else.
//
//	client, err := agentclient.New(agentclient.Config{
//		HubURL:      "https://hub.example.com",
//		Workspace:   "inventory",
//		TokenSource: source, // the original session's access tokens
//	})
//	if err != nil {
//		return err
//	}
//	observed, err := client.InspectInvocation(ctx, invocationID)
//	if err != nil {
//		return err // always a *feedback.Error
//	}
//	fmt.Println(observed.Progress().Sentence())
//
// Whoever uses it owns the connection: that the token source belongs to the
// session which the operation was sent under is the caller's to know. Package
// host knows it, from a registry of connections; most hosts want that one.
//
// A Hub is reached only through a round tripper that refuses every request
// other than those two, follows no redirect, sets the token on the Hub's own
// origin alone and reads a bounded answer.
package agentclient
