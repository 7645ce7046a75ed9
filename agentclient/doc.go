// Package agentclient asks a BailingHub how far an original invocation got.
//
// It is the low-level client. It sends two read requests and checks the answers, and it
// can send nothing else.
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
// The caller of this package has to make sure that the token source belongs to the
// session under which the operation was sent. Most hosts use package host instead,
// which checks that with a registry of connections.
//
// Every request goes through a round tripper that refuses all but these two requests,
// follows no redirect, sets the token for the Hub's own origin only and limits the
// length of an answer.
package agentclient
