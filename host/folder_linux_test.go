package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// children are what other processes do for these tests.
var children = map[string]func(args []string) error{
	"inspect at once":  childThatInspectsAtOnce,
	"inspect for ever": childThatInspectsForEver,
	"no room":          childWithoutRoom,
}

// folderWorld is a mock Hub on loopback with one session, and a folder that is
// logged in to it, for any number of processes.
type folderWorld struct {
	t        testing.TB
	hub      *hubtest.Server
	path     string
	store    *registry.Dir
	session  hubtest.Session
	original host.Original
}

func newFolderWorld(t testing.TB, opts ...hubtest.Option) *folderWorld {
	t.Helper()
	w := &folderWorld{t: t, hub: hubtest.NewServer(t, opts...)}
	w.path = folderFor(t, w.descriptor())
	w.store = openFolder(t, w.path)
	connection, err := w.store.Register(context.Background(), w.descriptor())
	must(t, err)
	w.login(connection.Key)
	id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
	must(t, err)
	w.capture(connection.Key, id)
	return w
}

func (w *folderWorld) descriptor() registry.Descriptor {
	return registry.Descriptor{HubURL: w.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}
}

// login logs in anew.
func (w *folderWorld) login(key string) {
	w.t.Helper()
	w.session = w.hub.Login(hubtest.Grant{})
	login := credentialsOf(w.session)
	login.HubURL = w.hub.URL
	must(w.t, w.store.SaveCredentials(context.Background(), key, login))
}

func (w *folderWorld) capture(key, id string) {
	w.t.Helper()
	transport, err := host.New(w.store)
	must(w.t, err)
	w.original, err = transport.Capture(context.Background(), key, id)
	must(w.t, err)
}

// start begins a process that inspects the original.
func (w *folderWorld) start(name string) *childtest.Child {
	w.t.Helper()
	original, err := json.Marshal(w.original)
	must(w.t, err)
	return childtest.Start(w.t, name, w.path, string(original))
}

// inspect is one inspection as a new process makes it.
func (w *folderWorld) inspect() error {
	w.t.Helper()
	transport, err := host.New(openFolder(w.t, w.path))
	must(w.t, err)
	defer transport.CloseIdleConnections()
	_, err = transport.InspectInvocation(w.t.Context(), w.original)
	return err
}

// waitForRotations waits for so many more rotations of the session.
func (w *folderWorld) waitForRotations(more int) {
	w.t.Helper()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	first, _ := w.hub.Session(w.session.ID)
	for {
		changed := w.hub.Changed()
		if now, _ := w.hub.Session(w.session.ID); now.Rotations >= first.Rotations+more {
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			w.t.Fatal("the session is not rotated")
		}
	}
}

func (w *folderWorld) wantNoLeftovers() {
	w.t.Helper()
	for _, pattern := range []string{".*", "agent-connections/.*"} {
		names, err := filepath.Glob(filepath.Join(w.path, pattern))
		must(w.t, err)
		for _, name := range names {
			w.t.Errorf("a temporary file is left: %s", name)
		}
	}
}

// folderFor gives a path for a folder that is not there yet, whose locks nobody
// disturbs: there are many connections to 127.0.0.1 here.
func folderFor(t testing.TB, d registry.Descriptor) string {
	t.Helper()
	key, err := d.ConnectionKey()
	must(t, err)
	return lockport.Quiet(t.TempDir(), "registry", key)
}

// inspector is what a process needs that was given a folder and an original.
func inspector(args []string) (func() error, error) {
	inspect, _, err := newInspector(args)
	return inspect, err
}

// newInspector gives what ends it, too.
func newInspector(args []string) (inspect, end func() error, err error) {
	store, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return nil, nil, err
	}
	var original host.Original
	if err := json.Unmarshal([]byte(args[1]), &original); err != nil {
		return nil, nil, err
	}
	// The lock may be waited for, for as long as that can take.
	transport, err := host.New(store, agentclient.WithTimeout(time.Minute))
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		_, err := transport.InspectInvocation(context.Background(), original)
		return err
	}, func() error { return transport.Close(context.Background()) }, nil
}

const (
	rotationRounds   = 200
	inspectingAtOnce = 16
)

// childThatInspectsAtOnce PATH ORIGINAL inspects with many goroutines at once,
// in rounds.
func childThatInspectsAtOnce(args []string) error {
	inspect, err := inspector(args)
	if err != nil {
		return err
	}
	for range rotationRounds {
		if err := childtest.Proceed("ready"); err != nil {
			return err
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
			return err
		}
	}
	return nil
}

