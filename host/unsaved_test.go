package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

var errAway = errors.New("the database is away: synthetic-secret")

// database is a store whose database can go away.
type database struct {
	*registry.Memory

	reads, writes atomic.Bool // are away
	// patient tries a save again for as long as a store should.
	patient bool
	// saving is called before a save; saved after one, and may take the answer
	// to it away. Both may be nil.
	saving func()
	saved  func() error
	// panics: the next save panics.
	panics atomic.Bool
	// lock is how long the next update waits for its turn, and updates counts
	// them.
	lock    time.Duration
	updates atomic.Int64
}

func (d *database) goAway(away bool) {
	d.reads.Store(away)
	d.writes.Store(away)
}

func (d *database) Connection(ctx context.Context, key string) (registry.Connection, error) {
	if d.reads.Load() {
		return registry.Connection{}, errAway
	}
	return d.Memory.Connection(ctx, key)
}

func (d *database) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	if d.reads.Load() {
		return registry.Credentials{}, errAway
	}
	return d.Memory.Credentials(ctx, key)
}

func (d *database) ConnectionCredentials(ctx context.Context, key string) (registry.Connection, registry.Credentials, error) {
	if d.reads.Load() {
		return registry.Connection{}, registry.Credentials{}, errAway
	}
	return d.Memory.ConnectionCredentials(ctx, key)
}

func (d *database) UpdateCredentials(ctx context.Context, key string, update update) error {
	d.updates.Add(1)
	if d.reads.Load() {
		return errAway
	}
	time.Sleep(d.lock)
	d.lock = 0
	ran := false
	err := d.Memory.UpdateCredentials(ctx, key, func(ctx context.Context, current registry.Credentials) (registry.Credentials, error) {
		next, err := update(ctx, current)
		if err != nil || next.Equal(current) {
			return next, err
		}
		ran = true
		if d.saving != nil {
			d.saving()
		}
		if d.panics.Swap(false) {
			panic("mine")
		}
		for start := time.Now(); d.writes.Load(); time.Sleep(100 * time.Millisecond) {
			if !d.patient || time.Since(start) >= registry.SaveLimit {
				return current, errAway
			}
		}
		return next, nil
	})
	if ran && err == nil && d.saved != nil {
		return d.saved()
	}
	return err
}

// records is a log that can be read, without its times.
type records struct {
	mu    sync.Mutex
	lines []string
}

func (r *records) Write(line []byte) (int, error) {
	var record struct {
		Level, Msg, Reason, Code string
		Connection               string `json:"connection_key"`
		Session                  string `json:"session_id"`
	}
	if err := json.Unmarshal(line, &record); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := record.Level + " " + record.Msg
	if record.Connection == "" || record.Session == "" {
		if strings.Contains(record.Msg, "session") {
			text += " without its connection and session"
		}
	}
	if strings.Contains(string(line), "synthetic-") {
		text += " with a secret"
	}
	r.lines = append(r.lines, text)
	return len(line), nil
}

