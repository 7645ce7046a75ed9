// Package agentauth logs a person in to a BailingHub, asks the Hub about a login, and logs
// out.
//
// A login is an agent session. It ends 30 days after it was made, and an operation can be
// inspected only under the session that it was sent under. The person approves the login at
// a page of the business system, in a browser that may run on another machine. This program
// listens at a port of its own, to which that page sends the browser back:
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
// [LogIn], [Status] and [LogOut] use a store of logins, such as registry.Dir. A program
// that keeps its credentials in another way uses a [Client]: [Client.Begin] gives a [Login],
// whose Wait gives the credentials.
//
// Where this program runs in a container or over SSH, the browser cannot reach the port.
// Then either forward a fixed port ([WithCallbackPort] and ssh -L), or let the person paste
// the address at which the browser ended ([Login.Paste]).
//
// Where a folder is shared with the TypeScript SDK of the Hub, a new login with that SDK
// ends the older session of the same person. Inspect open operations before that.
//
// All requests go through a round tripper with a list of its own: to begin a login, to
// exchange its code, to read the session and to end it. This package cannot send, approve
// or resume an operation.
package agentauth
