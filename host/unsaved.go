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

// ErrSessionUnsaved says that a Hub has given new tokens for a session and the connection
// store has not saved them. The transport keeps the tokens and tries again and again to
// save them; only the end of the process loses them. The error of every inspection that
// fails meanwhile, for whatever reason, matches ErrSessionUnsaved, and so does the error of
// [Transport.Close].
var ErrSessionUnsaved = errors.New("host: a renewed session is not saved")

const (
	// A save that failed is tried again after a pause with a jitter. The pause begins
	// with firstSavePause and doubles up to longestSavePause.
	firstSavePause   = 100 * time.Millisecond
	longestSavePause = 30 * time.Second
	// neededSavePause is the pause after a failed save where an inspection needs the
	// session to be saved.
	neededSavePause = time.Second
	// maxSaves is how many sessions the transport tries to save at once.
	maxSaves = 16
	// maxNamed is how many sessions the error of Close names.
	maxNamed = 20
)

// rotation is the result of a refresh: the stored credentials that it replaces, and the
// credentials with the new tokens.
type rotation struct {
	replaced, next registry.Credentials
	since          time.Time // when the Hub gave the new tokens
}

// isStored reports whether stored has the new tokens. It does not compare the times, which
// a store may cut.
func (r *rotation) isStored(stored registry.Credentials) bool { return sameTokens(stored, r.next) }

// isDue reports whether stored still has the tokens that the rotation replaces.
func (r *rotation) isDue(stored registry.Credentials) bool { return sameTokens(stored, r.replaced) }

func sameTokens(a, b registry.Credentials) bool {
	return a.Binding() == b.Binding() && a.AccessToken == b.AccessToken && a.RefreshToken == b.RefreshToken
}

// unsaved is a rotation that the store has not saved. The session keeps it until the store
// has saved it, until a newer login or a removal has taken its place, or until its refresh
// token has expired. The session's mu guards it.
type unsaved struct {
	rotation
	reason string // the store's error, safe to show; "" where it cannot be shown

	pause time.Duration // before the next save, without its jitter
	tried time.Time     // when the last save failed
	due   time.Time     // when the next save begins
	timer *time.Timer
}

// outcome is the outcome of saving the rotation of a flight.
type outcome int

const (
	notSaved   outcome = iota
	saved              // the store has saved the rotation
	superseded         // a newer login or a removal has taken its place
)

// current gives the credentials to use where the store has stored: the new ones of the
// unsaved rotation where stored has the tokens that it replaces, else stored.
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
	case u.isStored(stored): // the store had saved the rotation although it returned an error
		s.drop()
		s.mu.Unlock()
		s.logSaved(context.Background(), u)
		return stored
	}
	s.saveSoon() // decides under the store's exclusion whether the rotation was superseded
	s.mu.Unlock()
	return stored
}

// drop forgets the unsaved rotation. The caller holds s.mu.
func (s *session) drop() {
	s.unsaved.timer.Stop()
	s.unsaved = nil
}

// saveAgain gives the credentials to store where the session has an unsaved rotation: those
// of the rotation, or current where that is not to be replaced. ok is false where there is
// no unsaved rotation.
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

// judge records whether the store has saved the rotation of the flight; err is the error of
// UpdateCredentials. brought reports whether the flight got new tokens from the Hub that
// can be used, saved or not.
func (s *session) judge(f *flight, err error) (brought bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrNotLoggedIn)
	if f.rotation == nil && s.unsaved != nil && gone {
		f.rotation = &s.unsaved.rotation // without credentials the store did not call the update
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

// reasonOf gives the text of the error of a save where that is safe to show; else "".
func reasonOf(err error) string {
	if known, ok := errors.AsType[*registry.Error](err); ok {
		return known.Error()
	}
	if failure, ok := errors.AsType[*feedback.Error](err); ok { // this package made it
		return strings.TrimSuffix(failure.Feedback.Message, ".")
	}
	return ""
}

// land ends a flight: it keeps a rotation that was not saved, and forgets one that was. It
// gives the function that writes the log records, to be called without s.mu.
func (s *session) land(f *flight) (log func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight, f.landed = nil, true
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

// saveLater sets the time of the next save after one that failed. The caller holds s.mu.
func (s *session) saveLater() {
	u := s.unsaved
	u.tried = time.Now()
	u.pause = min(max(firstSavePause, 2*u.pause), longestSavePause)
	s.saveAfter(boundary.Jitter(u.pause))
}

// saveSoon makes the next save begin earlier, because an inspection needs the session to be
// saved. The caller holds s.mu.
func (s *session) saveSoon() {
	wait := max(0, neededSavePause-time.Since(s.unsaved.tried))
	if s.flight == nil && time.Until(s.unsaved.due) > wait {
		s.saveAfter(wait)
	}
}

// saveAfter starts the timer for the next save, so that no goroutine waits for it. The
// caller holds s.mu.
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
		u.timer.Stop() // Close saves by itself
	}
}

// save tries once to save the unsaved rotation. The timer calls it in a goroutine of its
// own. Where it fails, the end of its flight sets the timer again.
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
	case u == nil, s.flight != nil: // the end of the running flight sets the timer again
		s.mu.Unlock()
		return
	case !time.Now().Before(u.next.RefreshExpiresAt):
		s.drop()
		s.mu.Unlock()
		defer func() { _ = recover() }() // a panic of the log handler has no caller to go to
		s.logGivenUp(context.Background(), "it has run out")
		return
	case s.calls > 0: // an earlier call of the store still runs, and may still save
		s.saveLater()
		s.mu.Unlock()
		return
	}
	f := s.newFlight(registry.Secret{})
	s.mu.Unlock()
	s.fly(context.Background(), f)
}

// noted gives err with a sentence in front that says that the session is not saved, where
// that is so. Without it, an inspection that failed for another reason would hide that.
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

// UnsavedSession is a session for which a Hub has given new tokens that the connection store
// has not saved. It has no secret.
type UnsavedSession struct {
	// ConnectionKey and SessionID name the session.
	ConnectionKey string
	SessionID     string
	// Since is when the Hub gave the new tokens.
	Since time.Time
	// Reason is the text of the last error of package registry when saving them. It
	// is empty for an error of the host's own store, whose text is never shown.
	Reason string
}

// Unsaved gives the sessions that are not saved, the oldest first. Normally there are none,
// so a host that monitors itself should monitor this. It does not wait for anything.
func (t *Transport) Unsaved() []UnsavedSession {
	return t.list(func(s *session) (UnsavedSession, bool) {
		u := s.unsaved
		if u == nil {
			return UnsavedSession{}, false
		}
		return UnsavedSession{ConnectionKey: s.connectionKey, SessionID: s.binding.SessionID, Since: u.since, Reason: u.reason}, true
	})
}

// list gives what say gives for each session, sorted by Since.
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

// Close ends the transport. It waits for running refreshes, tries to save every session that
// is not saved until it succeeds or ctx ends, and closes the idle connections. A host calls
// it before its process ends, with a time limit, and shows its error to the person or the
// operator: a session that is not saved then is lost with the process, and the operations
// that were sent under it cannot be inspected any more.
//
// The error names the connections and sessions and matches [ErrSessionUnsaved]. Calling
// Close again tries again. On a closed transport every other method but [Transport.Unsaved]
// is an invalid request.
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

// hasWork reports whether the session has a flight to wait for or a rotation to save.
func (s *session) hasWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flight != nil || s.unsaved != nil
}

// finish waits for the running flight, and tries to save the unsaved rotation until ctx ends.
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