// ofSessions are the records that are not of inspections.
func (r *records) ofSessions() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line, "session") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (r *records) option() agentclient.Option {
	return agentclient.WithLogger(slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// newDatabaseWorld is newWorld over a database, with a token that has to be
// renewed.
func newDatabaseWorld(t testing.TB, opts ...hubtest.Option) (*world, *database, *records) {
	t.Helper()
	w := newWorld(t, opts...)
	w.expiring(0)
	store, log := &database{Memory: w.store}, &records{}
	w.transport = w.newTransport(store, log.option())
	return w, store, log
}

// wantSaved wants the session to live, as many refreshes as rotations, and the
// store to have the last one.
func (w *world) wantSaved(rotations int) {
	w.t.Helper()
	w.wantStored(rotations)
	if n := w.wire.count("refresh"); n != rotations {
		w.t.Errorf("%d refreshes, want %d", n, rotations)
	}
}

// wantStored is wantSaved, however many refreshes there were.
func (w *world) wantStored(rotations int) {
	w.t.Helper()
	hub, _ := w.hub.Session(w.session.ID)
	if stored := w.stored(); hub.Revoked || hub.Rotations != rotations || stored.RefreshToken.Reveal() != hub.RefreshToken || stored.AccessToken.Reveal() != hub.AccessToken {
		w.t.Errorf("revoked: %v, %d rotations (want %d), the last one stored: %v", hub.Revoked, hub.Rotations, rotations, stored.RefreshToken.Reveal() == hub.RefreshToken)
	}
	if list := w.transport.Unsaved(); len(list) != 0 {
		w.t.Errorf("not saved: %+v", list)
	}
}

// A database that is away for a while, from any point of a refresh on, loses no
// session, whether the store tries its save for a while or not at all.
func TestNoOutageLosesASession(t *testing.T) {
	t.Parallel()
	points := map[string]func(*world, *database, func()){
		"before the read":                  func(_ *world, _ *database, begin func()) { begin() },
		"in the refresh":                   func(w *world, _ *database, begin func()) { w.wire.before = on("refresh", begin) },
		"between the answer and the save":  func(w *world, _ *database, begin func()) { w.wire.after = on("refresh", begin) },
		"at the save":                      func(_ *world, d *database, begin func()) { d.saving = begin },
		"in the save, which is not known":  func(_ *world, d *database, begin func()) { d.saved = func() error { begin(); return errAway } },
		"after the save":                   func(_ *world, d *database, begin func()) { d.saved = func() error { begin(); return nil } },
		"in the save, and the reads go on": func(_ *world, d *database, begin func()) { d.saving = func() { begin(); d.reads.Store(false) } },
	}
	for name, arrange := range points {
		for _, outage := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, 9 * time.Second, 12 * time.Second, 30 * time.Second, time.Minute} {
			for _, patient := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, patient %t", name, outage, patient), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w, store, log := newDatabaseWorld(t)
						store.patient = patient
						var began atomic.Bool
						begin := func() {
							if !began.Swap(true) {
								store.goAway(true)
								time.AfterFunc(outage, func() { store.goAway(false) })
							}
						}
						arrange(w, store, begin)
						start := time.Now()
						for time.Since(start) < outage+10*time.Second {
							_, err := w.transport.InspectInvocation(t.Context(), w.original)
							if err == nil {
								time.Sleep(700 * time.Millisecond)
								continue
							}
							if code := feedback.CodeOf(err); code != feedback.CodeUnknownFailure && code != feedback.CodeAgentRequestTimeout {
								t.Fatalf("after %v: %v", time.Since(start), err)
							}
							if unsaved := len(w.transport.Unsaved()) == 1; unsaved != errors.Is(err, host.ErrSessionUnsaved) {
								t.Errorf("after %v, not saved: %v: %v", time.Since(start), unsaved, err)
							}
							if strings.Contains(err.Error(), "synthetic-") {
								t.Errorf("the store's text is in %v", err)
							}
							time.Sleep(700 * time.Millisecond)
						}
						time.Sleep(time.Minute) // the longest pause between two tries
						if !began.Load() {
							t.Fatal("there was no outage")
						}
						if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
							t.Errorf("in the end: %v", err)
						}
						w.wantSaved(1)
						for _, line := range log.ofSessions() {
							if strings.Contains(line, "given up") || strings.Contains(line, " with") {
								t.Error(line)
							}
						}
					})
				})
			}
		}
	}
}