// Two processes, 16 goroutines each, and a Hub that declares the access token
// dead time and again and ends the session with the second use of a refresh
// token: every time it is rotated exactly once, and nobody fails.
func TestFolderRotatesOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	w := newFolderWorld(t)
	both := []*childtest.Child{w.start("inspect at once"), w.start("inspect at once")}
	for round := range rotationRounds {
		for _, child := range both {
			if line, _ := child.Line(); line != "ready" {
				t.Fatalf("round %d: %s", round, line)
			}
		}
		if session, _ := w.hub.Session(w.session.ID); session.Rotations != round || session.Revoked {
			t.Fatalf("%d rotations before round %d, and the session is over: %v", session.Rotations, round, session.Revoked)
		}
		w.hub.ExpireAccess(w.session.ID)
		for _, child := range both {
			child.GoOn()
		}
	}
	for _, child := range both {
		child.Done()
	}
	if session, _ := w.hub.Session(w.session.ID); session.Rotations != rotationRounds || session.Revoked {
		t.Errorf("%d rotations, want %d; the session is over: %v", session.Rotations, rotationRounds, session.Revoked)
	}
	if n := w.hub.Requests().Refresh; n != rotationRounds {
		t.Errorf("%d requests to refresh, want %d", n, rotationRounds)
	}
	w.wantNoLeftovers()
}

// childThatInspectsForEver PATH ORIGINAL inspects until it is killed, each time
// as a new process would: what it was told about tokens is forgotten.
func childThatInspectsForEver(args []string) error {
	fmt.Println("ready")
	for {
		inspect, end, err := newInspector(args)
		if err != nil {
			return err
		}
		if err := errors.Join(inspect(), end()); err != nil {
			return err
		}
	}
}

// A process that is killed at any moment leaves a folder that can be read, with
// a session that lives, or whose loss the next inspection reports. Each of its
// inspections rotates, because the tokens live shorter than is needed for not
// doing so.
func TestFolderAfterKills(t *testing.T) {
	t.Parallel()
	const rounds = 200
	w := newFolderWorld(t, hubtest.WithLifetimes(20*time.Second, time.Hour))
	lost, rotated := 0, 0
	for round := range rounds {
		child := w.start("inspect for ever")
		child.Says("ready")
		// Within the rotation that follows one to three others.
		start, some := time.Now(), 1+rand.N(3)
		w.waitForRotations(some)
		<-time.After(rand.N(time.Since(start)/time.Duration(some) + time.Millisecond))
		must(t, child.Process.Kill())
		if !child.Killed() {
			t.Fatal("the child ended before it was killed")
		}

		store := openFolder(t, w.path)
		if list, err := store.List(t.Context()); err != nil || len(list) != 1 {
			t.Fatalf("round %d: List: %v, %v", round, list, err)
		}
		stored, err := store.Credentials(t.Context(), w.original.ConnectionKey)
		if err != nil {
			t.Fatalf("round %d: Credentials: %v", round, err)
		}
		if stored.SessionID != w.session.ID {
			t.Fatalf("round %d: the stored session is another one", round)
		}
		err = w.inspect()
		session, _ := w.hub.Session(w.session.ID)
		switch {
		case err == nil && !session.Revoked:
		case errors.Is(err, feedback.CodeAgentAuthorizationUnavailable) && session.Revoked:
			rotated += session.Rotations
			lost++
			w.login(w.original.ConnectionKey)
			id, err := w.hub.Submit(w.session.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
			must(t, err)
			w.capture(w.original.ConnectionKey, id)
		default:
			t.Fatalf("round %d: the session is over: %v, and the inspection says: %v", round, session.Revoked, err)
		}
		w.wantNoLeftovers()
	}
	session, _ := w.hub.Session(w.session.ID)
	rotated += session.Rotations
	t.Logf("in %d rounds with %d rotations, %d sessions were lost between the answer of the Hub and the disk", rounds, rotated, lost)
}

// childWithoutRoom PATH has files that cannot grow: first before a refresh, then
// in the middle of one, until there is room again.
func childWithoutRoom(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := func(size uint64) error {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &now); err != nil {
			return err
		}
		now.Cur = min(size, now.Max)
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now)
	}
	hub := hubtest.New(hubtest.WithLifetimes(20*time.Second, time.Hour))
	defer hub.Close()
	session := hub.Login(hubtest.Grant{})
	store, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	connection, err := store.Register(context.Background(), registry.Descriptor{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})
	if err != nil {
		return err
	}
	login := credentialsOf(session)
	if err := store.SaveCredentials(context.Background(), connection.Key, login); err != nil {
		return err
	}
	if login, err = store.Credentials(context.Background(), connection.Key); err != nil {
		return err
	}
	wire := &wire{base: hub.Transport()}
	transport, err := host.New(store, agentclient.WithHTTPClient(&http.Client{Transport: wire}))
	if err != nil {
		return err
	}
	original, err := transport.Capture(context.Background(), connection.Key, strings.Repeat("a", 64))
	if err != nil {
		return err
	}
	inspecting := func(code feedback.Code, refreshes, reads int, says ...string) error {
		_, err := transport.InspectInvocation(context.Background(), original)
		failure, ok := errors.AsType[*feedback.Error](err)
		if !ok || failure.Feedback.Code != code || errors.Is(err, host.ErrSessionUnsaved) != (refreshes > 0) {
			return fmt.Errorf("an inspection whose refresh cannot be saved: %w", err)
		}
		for _, part := range append(says, connection.Key) {
			if !strings.Contains(failure.Error(), part) {
				return fmt.Errorf("%q does not say %q", failure, part)
			}
		}
		if n := wire.count("refresh"); n != refreshes {
			return fmt.Errorf("%d refreshes, want %d", n, refreshes)
		}
		if n := wire.count("receipt") + wire.count("capabilities"); n != reads {
			return fmt.Errorf("%d reads, want %d", n, reads)
		}
		stored, err := store.Credentials(context.Background(), connection.Key)
		if err == nil && !stored.Equal(login) {
			err = errors.New("the login is another one")
		}
		return err
	}
	// Nothing is sent where the save could not be made ready.
	if err := errors.Join(limit(4096), inspecting(feedback.CodeUnknownFailure, 0, 0, "making room")); err != nil {
		return err
	}
	// A save that fails all the same is kept, and the original is asked for under
	// it: the Hub does not know it.
	wire.before = func(string) { _ = limit(16) }
	if err := errors.Join(limit(1<<40), inspecting(feedback.CodeInvocationNotFound, 1, 2, "not saved", "file too large")); err != nil {
		return err
	}
	ended, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := transport.Close(ended); !errors.Is(err, host.ErrSessionUnsaved) || !strings.Contains(err.Error(), session.ID) {
		return fmt.Errorf("closed on a full disk: %w", err)
	}
	// With room again it is saved.
	if err := errors.Join(limit(1<<40), transport.Close(context.Background())); err != nil {
		return err
	}
	stored, err := store.Credentials(context.Background(), connection.Key)
	if now, _ := hub.Session(session.ID); err != nil || stored.RefreshToken.Reveal() != now.RefreshToken || now.Rotations != 1 || now.Revoked {
		return fmt.Errorf("the session is lost: %w", err)
	}
	return nil
}

