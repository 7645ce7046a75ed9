package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/grant"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	// lockLimit is how long a store may wait for its lock (contract, section 5). A
	// flight waits for this and the time limit of an inspection until its update
	// begins.
	lockLimit = 20 * time.Second
	// saveLimit is how long a flight waits until its tokens are saved.
	saveLimit = registry.SaveLimit + 5*time.Second
	// refusalMemory is how long a refresh token that the Hub did not exchange is not
	// sent again (contract, section 6).
	refusalMemory = time.Minute
	// maxExchanged is how many exchanged refresh tokens of a session are remembered,
	// so that none is sent twice. Where the store shows an even older one, as after
	// the restore of a backup, the session is lost anyway.
	maxExchanged = 8
)

// flight is one call of the store's UpdateCredentials, which all inspections share that
// need its result. It saves the rotation that is not saved yet, if there is one. Else it
// exchanges the refresh token at the Hub, if it has an access token to replace.
type flight struct {
	session  *session
	replaces registry.Secret // the access token to replace; empty in a flight that sends nothing
	done     chan struct{}   // closed at the end, when err and panicked are set
	err      error
	panicked any

	step     atomic.Int32
	sent     atomic.Bool // the refresh token was sent to the Hub
	patience patience

	// The following fields are guarded by the session's mu.
	landed   bool      // the flight has ended: nothing is waited for any more
	rotation *rotation // the rotation to save; nil for none
	outcome  outcome   // of the rotation
	unsynced bool      // the rotation is saved, but may not outlast a power failure
	reason   string    // why the rotation is not saved, safe to show
	record   *exchange // nil where nothing was sent
}

// The steps of a flight, which the error of a caller that stops waiting names.
const (
	stepLock int32 = iota
	stepStore
	stepHub
	stepSave
)

// exchange is the log record of one refresh token that was sent to the Hub.
type exchange struct {
	took time.Duration
	err  error
}

// refusal is the outcome of a refresh token that the Hub did not exchange.
type refusal struct {
	refreshToken registry.Secret
	until        time.Time // the token is not sent again before that
	err          error
}

// stage names what the flight waits for, for messages.
func (f *flight) stage() string {
	switch f.step.Load() {
	case stepLock:
		if store, ok := f.session.transport.store.(registry.LockReporter); ok {
			return store.UpdateLock(f.session.connectionKey)
		}
		return "the connection store's exclusion of other updates of the session"
	case stepHub:
		return "the Hub's answer to the renewal of the session"
	case stepSave:
		return "the connection store to save the renewed session"
	default:
		return "the connection store"
	}
}

// refresh replaces an access token, unless somebody else has done so already. All
// inspections that want to replace the same token share one flight. An inspection whose
// context ends returns at once; the flight goes on and saves its tokens.
func (s *session) refresh(ctx context.Context, replaces registry.Secret, g *guard) error {
	for {
		f, err := s.join(ctx, replaces, g)
		if err != nil {
			return err
		}
		if f.replaces == replaces {
			if f.sent.Load() {
				g.refreshed.Store(true)
			}
			g.refreshFailed.Store(f.err != nil)
			return f.err
		}
	}
}

// waitForOthers waits until every refresh of the session that began before has ended, in
// this process and every other. It sends nothing.
func (s *session) waitForOthers(ctx context.Context, g *guard) error {
	f, err := s.join(ctx, registry.Secret{}, g)
	if err != nil {
		return err
	}
	if f.replaces == (registry.Secret{}) {
		return f.err
	}
	return nil // the caller reads from the store how the refresh ended
}

// join waits for the running flight. Where there is none, it starts one.
func (s *session) join(ctx context.Context, replaces registry.Secret, g *guard) (*flight, error) {
	f, own := s.take(replaces)
	if f == nil {
		return nil, invalid("The transport is closed.")
	}
	if own {
		go s.fly(await.Detach(ctx), f)
	}
	g.waiting.Store(f)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.done:
	}
	g.waiting.Store(nil)
	if own && f.panicked != nil {
		panic(f.panicked)
	}
	return f, nil
}

