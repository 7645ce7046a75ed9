package agentauth_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/registry"
)

// person decides in their browser as soon as an address is shown.
type person struct{ hub *hub }

func newPerson() *person {
	return &person{newHub(nil)}
}

func (p *person) open(_ context.Context, address string) error {
	go func() {
		if response, err := http.Get(p.hub.approve(address)); err == nil {
			response.Body.Close()
		}
	}()
	return nil
}

// atThisHub has a client ask the Hub of the example.
func (p *person) atThisHub() agentclient.Option {
	return agentclient.WithHTTPClient(&http.Client{Transport: p.hub})
}

// logIn has a person log in, and says who did.
func logIn(ctx context.Context, store agentauth.Store, open func(ctx context.Context, address string) error, opts ...agentclient.Option) error {
	config := agentauth.Config{HubURL: hubURL, ClientAppID: clientApp, Workspace: workspace}
	options := agentauth.LogInOptions{Alias: "shop", Client: opts}
	options.Show = func(ctx context.Context, prompt agentauth.Prompt) error {
		fmt.Fprintf(os.Stderr, "Open this address in a browser:\n%s\n", prompt.URL)
		return open(ctx, prompt.URL) // where there is a browser; it must not wait for the person
	}
	made, err := agentauth.LogIn(ctx, store, config, options)
	if err != nil {
		return err // always a *feedback.Error; the store is as it was
	}
	fmt.Println(made.Connection.Alias, "acts for", made.Session.OnBehalfOf, "for", made.Session.EndsAt.Sub(made.Session.CreatedAt))
	return nil
}

func ExampleLogIn() {
	person := newPerson()
	if err := logIn(context.Background(), registry.NewMemory(), person.open, person.atThisHub()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// shop acts for user-1 for 720h0m0s
}

func ExampleStatus() {
	ctx, store, person := context.Background(), registry.NewMemory(), newPerson()
	if err := logIn(ctx, store, person.open, person.atThisHub()); err != nil {
		log.Fatal(err)
	}
	current, err := store.Current(ctx)
	if err != nil {
		log.Fatal(err)
	}
	known, err := agentauth.Status(ctx, store, current.Key, person.atThisHub())
	if err != nil {
		log.Fatal(err) // feedback.CodeAgentAuthorizationUnavailable: a person has to log in
	}
	fmt.Println(known.Connection.Alias, "may use", known.Session.Workspaces)
	// Output:
	// shop acts for user-1 for 720h0m0s
	// shop may use [inventory]
}

func ExampleLogOut() {
	ctx, store, person := context.Background(), registry.NewMemory(), newPerson()
	if err := logIn(ctx, store, person.open, person.atThisHub()); err != nil {
		log.Fatal(err)
	}
	current, err := store.Current(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = agentauth.LogOut(ctx, store, current.Key, agentauth.LogOutOptions{Client: []agentclient.Option{person.atThisHub()}})
	if err != nil {
		log.Fatal(err) // agentauth.ErrSessionLivesOn: the Hub could not be told
	}
	_, err = store.Credentials(ctx, current.Key)
	fmt.Println(err)
	// Output:
	// shop acts for user-1 for 720h0m0s
	// registry: the connection has no login
}

// A program that keeps its credentials itself waits for them.
func ExampleClient_Begin() {
	ctx, person := context.Background(), newPerson()
	client, err := agentauth.New(agentauth.Config{HubURL: hubURL, ClientAppID: clientApp, Workspace: workspace, DeviceLabel: "build machine 7"}, person.atThisHub())
	if err != nil {
		log.Fatal(err)
	}
	login, err := client.Begin(ctx, agentauth.WithCallbackPath("/back"))
	if err != nil {
		log.Fatal(err)
	}
	defer login.Close()
	if err := person.open(ctx, login.URL()); err != nil { // show it, and until when it is good: login.ExpiresAt()
		log.Fatal(err)
	}
	credentials, session, err := login.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(session.OnBehalfOf, credentials.Workspace, credentials.AccessToken)

	session, err = client.Session(ctx, credentials)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(session.ClientAppID)
	fmt.Println(client.Revoke(ctx, credentials)) // whoever does not save them ends the session
	// Output:
	// user-1 inventory [redacted]
	// demo-client
	// <nil>
}

// A browser on another machine cannot come back here: the person copies the
// address that it ended at. A fixed port could be forwarded instead, with ssh -L.
func ExampleLogin_Paste() {
	ctx, person := context.Background(), newPerson()
	client, err := agentauth.New(agentauth.Config{HubURL: hubURL, ClientAppID: clientApp, Workspace: workspace}, person.atThisHub())
	if err != nil {
		log.Fatal(err)
	}
	login, err := client.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer login.Close()
	fmt.Println(login.Paste(ctx, "https://business.example.com/done"))
	pasted := person.hub.approve(login.URL())
	if err := login.Paste(ctx, pasted); err != nil {
		log.Fatal(err)
	}
	_, session, err := login.Wait(ctx)
	fmt.Println(session.OnBehalfOf, err)
	// Output:
	// login: invalid_request: The pasted text is not an address that this login waits at. Paste the whole address that the browser ended at.
	// user-1 <nil>
}