// While the store shows the same binding, inspections go on under a rotation
// that it cannot save; that is said once, and once more when it is saved.
func TestInspectionsGoOnUnsaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, log := newDatabaseWorld(t)
		store.writes.Store(true)
		start := time.Now()
		for range 20 {
			if _, err := w.transport.InspectInvocation(t.Context(), w.original); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		want := []host.UnsavedSession{{ConnectionKey: w.connection.Key, SessionID: w.session.ID, Since: start}}
		if diff := cmp.Diff(want, w.transport.Unsaved()); diff != "" {
			t.Errorf("not saved (-want +got):\n%s", diff)
		}
		for range w.transport.InspectInvocations(t.Context(), w.operations(20)) {
		}
		// Needed, it is saved at once.
		store.writes.Store(false)
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantSaved(1)
		if diff := cmp.Diff([]string{"DEBUG session refreshed", "ERROR renewed session not saved", "INFO renewed session saved"}, log.ofSessions()); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})
}

// A rotation that has run out cannot be renewed before it is saved: that is
// what the error says, and nothing is sent.
func TestUnsavedTokenThatRanOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := newDatabaseWorld(t)
		store.writes.Store(true)
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		time.Sleep(20 * time.Minute)
		if failure := w.refused(feedback.CodeUnknownFailure); !errors.Is(failure, host.ErrSessionUnsaved) || !strings.Contains(failure.Error(), "if the process ends") {
			t.Error(failure)
		}
		if n := w.wire.count("refresh"); n != 1 {
			t.Errorf("%d refreshes", n)
		}
		store.writes.Store(false)
		_, err = w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		w.wantSaved(2)
	})
}

// What came into the store meanwhile wins over a rotation that was not saved.
func TestNewerLoginWinsOverAnUnsavedRotation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(*world)
		code      feedback.Code
	}{
		"another session": {func(w *world) { w.login(w.hub.Login(hubtest.Grant{})) }, feedback.CodeAgentBindingChanged},
		"the same session": {func(w *world) {
			session, _ := w.hub.Session(w.session.ID)
			newer := credentialsOf(session)
			newer.RefreshToken = registry.NewSecret("synthetic-refresh-of-a-newer-login")
			w.must(w.store.SaveCredentials(context.Background(), w.connection.Key, newer))
		}, ""},
		"logged out": {func(w *world) { w.must(w.store.DeleteCredentials(context.Background(), w.connection.Key)) }, feedback.CodeAgentAuthorizationUnavailable},
		"removed":    {func(w *world) { w.must(w.store.Remove(context.Background(), w.connection.Key)) }, feedback.CodeAgentBindingChanged},
	} {
		for _, asked := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, asked %t", name, asked), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, store, log := newDatabaseWorld(t)
					store.writes.Store(true)
					_, err := w.transport.InspectInvocation(t.Context(), w.original)
					w.must(err)
					test.meanwhile(w)
					before, readErr := w.store.Credentials(t.Context(), w.connection.Key)
					store.writes.Store(false)
					if asked {
						_, err := w.transport.InspectInvocation(t.Context(), w.original)
						if feedback.CodeOf(err) != test.code {
							t.Error(err)
						}
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if after, err := w.store.Credentials(t.Context(), w.connection.Key); !after.Equal(before) || !errors.Is(err, readErr) {
						t.Errorf("the store was changed: %v", err)
					}
					if list := w.transport.Unsaved(); len(list) != 0 {
						t.Errorf("not saved: %+v", list)
					}
					want := []string{"DEBUG session refreshed", "ERROR renewed session not saved", "ERROR renewed session given up"}
					if diff := cmp.Diff(want, log.ofSessions()); diff != "" {
						t.Errorf("records (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// A store that panics in the save, or never comes back from it, loses no
// session either.
func TestSaveThatPanicsOrHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, log := newDatabaseWorld(t)
		store.panics.Store(true)
		func() {
			defer func() {
				if value := recover(); value != "mine" {
					t.Errorf("recovered %v", value)
				}
			}()
			_, _ = w.transport.InspectInvocation(t.Context(), w.original)
		}()
		if len(w.transport.Unsaved()) != 1 {
			t.Error("it is not kept")
		}
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		time.Sleep(time.Minute)
		w.wantSaved(1)
		if diff := cmp.Diff([]string{"DEBUG session refreshed", "ERROR renewed session not saved", "INFO renewed session saved"}, log.ofSessions()); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := newDatabaseWorld(t)
		release := make(chan struct{})
		done := sync.OnceFunc(func() { close(release) })
		defer done()
		store.saving = func() { <-release }
		w.refused(feedback.CodeAgentRequestTimeout)
		time.Sleep(time.Minute)
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		if list := w.transport.Unsaved(); err != nil || len(list) != 1 || !strings.Contains(list[0].Reason, "did not answer in time") {
			t.Errorf("%v, %+v", err, list)
		}
		time.Sleep(time.Hour)
		if n := store.updates.Load(); n != 1 {
			t.Errorf("%d calls of a store that does not come back", n)
		}
		done()
		time.Sleep(time.Minute)
		_, err = w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		w.wantSaved(2)
	})
}

// The lock may be long in coming, and the Hub slow: what it gives is kept, though
// the store then cannot save it.
func TestRotationAfterALongLockWaitIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := newDatabaseWorld(t)
		store.lock = 33 * time.Second
		store.saving = func() { store.writes.Store(true) }
		w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: 10 * time.Second})
		w.refused(feedback.CodeAgentRequestTimeout)
		time.Sleep(time.Minute)
		if list := w.transport.Unsaved(); len(list) != 1 {
			t.Fatalf("not saved: %+v", list)
		}
		store.saving = nil
		store.writes.Store(false)
		w.must(w.transport.Close(t.Context()))
		w.wantSaved(1)
	})
}