func TestFolderWithoutRoom(t *testing.T) {
	t.Parallel()
	childtest.Start(t, "no room", folderFor(t, registry.Descriptor{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute})).Done()
}

// What a folder refuses is named, and the answer withheld.
func TestFolderThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newFolderWorld(t)
	consent, err := registry.OpenDir(w.path)
	must(t, err)
	transport, err := host.New(consent)
	must(t, err)
	_, err = transport.InspectInvocation(t.Context(), w.original)
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok || failure.Feedback.Code != feedback.CodeUnknownFailure || !strings.Contains(failure.Error(), "registry.AllowPlainCredentials") {
		t.Errorf("without consent: %v", err)
	}

	login := filepath.Join(w.path, "agent-connections", w.original.ConnectionKey+".json")
	must(t, syscall.Chmod(login, 0o644))
	err = w.inspect()
	failure, ok = errors.AsType[*feedback.Error](err)
	if !ok || failure.Feedback.Code != feedback.CodeUnknownFailure || !errors.Is(err, registry.ErrDamaged) || !strings.Contains(failure.Error(), login) {
		t.Errorf("a credential file that all can read: %v", err)
	}
	if n := w.hub.Requests().Total(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	must(t, syscall.Chmod(login, 0o600))
	must(t, w.inspect())
}

// A token that is still valid needs no lock.
func TestFolderNeedsNoLockForAValidToken(t *testing.T) {
	t.Parallel()
	w := newFolderWorld(t)
	held := make(chan struct{})
	done := make(chan error, 1)
	release := make(chan struct{})
	go func() {
		done <- w.store.UpdateCredentials(t.Context(), w.original.ConnectionKey, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			close(held)
			<-release
			return c, nil
		})
	}()
	<-held
	must(t, w.inspect())
	close(release)
	must(t, <-done)
}

// A refresh that goes on when its caller has gone does not fire that caller's
// hooks.
func TestRefreshFiresNoHooksOfItsCaller(t *testing.T) {
	t.Parallel()
	w := newFolderWorld(t, hubtest.WithLifetimes(10*time.Second, time.Hour))
	transport, err := host.New(w.store)
	must(t, err)
	defer transport.CloseIdleConnections()
	hold := w.hub.Hold(hubtest.RefreshRequest, hubtest.AtRequest)
	ctx, cancel := context.WithCancel(t.Context())
	var fired atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { fired.Add(1) }, WroteRequest: func(httptrace.WroteRequestInfo) { fired.Add(1) },
		GotFirstResponseByte: func() { fired.Add(1) }, ConnectDone: func(string, string, error) { fired.Add(1) },
	})
	gone := make(chan error, 1)
	go func() {
		_, err := transport.InspectInvocation(ctx, w.original)
		gone <- err
	}()
	<-hold.Arrived()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	hold.Release()
	must(t, transport.Close(t.Context()))
	if session, _ := w.hub.Session(w.session.ID); fired.Load() != 0 || session.Rotations != 1 {
		t.Errorf("%d hooks fired, %d rotations", fired.Load(), session.Rotations)
	}
}
