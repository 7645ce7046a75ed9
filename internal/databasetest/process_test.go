package databasetest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

var (
	processes = flag.Int("processes", 4, "how many processes share a session")
	rounds    = flag.Int("rounds", 3, "how often the session expires, and how often a server or a process is stopped")
)

const inspectingAtOnce = 16

// dialects are those that a process is told by name.
var dialects = map[string]sqlstore.Dialect{"PostgreSQL": sqlstore.PostgreSQL, "MySQL": sqlstore.MySQL, "SQLite": sqlstore.SQLite}

// children are what other processes do for these tests.
var children = map[string]func(args []string) error{
	"inspect at once":  childThatInspectsAtOnce,
	"inspect for ever": childThatInspectsForEver,
	"keep":             childThatKeeps,
}

// world is a mock Hub on loopback with one session, and a store that is logged
// in to it, for any number of processes.
type world struct {
	t         *testing.T
	d         *database
	hub       *hubtest.Server
	namespace string
	lease     time.Duration
	store     *sqlstore.Store
	session   hubtest.Session
	original  host.Original
}

func newWorld(t *testing.T, d *database, lease time.Duration, options ...hubtest.Option) *world {
	t.Helper()
	w := &world{t: t, d: d, hub: hubtest.NewServer(t, options...), namespace: fmt.Sprint("world-", namespaces.Add(1)), lease: lease}
	w.store = d.open(t, sqlstore.WithNamespace(w.namespace), sqlstore.WithKeys(key(1)), sqlstore.WithLease(lease))
	connection, err := w.store.Register(t.Context(), registry.Descriptor{HubURL: w.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})
	must(t, err)
	w.login(connection.Key)
	return w
}

// login logs in anew and sends an operation under that login.
func (w *world) login(key string) {
	w.t.Helper()
	w.session = w.hub.Login(hubtest.Grant{})
	must(w.t, w.store.SaveCredentials(w.t.Context(), key, w.session.Credentials(w.hub.URL, hubtest.DefaultRoute)))
	id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	must(w.t, err)
	transport, err := host.New(w.store)
	must(w.t, err)
	w.original, err = transport.Capture(w.t.Context(), key, id)
	must(w.t, err)
}

func (w *world) start(name string) *childtest.Child {
	w.t.Helper()
	original, err := json.Marshal(w.original)
	must(w.t, err)
	return childtest.Start(w.t, name, w.d.server.Driver, w.d.server.Source, w.d.dialect.String(), w.namespace, w.lease.String(), string(original))
}

func (w *world) rotations() int {
	session, _ := w.hub.Session(w.session.ID)
	if session.Revoked {
		w.t.Fatalf("the session was ended after %d rotations", session.Rotations)
	}
	return session.Rotations
}

// waitForRotations waits for so many more rotations of the session.
func (w *world) waitForRotations(more int) {
	w.t.Helper()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	first := w.rotations()
	for {
		changed := w.hub.Changed()
		if session, _ := w.hub.Session(w.session.ID); session.Revoked || session.Rotations >= first+more {
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			w.t.Fatal("the session is not rotated")
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inspector is what a process needs that was given a store and an original.
func inspector(args []string) (func() error, error) {
	db, err := sql.Open(args[0], args[1])
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4) // fewer than those who wait
	dialect := dialects[args[2]]
	lease, err := time.ParseDuration(args[4])
	if err != nil {
		return nil, err
	}
	store, err := sqlstore.Open(context.Background(), db, dialect, sqlstore.WithNamespace(args[3]), sqlstore.WithKeys(key(1)), sqlstore.WithLease(lease))
	if err != nil {
		return nil, err
	}
	var original host.Original
	if err := json.Unmarshal([]byte(args[5]), &original); err != nil {
		return nil, err
	}
	transport, err := host.New(store, agentclient.WithTimeout(2*time.Minute))
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := transport.InspectInvocation(context.Background(), original)
		return err
	}, nil
}

// childThatInspectsAtOnce inspects with many goroutines at once, in rounds.
func childThatInspectsAtOnce(args []string) error {
	inspect, err := inspector(args)
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		if err := childtest.Proceed("ready"); err != nil {
			return nil // told to end
		}
		var group sync.WaitGroup
		faults := make(chan error, inspectingAtOnce)
		for range inspectingAtOnce {
			group.Go(func() {
				if err := inspect(); err != nil {
					faults <- err
				}
			})
		}
		group.Wait()
		close(faults)
		if err := <-faults; err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
}

// childThatInspectsForEver inspects until it is killed. What fails passes: a suspended
// process can miss its time limits, and the life of a token. Whether the session was
// lost, the mock Hub knows.
func childThatInspectsForEver(args []string) error {
	inspect, err := inspector(args)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		_ = inspect()
	}
}