// A save that was reported as failed and did not fail is seen with the next
// reading.
func TestSaveThatWentThroughUnseen(t *testing.T) {
	t.Parallel()
	w, store, log := newDatabaseWorld(t)
	store.saved = func() error { return errAway }
	_, err := w.transport.InspectInvocation(t.Context(), w.original)
	w.must(err)
	w.wantSaved(1)
	if diff := cmp.Diff([]string{"DEBUG session refreshed", "ERROR renewed session not saved", "INFO renewed session saved"}, log.ofSessions()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// A save that only may not outlast a power failure is a save.
func TestSaveThatIsNotSynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, log := newDatabaseWorld(t)
		store.saved = func() error { return fmt.Errorf("the disk: %w", registry.ErrNotSynced) }
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		w.wantSaved(1)
		if diff := cmp.Diff([]string{"DEBUG session refreshed", "WARN renewed session saved, but it may not outlast a power failure"}, log.ofSessions()); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})
}

// Two transports over one database stand for two processes. While one holds a
// rotation that is not saved, the other one can only find the session refused;
// it says how that can be.
func TestTheOtherProcessSaysHowASessionCanBeLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := newDatabaseWorld(t)
		other := w.newTransport(&database{Memory: w.store})
		store.writes.Store(true)
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		_, err = other.InspectInvocation(t.Context(), w.original)
		failure := w.failure(err, feedback.CodeAgentAuthorizationUnavailable)
		if !strings.Contains(failure.Error(), "before it could save") || errors.Is(err, host.ErrSessionUnsaved) {
			t.Error(failure)
		}
	})
	// Where the first one could save it before, both go on.
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := newDatabaseWorld(t)
		other := w.newTransport(&database{Memory: w.store})
		store.writes.Store(true)
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		store.writes.Store(false)
		time.Sleep(time.Second)
		_, err = other.InspectInvocation(t.Context(), w.original)
		w.must(err)
		w.wantSaved(1)
	})
}

