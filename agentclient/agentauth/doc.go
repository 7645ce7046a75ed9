// Package agentauth logs a person in to a BailingHub, says what a login is worth,
// and logs out.
//
// A login is an agent session: it ends 30 days after it was made, and operations
// can be asked about only under the session that they were sent under. The person
// decides at a page of the business system, in a browser that may run on another
// machine; this program waits at a port of its own for the browser to come back:
//
//	made, err := agentauth.LogIn(ctx, store, agentauth.Config{
//		HubURL:      "https://hub.example.com",
//		ClientAppID: "commerce-agent",
//		Workspace:   "inventory",
//	}, agentauth.LogInOptions{
//		Show: func(ctx context.Context, prompt agentauth.Prompt) error {
//			fmt.Println("Open this address in a browser:")
//			_, err := fmt.Println(prompt.URL)
//			return err
//		},
//	})
//	if err != nil {
//		return err // always a *feedback.Error
//	}
//	fmt.Println("logged in until", made.Session.EndsAt)
//
// [LogIn], [Status] and [LogOut] work on a store of logins, such as registry.Dir.
// A program that keeps its credentials otherwise uses a [Client]: [Client.Begin]
// gives a [Login], whose Wait gives the credentials.
//
// In a container, or over SSH, the browser does not reach the port. Either a
// fixed one is forwarded ([WithCallbackPort] and ssh -L), or the person pastes the
// address that the browser ended at ([Login.Paste]).
//
// Where the folder is shared with the TypeScript SDK of the Hub: a new login made
// there ends the older session of the same person. Ask about open operations
// first.
//
// A Hub is reached through a round tripper of its own list: to begin a login, to
// exchange its code, to read the session and to end it. Nothing here can send,
// approve or resume an operation.
package agentauth
