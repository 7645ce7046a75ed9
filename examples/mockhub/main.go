// Mockhub serves a Hub in memory on 127.0.0.1, for trying a host, curl or
// examples/inspect against it. It has a few operations in different situations,
// and forgets everything when it stops.
//
//	go run ./examples/mockhub
//
// It prints its address, where a page shows all that happens and has a button
// for every situation, and how to ask it. Only this machine reaches it, and no
// other web page does: requests for another host name or from another site are
// refused. Beside the Hub stands the page of a business system, on which a
// person agrees to a login.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
	"github.com/bailinghub/bailinghub-go/examples/mockhub/internal/page"
)

// defaultPort is one that little else uses. It lies outside the ranges of
// ephemeral ports, and of the ports that registries take as locks.
const defaultPort = 7342

var help = fmt.Sprintf(`Mockhub serves a Hub in memory on 127.0.0.1, with a few operations to ask about.

  mockhub [--port N]              serve it
  mockhub [--port N] --login      print a login at it, as a host keeps one

  --port N      the port to listen on (%d); 0 takes any that is free
  --login       print the login of the session that sent the operations, for the stdin of
                examples/agenthost: a credential file as package registry writes it
  -h, --help    this

It prints its address, which is for a browser too, and how to ask it. Exit status: 0 it was stopped
with Ctrl-C, 1 it could not serve, 2 the command line makes no sense.
`, defaultPort)

func main() {
	cli.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := cli.NewFlags("mockhub")
	port := flags.Int("port", defaultPort, "")
	login := flags.Bool("login", false, "")
	rest, status, goOn := cli.Parse(flags, args, help, stdout, stderr)
	switch {
	case !goOn:
		return status
	case len(rest) > 0:
		return cli.Complain(flags, stderr, "it takes no argument")
	case *port < 0 || *port > 65535:
		return cli.Complain(flags, stderr, "--port must be a number from 0 to 65535")
	case *login && *port == 0:
		return cli.Complain(flags, stderr, "--login takes the port of a mock Hub that runs")
	}
	fail := func(what string) int {
		fmt.Fprintln(stderr, "mockhub:", what)
		return cli.Failed
	}
	if *login {
		if err := printLogin(stdout, fmt.Sprintf("http://127.0.0.1:%d", *port)); err != nil {
			return fail("the login cannot be printed: " + err.Error())
		}
		return cli.OK
	}

	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)))
	if err != nil {
		return fail(fmt.Sprintf("port %d of 127.0.0.1 cannot be had (in use?); choose another with --port, or 0 for any", *port))
	}
	address := listener.Addr().(*net.TCPAddr)
	world, err := seed()
	if err != nil {
		listener.Close()
		return fail(err.Error())
	}
	before := world.hub.BusinessOperations()

	server := &http.Server{
		Handler: guard{port: address.Port, next: front{
			consent: world.consent("http://" + address.String()), page: page.New(world.hub, world.sessions...),
		}},
		ReadHeaderTimeout:            10 * time.Second,
		DisableGeneralOptionsHandler: true,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := world.print(stdout, "http://"+address.String()); err != nil {
		err = fmt.Errorf("what to do cannot be printed: %w", err)
		failed <- err
	}

	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	world.hub.Close() // ends what still waits for an answer
	server.Close()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fail(err.Error())
	}
	requests := world.hub.Requests()
	fmt.Fprintf(stdout, "\nStopped. It was asked for %d receipts. Business operations: %d when it started, %d at the end.\n",
		requests.Receipt, before, world.hub.BusinessOperations())
	return cli.OK
}

// consentPath is where the business system of the mock Hub's client app has the
// page on which a person agrees to a login. The Hub has nothing there.
const consentPath = "/business/agree"

// front is what stands at the address: a business system with one page, and the
// page in front of the Hub.
type front struct{ consent, page http.Handler }

func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == consentPath {
		f.consent.ServeHTTP(w, r)
		return
	}
	f.page.ServeHTTP(w, r)
}

// consent is the page on which a person agrees to a login, at this address.
func (w *world) consent(url string) *hubtest.Consent {
	w.hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) {
		c.Name, c.AuthorizeURL = "Synthetic host", url+consentPath
	})
	return &hubtest.Consent{Hub: w.hub, Account: hubtest.Account{ID: "dora", Name: "Dora (synthetic)"}}
}

// The sessions. Their tokens are the same in every run, and can be taken for
// nothing real.
const (
	token        = "synthetic-access-alice"
	otherToken   = "synthetic-access-bob"
	revokedToken = "synthetic-access-carol"
	// aLongTime is how long they are good: nobody renews them here. Logins have
	// the lifetimes of the real Hub.
	aLongTime = 365 * 24 * time.Hour
)

func sessionID(name string) string    { return situation.UUID("session", name) }
func refreshToken(name string) string { return "synthetic-refresh-" + name }

// A world is a Hub with operations that were sent to it.
type world struct {
	hub        *hubtest.Hub
	sessions   []page.Session
	operations []situation.Situation
}

func seed() (*world, error) {
	w := &world{
		hub: hubtest.New(),
		operations: []situation.Situation{
			situation.Read, situation.Write, situation.Awaiting, situation.Approved, situation.BusinessRejected,
			situation.InFlight, situation.AnswerLost, situation.RecordDamaged,
		},
	}
	login := func(name, token string) hubtest.Session {
		s := w.hub.Login(hubtest.Grant{
			SessionID: sessionID(name), AccessToken: token, RefreshToken: refreshToken(name),
		})
		w.hub.EditSession(s.ID, func(s *hubtest.Session) {
			s.AccessExpiresAt, s.RefreshExpiresAt = s.CreatedAt.Add(aLongTime), s.CreatedAt.Add(2*aLongTime)
		})
		w.sessions = append(w.sessions, page.Session{Name: name, ID: s.ID})
		return s
	}
	alice := login("alice", token)
	login("bob", otherToken)
	w.hub.Revoke(login("carol", revokedToken).ID)
	for _, operation := range w.operations {
		if err := operation.Play(w.hub, alice.ID); err != nil {
			return nil, err
		}
	}
	return w, nil
}