// Close saves what is not saved, for as long as it is given, and says what is
// left.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, log := newDatabaseWorld(t)
		store.writes.Store(true)
		_, err := w.transport.InspectInvocation(t.Context(), w.original)
		w.must(err)
		w.transport.CloseIdleConnections() // ends nothing
		time.Sleep(5 * time.Minute)        // until the pauses are long
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err = w.transport.Close(ctx)
		if !errors.Is(err, host.ErrSessionUnsaved) || !strings.Contains(err.Error(), w.connection.Key) || !strings.Contains(err.Error(), w.session.ID) ||
			strings.Contains(err.Error(), "synthetic-") || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		w.refused(feedback.CodeInvalidRequest)
		for o := range w.transport.InspectInvocations(t.Context(), []host.Original{w.original}) {
			w.failure(o.Err, feedback.CodeInvalidRequest)
		}
		_, err = w.transport.Capture(t.Context(), w.connection.Key, w.original.InvocationID)
		w.failure(err, feedback.CodeInvalidRequest)
		tried := store.updates.Load()
		time.Sleep(time.Hour)
		if n := store.updates.Load() - tried; n != 0 || len(w.transport.Unsaved()) != 1 {
			t.Errorf("%d tries after the end", n)
		}
		// Again, now that the database is back.
		time.AfterFunc(3*time.Second, func() { store.writes.Store(false) })
		w.must(w.transport.Close(t.Context()))
		w.wantSaved(1)
		w.must(w.transport.Close(t.Context()))
		want := []string{"DEBUG session refreshed", "ERROR renewed session not saved", "ERROR renewed session given up", "INFO renewed session saved"}
		if diff := cmp.Diff(want, log.ofSessions()); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})
	// It waits for a refresh that nobody waits for any more.
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newDatabaseWorld(t)
		w.hub.Inject(hubtest.Fault{On: hubtest.RefreshRequest, Latency: 3 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.transport.InspectInvocation(ctx, w.original)
		w.failure(err, feedback.CodeAgentRequestTimeout)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.transport.Close(soon); !errors.Is(err, host.ErrSessionUnsaved) || !strings.Contains(err.Error(), "being renewed") {
			t.Error(err)
		}
		w.must(w.transport.Close(t.Context()))
		w.wantSaved(1)
	})
	w := newWorld(t)
	var none context.Context
	w.failure(w.transport.Close(none), feedback.CodeInvalidRequest)
	w.must(new(host.Transport).Close(t.Context()))
	if list := new(host.Transport).Unsaved(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// An inspection that is under way when its transport is closed begins no
// refresh whose end nobody would wait for.
func TestNoRefreshBeginsAfterClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wire.after = on("capabilities", func() {
		w.expiring(0)
		w.must(w.transport.Close(t.Context()))
	})
	w.refused(feedback.CodeInvalidRequest)
	if n := w.wire.count("refresh"); n != 0 {
		t.Errorf("%d refreshes", n)
	}
}

// sessions is a store of any number of connections, of which none can be saved
// while it is told so.
type sessions struct {
	mu     sync.Mutex
	logins map[string]registry.Credentials
	away   atomic.Bool
}

func (s *sessions) Connection(_ context.Context, key string) (registry.Connection, error) {
	return registry.Connection{Key: key, HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}, nil
}

func (s *sessions) Credentials(_ context.Context, key string) (registry.Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins[key], nil
}

func (s *sessions) UpdateCredentials(ctx context.Context, key string, update update) error {
	current, _ := s.Credentials(ctx, key)
	next, err := update(ctx, current)
	if err == nil && s.away.Load() {
		err = errAway
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logins[key] = next
	}
	return err
}

