package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/registry"
)

// ErrSessionUnsaved says that a Hub has renewed a session and the connection
// store has not saved it. The transport keeps the renewed session and goes on
// trying to save it; only the end of the process loses it. It is in the errors
// of inspections that fail while that is so, whatever else they failed of, and
// in that of [Transport.Close].
var ErrSessionUnsaved = errors.New("host: a renewed session is not saved")

const (
	// A save that failed is tried again after firstSavePause, doubled with each
	// time up to longestSavePause, with a jitter.
	firstSavePause   = 100 * time.Millisecond
	longestSavePause = 30 * time.Second
	// neededSavePause is how long after a try that failed the next one comes
	// where an inspection needs the session.
	neededSavePause = time.Second
	// maxSaves is how many sessions are saved again at once.
	maxSaves = 16
	// maxNamed is how many sessions the error of Close names.
	maxNamed = 20
)

// rotation is a good answer to a refresh: the credentials that it replaces, as
// they were stored, and those that follow them.
type rotation struct {
	replaced, next registry.Credentials
	since          time.Time // the Hub gave it
}

// isStored reports whether these are the very credentials that follow, whatever
// the store makes of their times.
func (r *rotation) isStored(stored registry.Credentials) bool { return sameTokens(stored, r.next) }

// isDue reports whether these are the very credentials that are to be replaced.
func (r *rotation) isDue(stored registry.Credentials) bool { return sameTokens(stored, r.replaced) }

func sameTokens(a, b registry.Credentials) bool {
	return a.Binding() == b.Binding() && a.AccessToken == b.AccessToken && a.RefreshToken == b.RefreshToken
}

// unsaved is a rotation that the store has not saved. It is kept until the store
// has it, or a newer login or a removal takes its place, or it has run out. It
// is changed with the session's mu held.
type unsaved struct {
	rotation
	reason string // what the store said, safe to show; "" where it cannot be shown

	pause time.Duration // before the next try, without its jitter
	tried time.Time     // when the last one failed
	due   time.Time     // when the next one comes
	timer *time.Timer
}

// outcome is what became of a rotation that a flight had to save.
type outcome int

const (
	notSaved   outcome = iota
	saved              // the store has it
	superseded         // a newer login or a removal won
)

// current gives the credentials that count where the store shows these.
func (s *session) current(stored registry.Credentials) registry.Credentials {
	s.mu.Lock()
	u := s.unsaved
	switch {
	case u == nil:
		s.mu.Unlock()
		return stored
	case u.isDue(stored):
		s.mu.Unlock()
		return u.next
	case u.isStored(stored): // the save that was reported as failed was none that failed
		s.drop()
		s.mu.Unlock()
		s.logSaved(context.Background(), u)
		return stored
	}
	s.saveSoon() // which gives it up, or not, with no other update under way
	s.mu.Unlock()
	return stored
}

// drop forgets the unsaved rotation; s.mu is held.
func (s *session) drop() {
	s.unsaved.timer.Stop()
	s.unsaved = nil
}

// saveAgain decides what a flight has to do about an unsaved rotation, with the
// credentials that are stored; ok is false where there is none.
func (s *session) saveAgain(f *flight, current registry.Credentials) (next registry.Credentials, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.unsaved
	if u == nil {
		return current, false
	}
	f.rotation = &u.rotation
	switch {
	case u.isDue(current):
		return u.next, true
	case u.isStored(current):
		f.outcome = saved
	default:
		f.outcome = superseded
	}
	return current, true
}

// judge notes what the store made of the flight's rotation. Brought says that
// the flight has a rotation of its own, saved or not.
func (s *session) judge(f *flight, err error) (brought bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrNotLoggedIn)
	if f.rotation == nil && s.unsaved != nil && gone {
		f.rotation = &s.unsaved.rotation // the store had nothing to run the update with
	}
	f.unsynced = errors.Is(err, registry.ErrNotSynced)
	switch {
	case f.rotation != nil && f.outcome != notSaved:
	case err == nil, f.unsynced:
		f.outcome = saved
	case gone, errors.Is(err, registry.ErrChanged):
		f.outcome = superseded
	default:
		f.reason = reasonOf(err)
	}
	return f.rotation != nil && f.sent.Load() && f.outcome != superseded
}

// reasonOf is what can be shown of the error of a save.
func reasonOf(err error) string {
	if known, ok := errors.AsType[*registry.Error](err); ok {
		return known.Error()
	}
	if failure, ok := errors.AsType[*feedback.Error](err); ok { // of this package
		return strings.TrimSuffix(failure.Feedback.Message, ".")
	}
	return ""
}