// expire runs rounds in each of which the access token is declared dead and all
// processes inspect at once; during is called in the middle of each.
func (w *world) expire(during func(round int)) {
	w.t.Helper()
	var all []*childtest.Child
	for range *processes {
		all = append(all, w.start("inspect at once"))
	}
	for round := range *rounds {
		for _, child := range all {
			if line, _ := child.Line(); line != "ready" {
				w.t.Fatalf("round %d: %s", round, line)
			}
		}
		if n := w.rotations(); n != round {
			w.t.Fatalf("%d rotations before round %d", n, round)
		}
		w.hub.ExpireAccess(w.session.ID)
		for _, child := range all {
			child.GoOn()
		}
		during(round)
	}
	for _, child := range all {
		if line, _ := child.Line(); line != "ready" {
			w.t.Fatal(line)
		}
	}
	if n := w.rotations(); n != *rounds {
		w.t.Errorf("%d rotations, want %d", n, *rounds)
	}
	if n := w.hub.Requests().Refresh; n != *rounds {
		w.t.Errorf("%d requests to refresh, want %d", n, *rounds)
	}
}

// Many processes with 16 goroutines each, and a Hub that declares the access
// token dead time and again and ends the session with the second use of a
// refresh token: every time it is rotated exactly once, and nobody fails.
func TestOneRotationForAllProcesses(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		newWorld(t, d, 30*time.Second).expire(func(int) {})
	})
}

// The same while the server is stopped as by a crash and started again at a
// random moment of each round.
func TestOneRotationWhileTheServerRestarts(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		if d.dialect == sqlstore.SQLite {
			return // has no server
		}
		newWorld(t, d, 30*time.Second).expire(func(int) {
			<-time.After(rand.N(60 * time.Millisecond))
			must(t, d.server.Stop())
			<-time.After(rand.N(300 * time.Millisecond))
			must(t, d.server.Start())
		})
	})
}

// A process that is killed at any moment leaves a store that can be read, with a
// session that lives, or whose loss the next inspection reports.
func TestKilledProcesses(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		// The tokens live a second, so that the session is rotated again and again.
		w := newWorld(t, d, time.Second, hubtest.WithLifetimes(time.Second, time.Hour))
		inspect, err := inspector([]string{d.server.Driver, d.server.Source, d.dialect.String(), w.namespace, w.lease.String(), mustJSON(t, w.original)})
		must(t, err)
		lost := 0
		for round := range *rounds {
			child := w.start("inspect for ever")
			child.Says("ready")
			start := time.Now()
			w.waitForRotations(2)
			<-time.After(rand.N(time.Since(start)/2 + time.Millisecond))
			must(t, child.Process.Kill())
			child.Killed()
			stored, err := w.store.Credentials(t.Context(), w.original.ConnectionKey)
			if err != nil || stored.SessionID != w.session.ID {
				t.Fatalf("round %d: the stored session is %q: %v", round, stored.SessionID, err)
			}
			err = inspect()
			session, _ := w.hub.Session(w.session.ID)
			switch {
			case err == nil && !session.Revoked:
			case errors.Is(err, feedback.CodeAgentAuthorizationUnavailable) && session.Revoked:
				lost++
				w.login(w.original.ConnectionKey)
				inspect, err = inspector([]string{d.server.Driver, d.server.Source, d.dialect.String(), w.namespace, w.lease.String(), mustJSON(t, w.original)})
				must(t, err)
			default:
				t.Fatalf("round %d: the session is over: %v, and the inspection says: %v", round, session.Revoked, err)
			}
		}
		t.Logf("%d of %d sessions were lost between the answer of the Hub and the database", lost, *rounds)
	})
}

// A process that is suspended for longer than its lease, in the middle of
// whatever it does, and wakes up: no session is lost and nothing newer is
// overwritten.
func TestSuspendedProcesses(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		w := newWorld(t, d, time.Second, hubtest.WithLifetimes(time.Second, time.Hour))
		first, second := w.start("inspect for ever"), w.start("inspect for ever")
		first.Says("ready")
		second.Says("ready")
		for range max(2, *rounds/4) {
			w.waitForRotations(2)
			<-time.After(rand.N(20 * time.Millisecond))
			must(t, first.Process.Signal(syscall.SIGSTOP))
			// Longer than the lease, and shorter than the time after which another
			// process takes over.
			<-time.After(1200*time.Millisecond + rand.N(time.Second))
			must(t, first.Process.Signal(syscall.SIGCONT))
			first, second = second, first
		}
		w.waitForRotations(3)
		w.rotations()
		for _, child := range []*childtest.Child{first, second} {
			must(t, child.Process.Kill())
			child.Killed()
		}
	})
}

func mustJSON(t testing.TB, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	must(t, err)
	return string(data)
}