// A transport forgets the sessions that it has renewed, by number and by time,
// and keeps those that are not saved, until they are.
func TestRenewedSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := &sessions{logins: map[string]registry.Credentials{}}
		// A Hub of any number of sessions, whose refresh tokens end with their id.
		w.wire.base = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if nameOf(r) != "refresh" {
				return status(404), nil
			}
			body, err := io.ReadAll(r.Body)
			answer := status(200)
			id := string(body[len(body)-len(sessionID)-2 : len(body)-2])
			answer.Body = io.NopCloser(bytes.NewReader(grant(id, "refresh_token", `"synthetic-refresh-next-`+id+`"`)))
			return answer, err
		})
		w.transport = w.newTransport(store)
		number := 0
		renew := func(n int) {
			t.Helper()
			for range n {
				number++
				o := w.original
				o.ConnectionKey = fmt.Sprintf("conn_%032x", number)
				o.ExpectedBinding.SessionID = fmt.Sprintf("%08x-1111-4111-8111-111111111111", number)
				login := credentialsOf(w.session)
				login.AccessExpiresAt, login.SessionID = time.Now(), o.ExpectedBinding.SessionID
				login.RefreshToken = registry.NewSecret("synthetic-refresh-" + login.SessionID)
				store.mu.Lock()
				store.logins[o.ConnectionKey] = login
				store.mu.Unlock()
				_, err := w.transport.InspectInvocation(t.Context(), o)
				w.failure(err, feedback.CodeAgentSchemaUnsupported)
			}
		}
		renew(3 * host.MaxSessions)
		if n := w.transport.Sessions(); n > host.MaxSessions {
			t.Errorf("%d sessions are remembered", n)
		}
		time.Sleep(2 * time.Hour)
		renew(1)
		if n := w.transport.Sessions(); n != 1 {
			t.Errorf("after two hours %d sessions are remembered", n)
		}
		store.away.Store(true)
		renew(host.MaxSessions + 200)
		if n := len(w.transport.Unsaved()); n != host.MaxSessions+200 || n > w.transport.Sessions() {
			t.Errorf("%d are not saved, %d remembered", n, w.transport.Sessions())
		}
		store.away.Store(false)
		time.Sleep(time.Hour)
		if n := len(w.transport.Unsaved()); n != 0 {
			t.Errorf("%d are not saved", n)
		}
		time.Sleep(2 * time.Hour)
		renew(1)
		if n := w.transport.Sessions(); n != 1 {
			t.Errorf("in the end %d sessions are remembered", n)
		}
	})
}

// A log handler that panics does so in the inspection that it is called for, and
// nowhere else, and takes no session with it.
func TestLogHandlerThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := newDatabaseWorld(t)
		w.transport = w.newTransport(store, agentclient.WithLogger(slog.New(slog.NewTextHandler(panicking{}, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		store.writes.Store(true)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _ = w.transport.InspectInvocation(t.Context(), w.original)
		}()
		if len(w.transport.Unsaved()) != 1 {
			t.Error("the rotation is not kept")
		}
		store.writes.Store(false)
		time.Sleep(time.Minute)
		w.wantSaved(1)
	})
}

type panicking struct{ io.Writer }

func (panicking) Write([]byte) (int, error) { panic("mine") }

// The Hub's answer comes after the process has given up waiting for its store, because it
// was suspended in the middle: the rotation is kept all the same, and saved.
func TestRotationAfterTheFlightWasGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newDatabaseWorld(t)
		stored, err := w.store.Credentials(t.Context(), w.connection.Key)
		w.must(err)
		next := stored
		next.AccessToken, next.RefreshToken = registry.NewSecret("synthetic-access-late"), registry.NewSecret("synthetic-refresh-late")
		next.AccessExpiresAt, next.RefreshExpiresAt = time.Now().Add(15*time.Minute).Truncate(time.Millisecond), time.Now().Add(time.Hour).Truncate(time.Millisecond)
		w.must(w.transport.RotateAfterGivingUp(w.original, stored, next))
		if list := w.transport.Unsaved(); len(list) != 1 || list[0].SessionID != w.session.ID {
			t.Errorf("not saved: %+v", list)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if after, err := w.store.Credentials(t.Context(), w.connection.Key); err != nil || !after.Equal(next) {
			t.Errorf("the rotation is not stored: %v", err)
		}
		if list := w.transport.Unsaved(); len(list) != 0 {
			t.Errorf("not saved: %+v", list)
		}
	})
}