// land ends a flight, and gives what is to be logged of it.
func (s *session) land(f *flight) (log func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight = nil
	u, lost := s.unsaved, false
	var about func(context.Context)
	switch {
	case f.rotation == nil:
	case f.outcome == notSaved && f.sent.Load():
		u, lost = &unsaved{rotation: *f.rotation, reason: f.reason}, true
		s.unsaved = u
		about = func(ctx context.Context) { s.logUnsaved(ctx, u.reason) }
	case u == nil || f.outcome == notSaved:
	case f.outcome == saved:
		s.drop()
		about = func(ctx context.Context) { s.logSaved(ctx, u) }
	default:
		s.drop()
		about = func(ctx context.Context) { s.logGivenUp(ctx, "a newer login or a removal took its place") }
	}
	if s.unsaved != nil {
		if !lost && f.reason != "" {
			s.unsaved.reason = f.reason
		}
		s.saveLater()
	}
	record, unsynced := f.record, f.unsynced && f.outcome == saved && f.rotation != nil
	return func(ctx context.Context) {
		if record != nil {
			s.logExchange(ctx, record)
		}
		if unsynced {
			s.log(ctx, slog.LevelWarn, "renewed session saved, but it may not outlast a power failure")
		}
		if about != nil {
			about(ctx)
		}
	}
}

// saveLater plans the next try to save after one that failed; s.mu is held.
func (s *session) saveLater() {
	u := s.unsaved
	u.tried = time.Now()
	u.pause = min(max(firstSavePause, 2*u.pause), longestSavePause)
	s.saveAfter(boundary.Jitter(u.pause))
}

// saveSoon brings the next try forward, because somebody needs the session;
// s.mu is held.
func (s *session) saveSoon() {
	wait := max(0, neededSavePause-time.Since(s.unsaved.tried))
	if s.flight == nil && time.Until(s.unsaved.due) > wait {
		s.saveAfter(wait)
	}
}

// saveAfter sets when the next try comes; s.mu is held. Between two tries there
// is no goroutine.
func (s *session) saveAfter(wait time.Duration) {
	u := s.unsaved
	u.due = time.Now().Add(wait)
	switch {
	case u.timer == nil:
		u.timer = time.AfterFunc(wait, s.save)
	case !s.transport.closed.Load():
		u.timer.Reset(wait)
	}
	if s.transport.closed.Load() {
		u.timer.Stop() // Close tries by itself
	}
}

// save is one try to save the unsaved rotation, in a goroutine of its own. The
// next one is planned when it has failed.
func (s *session) save() {
	t := s.transport
	select {
	case t.saves <- struct{}{}:
		defer func() { <-t.saves }()
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.unsaved != nil {
			s.saveAfter(boundary.Jitter(neededSavePause))
		}
		return
	}
	s.mu.Lock()
	u := s.unsaved
	switch {
	case u == nil, s.flight != nil: // whose end plans the next one
		s.mu.Unlock()
		return
	case !time.Now().Before(u.next.RefreshExpiresAt):
		s.drop()
		s.mu.Unlock()
		defer func() { _ = recover() }() // there is no caller to whom a log handler could panic
		s.logGivenUp(context.Background(), "it has run out")
		return
	case s.calls > 0: // the store still has an update of this session, and may save it yet
		s.saveLater()
		s.mu.Unlock()
		return
	}
	f := s.newFlight(registry.Secret{})
	s.mu.Unlock()
	s.fly(context.Background(), f)
}

// noted gives the error of an inspection with a word about the unsaved rotation
// of its session in front, where there is one: nothing that failed besides
// hides it.
func (s *session) noted(err error) error {
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsaved == nil {
		return err
	}
	why := ""
	if s.unsaved.reason != "" {
		why = " (" + s.unsaved.reason + ")"
	}
	return failures.Also(failure, "The session of "+s.connectionKey+" was renewed, and the connection store has not saved it"+why+
		". This process keeps it and goes on trying; if the process ends before that, the session is lost.", ErrSessionUnsaved)
}

// UnsavedSession is a session that a Hub has renewed and the connection store
// has not saved. It has no secret.
type UnsavedSession struct {
	// ConnectionKey and SessionID name the session.
	ConnectionKey string
	SessionID     string
	// Since is when the Hub renewed it.
	Since time.Time
	// Reason is what package registry said at the last try to save it; empty
	// for the error of a store of the host's own, which goes no further.
	Reason string
}

// Unsaved gives the sessions that are not saved, those of which it has been so
// longest first. There are none while all is well: a host that watches itself
// watches this. It waits for nothing.
func (t *Transport) Unsaved() []UnsavedSession {
	return t.list(func(s *session) (UnsavedSession, bool) {
		u := s.unsaved
		if u == nil {
			return UnsavedSession{}, false
		}
		return UnsavedSession{ConnectionKey: s.connectionKey, SessionID: s.binding.SessionID, Since: u.since, Reason: u.reason}, true
	})
}