// take gives the running flight. Where there is none, it makes one, own is true and the
// caller has to run it. It gives nil for a transport that is closed.
func (s *session) take(replaces registry.Secret) (f *flight, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.flight != nil:
		return s.flight, false
	case s.transport.closed.Load() && (s.unsaved == nil || replaces != registry.Secret{}):
		return nil, false
	}
	return s.newFlight(replaces), true
}

// newFlight makes the flight of a session that has none. The caller holds s.mu.
func (s *session) newFlight(replaces registry.Secret) *flight {
	s.flight = &flight{session: s, replaces: replaces, done: make(chan struct{})}
	return s.flight
}

// fly runs one flight to its end.
func (s *session) fly(ctx context.Context, f *flight) {
	f.err = failures.New(failures.Failure{Event: failures.StoreFailed})
	defer close(f.done)
	defer func() { // the log handler of the host may panic
		if value := recover(); value != nil && f.panicked == nil {
			f.panicked = value
		}
	}()
	defer func() {
		f.panicked = recover()
		s.land(f)(ctx)
	}()
	f.err = s.update(ctx, f)
}

// update calls the store's UpdateCredentials for the flight. Whatever the store does, the
// refresh token is used at most once: the store's first call of the function is the only
// one that does anything, and only before UpdateCredentials has returned or was given up.
func (s *session) update(ctx context.Context, f *flight) error {
	limit := sum(lockLimit, s.transport.settings.Timeout)
	wait, giveUp := context.WithCancel(ctx)
	defer giveUp()
	f.patience.begin(limit, giveUp)
	defer f.patience.end()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	turn, ran := make(chan struct{}, 1), make(chan error, 1)
	turn <- struct{}{}
	takeTurn := func() bool {
		select {
		case <-turn:
			return true
		default:
			return false
		}
	}
	_, err := await.Do(wait, func(context.Context) (struct{}, error) {
		defer s.countCall()()
		return struct{}{}, s.transport.store.UpdateCredentials(ctx, s.connectionKey, func(ctx context.Context, current registry.Credentials) (next registry.Credentials, err error) {
			if !takeTurn() {
				return current, failures.New(failures.Failure{Event: failures.StoreFailed})
			}
			err = failures.New(failures.Failure{Event: failures.StoreFailed}) // stays where rotate panics
			defer func() { ran <- err }()
			f.step.Store(stepStore)
			next, err = s.rotate(ctx, f, current)
			f.step.Store(stepSave)
			return next, err
		})
	})
	var refused error
	if !takeTurn() { // the function was called; it may still run where the store returned early
		select {
		case refused = <-ran:
		case <-wait.Done():
		}
	}
	if refused != nil {
		return refused
	}
	if wait.Err() != nil {
		err = failures.New(failures.Failure{Event: failures.StoreFailed,
			Message: "The connection store did not answer in time, so any answer is withheld. What was waited for: " + f.stage() + "."})
	}
	if s.judge(f, err) || err == nil || errors.Is(err, registry.ErrChanged) {
		return nil // the inspections that wait read the store again, and check what it has
	}
	if _, own := errors.AsType[*feedback.Error](err); own {
		return err
	}
	failure := s.failure(err)
	if ctx.Err() != nil { // the time limit of the flight is not a deadline of any caller
		failure.Causes = sentinelsOf(err)
	}
	return failures.New(failure)
}

// sum adds two durations, and gives the greatest Duration where that overflows.
func sum(a, b time.Duration) time.Duration { return a + min(b, math.MaxInt64-a) }

// countCall counts a call of the store's UpdateCredentials until returned is called.
func (s *session) countCall() (returned func()) {
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls += n
	}
	count(1)
	return func() { count(-1) }
}

// patience is a time limit that can be extended: how long a flight waits for its store.
// The zero value is ready for use.
type patience struct {
	mu    sync.Mutex
	timer *time.Timer
	until time.Time
	over  bool
}

func (p *patience) begin(limit time.Duration, giveUp func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(limit)
	p.timer = time.AfterFunc(limit, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !time.Now().Before(p.until) { // else extend has just set a later time
			p.over = true
			giveUp()
		}
	})
}