// list gives what is to be said of each session, by its time.
func (t *Transport) list(say func(*session) (UnsavedSession, bool)) (list []UnsavedSession) {
	for _, s := range t.all() {
		s.mu.Lock()
		if said, ok := say(s); ok {
			list = append(list, said)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b UnsavedSession) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ConnectionKey, b.ConnectionKey), strings.Compare(a.SessionID, b.SessionID))
	})
	return list
}

func (t *Transport) all() (sessions []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		sessions = append(sessions, s)
	}
	return sessions
}

// Close ends the transport: it waits for the refreshes that are under way, tries
// to save every session that is not saved until that is done or ctx ends, and
// closes the idle connections. A host calls it before its process ends, with a
// time limit, and has the person or the operator read its error: a session that
// is not saved by then ends with the process, and the operations that were sent
// under it cannot be asked about any more.
//
// The error names the connections and sessions and matches [ErrSessionUnsaved].
// Close may be called again, which tries again. Everything else that is called
// on a closed transport is an invalid request, save for [Transport.Unsaved].
func (t *Transport) Close(ctx context.Context) error {
	if ctx == nil {
		return invalid("The context is nil.")
	}
	if t.store == nil {
		return nil
	}
	t.mu.Lock()
	t.closed.Store(true)
	t.mu.Unlock()
	defer t.CloseIdleConnections()
	var trying sync.WaitGroup
	defer trying.Wait()
	for _, s := range t.all() {
		if !s.hasWork() {
			continue
		}
		select {
		case t.saves <- struct{}{}:
			trying.Go(func() {
				defer func() { <-t.saves }()
				s.finish(ctx)
			})
		case <-ctx.Done():
		}
	}
	trying.Wait()
	left := t.list(func(s *session) (UnsavedSession, bool) {
		said := UnsavedSession{ConnectionKey: s.connectionKey, SessionID: s.binding.SessionID}
		switch {
		case s.unsaved != nil:
			said.Since, said.Reason = s.unsaved.since, s.unsaved.reason
			return said, true
		case s.flight != nil && s.flight.sent.Load():
			said.Reason = "it is being renewed at this moment"
			return said, true
		}
		return said, false
	})
	if len(left) == 0 {
		return nil
	}
	var text strings.Builder
	for i, one := range left {
		if i == maxNamed {
			fmt.Fprintf(&text, "; and %d more", len(left)-i)
			break
		}
		fmt.Fprintf(&text, "; connection %s, session %s", one.ConnectionKey, one.SessionID)
		if one.Reason != "" {
			fmt.Fprintf(&text, " (%s)", one.Reason)
		}
	}
	for _, one := range left {
		t.log(ctx, slog.LevelError, "renewed session given up", one.ConnectionKey, one.SessionID, slog.String("reason", "the transport was closed"))
	}
	return fmt.Errorf("%w: what ends with this process%s", ErrSessionUnsaved, text.String())
}

// hasWork reports whether there is something to wait for or to save.
func (s *session) hasWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flight != nil || s.unsaved != nil
}

// finish waits for what is under way and saves what is not saved, until ctx
// ends.
func (s *session) finish(ctx context.Context) {
	for pause := time.Duration(0); s.hasWork(); pause = min(max(firstSavePause, 2*pause), longestSavePause) {
		if pause > 0 && !sleep(ctx, boundary.Jitter(pause)) {
			return
		}
		f, own := s.take(registry.Secret{})
		if f == nil {
			return
		}
		if own {
			go s.fly(await.Detach(ctx), f)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) logUnsaved(ctx context.Context, reason string) {
	s.log(ctx, slog.LevelError, "renewed session not saved", slog.String("reason", reason))
}

func (s *session) logSaved(ctx context.Context, u *unsaved) {
	s.log(ctx, slog.LevelInfo, "renewed session saved", slog.Duration("after", time.Since(u.since)))
}

func (s *session) logGivenUp(ctx context.Context, reason string) {
	s.log(ctx, slog.LevelError, "renewed session given up", slog.String("reason", reason))
}

func (s *session) logExchange(ctx context.Context, e *exchange) {
	var code feedback.Code
	status := 200
	if failure, ok := errors.AsType[*feedback.Error](e.err); ok {
		code, status = failure.Feedback.Code, failure.StatusCode
	}
	s.log(ctx, slog.LevelDebug, "session refreshed", slog.String("code", string(code)), slog.Int("status", status), slog.Duration("duration", e.took))
}

func (s *session) log(ctx context.Context, level slog.Level, message string, more ...slog.Attr) {
	s.transport.log(ctx, level, message, s.connectionKey, s.binding.SessionID, more...)
}

func (t *Transport) log(ctx context.Context, level slog.Level, message, connectionKey, sessionID string, more ...slog.Attr) {
	if t.settings.Logger == nil {
		return
	}
	t.settings.Logger.LogAttrs(ctx, level, message, append([]slog.Attr{slog.String("connection_key", connectionKey), slog.String("session_id", sessionID)}, more...)...)
}