// extend sets the limit to this long from now. It reports false, and does nothing, where
// the limit had passed already.
func (p *patience) extend(limit time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.until = time.Now().Add(limit)
	p.timer.Reset(limit)
	return true
}

// end stops the timer. The limit counts as passed from then on.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
}

// rotate is the function that the store calls in UpdateCredentials. It gives the
// credentials to store in place of current, or current itself where nothing has to be
// replaced.
func (s *session) rotate(ctx context.Context, f *flight, current registry.Credentials) (registry.Credentials, error) {
	if next, ok := s.saveAgain(f, current); ok {
		return next, nil
	}
	now, err := s.stored(ctx)
	if err != nil {
		return current, failures.New(s.failure(err))
	}
	if !now.Equal(current) || current.AccessToken != f.replaces {
		return current, nil // somebody else has replaced it; the inspections that wait read that
	}
	if err := s.maySend(current); err != nil {
		return current, err
	}
	if err := ctx.Err(); err != nil {
		return current, failures.New(failures.Ended(ctx))
	}
	// The exchange gets the whole time limit from now on. Otherwise a flight that
	// waited long for the lock could give up after sending the refresh token, and
	// lose the new tokens.
	if !f.patience.extend(sum(saveLimit, s.transport.settings.Timeout)) {
		return current, failures.New(failures.Failure{Event: failures.StoreFailed})
	}
	start := time.Now()
	f.step.Store(stepHub)
	f.sent.Store(true)
	answer, refused, err := s.send(ctx, current.RefreshToken)
	next := current
	if err == nil {
		next, err = s.accept(answer, start, current)
	}
	f.patience.extend(saveLimit)
	s.exchangedAt(f, start, current, next, refused, err)
	return next, err
}

// maySend returns an error where a refresh token must not be sent.
func (s *session) maySend(current registry.Credentials) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case !now.Before(current.RefreshExpiresAt):
		return noLogin(0, "The original session has ended: its refresh token has run out. A new login is another session, which does not read this operation.")
	case slices.Contains(s.exchanged, hashOf(current.RefreshToken)):
		return noLogin(0, "The connection store shows a login whose refresh token this process has exchanged already, and not the one that followed it, so the session is lost. A person has to log in again; a new login is another session, which does not read this operation.")
	case current.RefreshToken == s.refused.refreshToken && now.Before(s.refused.until):
		return s.refused.err
	}
	return nil
}

func hashOf(token registry.Secret) [sha256.Size]byte { return sha256.Sum256([]byte(token.Reveal())) }

// exchangedAt records the outcome of a refresh token that was sent. refused says that the
// Hub gave an answer after which the token must not be sent again for refusalMemory.
//
// Where the flight was given up before, as after a suspension of the process, nobody waits
// for its rotation any more: then the session keeps it as unsaved.
func (s *session) exchangedAt(f *flight, start time.Time, current, next registry.Credentials, refused bool, err error) {
	if s.recordExchange(f, start, current, next, refused, err) {
		s.logUnsaved(context.Background(), "")
	}
}

func (s *session) recordExchange(f *flight, start time.Time, current, next registry.Credentials, refused bool, err error) (late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	f.record = &exchange{took: now.Sub(start), err: err}
	switch {
	case err == nil:
		s.exchanged = append(s.exchanged[max(0, len(s.exchanged)-maxExchanged+1):], hashOf(current.RefreshToken))
		s.refused = refusal{}
		s.short = next.AccessExpiresAt.Sub(now) < refreshMargin
		f.rotation = &rotation{replaced: current, next: next, since: now}
		if f.landed {
			s.unsaved = &unsaved{rotation: *f.rotation}
			s.saveLater()
			return true
		}
	case refused:
		s.refused = refusal{current.RefreshToken, now.Add(refusalMemory), err}
	}
	return false
}

// send posts the refresh token, once. It gives the answer, which accept decides about, or
// an error where there is none or the Hub cannot answer now. refused says that the Hub
// answered with a status after which the same token must not be sent again at once, even
// where the rest of the answer was lost.
func (s *session) send(ctx context.Context, refreshToken registry.Secret) (answer *boundary.Answer, refused bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.transport.settings.Timeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{
		"grant_type":    "refresh_token",
		"client_app_id": s.binding.ClientAppID,
		"refresh_token": refreshToken.Reveal(),
	})
	if err != nil {
		return nil, false, noLogin(0, "")
	}
	var answered atomic.Bool
	answer, err = s.client.Do(ctx, boundary.Request{
		Method: http.MethodPost, Path: boundary.RefreshPath, Body: body, Limit: grant.Limit,
		Decisive: func(int) bool { return true },
		Answering: func(status int) { // called even where the rest of the answer is lost
			answered.Store(!(failures.Failure{Status: status}).Repeated())
		},
	})
	refused = answered.Load()
	if err == nil && answer.Status != http.StatusOK && (failures.Failure{Status: answer.Status}).Repeated() {
		return nil, refused, failures.New(failures.Failure{
			Event: failures.ConnectionLost, Status: answer.Status, RetryAfter: answer.RetryAfter,
			Message: "The session could not be renewed, because the Hub cannot answer now. The original can be inspected again.",
		})
	}
	if lost, ok := errors.AsType[*boundary.LostError](err); ok {
		reason := ""
		if lost.Reason != "" {
			reason = ": " + lost.Reason
		}
		return nil, refused, failures.New(failures.Failure{
			Event: failures.ConnectionLost, Causes: lost.Causes,
			Message: "The session could not be renewed, because no whole answer came from the Hub" + reason + ". The original can be inspected again.",
		})
	}
	if err != nil {
		return nil, refused, failures.New(failures.Failure{
			Event: failures.TimedOut, Causes: []error{context.DeadlineExceeded},
			Message: "The session could not be renewed in time: the Hub did not answer. The original can be inspected again.",
		})
	}
	return answer, refused, nil
}

// accept gives the credentials that follow current from the answer to a refresh. The
// answer must have the form of the contract, section 6, and the same session and client
// app as current.
func (s *session) accept(answer *boundary.Answer, start time.Time, current registry.Credentials) (registry.Credentials, error) {
	if answer.Status != http.StatusOK {
		return current, refusedBy(answer)
	}
	given, ok := grant.Parse(answer.Body)
	if !ok {
		return current, refusedBy(answer)
	}
	if given.SessionID != s.binding.SessionID || given.ClientAppID != s.binding.ClientAppID {
		return current, failures.New(s.failure(errNotOriginal))
	}
	next := current
	next.AccessToken = registry.NewSecret(given.AccessToken)
	next.RefreshToken = registry.NewSecret(given.RefreshToken)
	next.AccessExpiresAt, next.RefreshExpiresAt = given.Expiries(start)
	return next, nil
}

// refusedBy gives the error of an answer that gives no tokens, with a status that does not
// mean that the Hub cannot answer now.
func refusedBy(answer *boundary.Answer) error {
	switch {
	case answer.Unusable || !isHubs(answer):
		return noLogin(answer.Status, "The session could not be renewed: the answer is not one of a Hub, so something in front of it (a proxy, a firewall, the start page of a network) may have given it. The login was not changed; it is tried again in a minute at the earliest.")
	case answer.Status == http.StatusOK:
		return noLogin(answer.Status, "The session could not be renewed: the answer is not one that a Hub gives to a renewal. It is tried again in a minute at the earliest.")
	}
	return noLogin(answer.Status, "The Hub refused to renew the original session. Its client app may be disabled, the session may have ended, or a process that shared this connection store ended before it could save a renewed session. It is tried again in a minute at the earliest; else a person has to restore its access. A new login is another session, which does not read this operation.")
}

// isHubs reports whether an answer has the form of every answer of a Hub: one JSON object,
// which has a code where it refuses something.
func isHubs(answer *boundary.Answer) bool {
	var refusal struct {
		Error string `json:"error"`
	}
	err := strictjson.Unmarshal(answer.Body, &refusal, strictjson.DropUnknown)
	return err == nil && (refusal.Error != "" || answer.Status == http.StatusOK)
}

func noLogin(status int, message string) error {
	return failures.New(failures.Failure{Event: failures.NoAuthorization, Status: status, Message: message})
}
