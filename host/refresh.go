package host

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	// lockLimit is how long a store may wait for its lock (contract, section
	// 5); a refresh has this long and the time limit of an inspection.
	lockLimit = 20 * time.Second
	// refreshLimit is how many bytes the answer to a refresh may have.
	refreshLimit = 64 << 10
	// A longer lifetime counts as this long (contract, section 6).
	maxAccessLifetime  = 31 * 24 * time.Hour
	maxRefreshLifetime = 366 * 24 * time.Hour
)

// flight is a refresh under way, for everyone who needs it.
type flight struct {
	replaces registry.Secret // the access token that it is to replace
	done     chan struct{}   // closed at its end; what follows is set by then
	sent     atomic.Bool     // the refresh token went to the Hub
	err      error
	panicked any
}

// refresh replaces an access token, unless somebody has already. All who want
// the same share one flight; whoever gives up returns at once, and the flight
// goes on and saves.
func (s *session) refresh(ctx context.Context, replaces registry.Secret, had *progress) error {
	for {
		s.mu.Lock()
		f, own := s.flight, false
		if f == nil {
			f, own = &flight{replaces: replaces, done: make(chan struct{})}, true
			s.flight = f
			go s.fly(context.WithoutCancel(ctx), f)
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.done:
		}
		if own && f.panicked != nil {
			panic(f.panicked)
		}
		if f.replaces == replaces {
			had.refreshed = had.refreshed || f.sent.Load()
			had.refreshFailed = f.err != nil
			return f.err
		}
	}
}

// fly runs one flight to its end.
func (s *session) fly(ctx context.Context, f *flight) {
	limit := s.transport.settings.Timeout
	ctx, cancel := context.WithTimeout(ctx, lockLimit+min(limit, math.MaxInt64-lockLimit))
	defer cancel()
	f.err = feedback.NewError(feedback.Failure{Event: feedback.StoreFailed})
	defer func() {
		f.panicked = recover()
		s.mu.Lock()
		s.flight = nil
		s.mu.Unlock()
		close(f.done)
	}()
	f.err = s.update(ctx, f)
}

// update rotates the credentials through the store. The store is held to its
// contract: it gets one turn, once, and none after its call has ended.
func (s *session) update(ctx context.Context, f *flight) error {
	type outcome struct {
		err     error
		rotated bool
	}
	turn, ran := make(chan struct{}, 1), make(chan outcome, 1)
	turn <- struct{}{}
	take := func() bool {
		select {
		case <-turn:
			return true
		default:
			return false
		}
	}
	_, err := await.Do(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.transport.store.UpdateCredentials(ctx, s.connectionKey, func(ctx context.Context, current registry.Credentials) (next registry.Credentials, err error) {
			if !take() {
				return current, feedback.NewError(feedback.Failure{Event: feedback.StoreFailed})
			}
			err = feedback.NewError(feedback.Failure{Event: feedback.StoreFailed}) // of a panic
			defer func() { ran <- outcome{err, err == nil && f.sent.Load()} }()
			return s.rotate(ctx, f, current)
		})
	})
	var o outcome
	if !take() { // it has begun, and has ended unless the store returned early
		select {
		case o = <-ran:
		case <-ctx.Done():
		}
	}
	switch {
	case o.err != nil:
		return o.err
	case ctx.Err() != nil:
		return feedback.NewError(feedback.Failure{Event: feedback.StoreFailed, Message: "The connection store did not answer in time, so any answer is withheld."})
	case err == nil, errors.Is(err, registry.ErrChanged):
		return nil // whoever waits reads again, and checks what is there now
	}
	failure := s.failure(err)
	if o.rotated && failure.Event == feedback.StoreFailed {
		failure.Message = "The session of " + s.connectionKey + " was renewed, but could not be saved, and is lost. A person has to log in again. " + failure.Message
	}
	return feedback.NewError(failure)
}

// rotate gives the credentials that follow current, or current itself where
// there is nothing to replace.
func (s *session) rotate(ctx context.Context, f *flight, current registry.Credentials) (registry.Credentials, error) {
	now, err := s.check(ctx, &progress{entered: true})
	if err != nil {
		return current, feedback.NewError(s.failure(err))
	}
	switch {
	case !now.Equal(current), current.AccessToken != f.replaces:
		return current, nil // somebody else was first; whoever waits reads again
	case !time.Now().Before(current.RefreshExpiresAt), s.isSpent(current.RefreshToken):
		return current, noLogin(0)
	}
	if err := ctx.Err(); err != nil {
		return current, feedback.NewError(feedback.Ended(ctx))
	}
	start := time.Now()
	f.sent.Store(true)
	answer, err := s.send(ctx, current.RefreshToken)
	if err != nil {
		return current, err
	}
	return s.accept(answer, start, current)
}

// send posts the refresh token, once. What it gives back is an answer that
// settles whether the Hub took it.
func (s *session) send(ctx context.Context, refreshToken registry.Secret) (*boundary.Answer, error) {
	// Once it is sent it has its own whole time: what the Hub says must not be
	// lost because the lock was long in coming.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.transport.settings.Timeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{
		"grant_type":    "refresh_token",
		"client_app_id": s.binding.ClientAppID,
		"refresh_token": refreshToken.Reveal(),
	})
	if err != nil {
		return nil, noLogin(0)
	}
	answer, err := s.hub.Do(ctx, boundary.Request{
		Method: http.MethodPost, Path: boundary.RefreshPath, Body: body, Limit: refreshLimit,
		Answering: func(status int) { // the Hub took or refused it, whatever becomes of the rest
			if !(feedback.Failure{Status: status}).Repeated() {
				s.spend(refreshToken)
			}
		},
	})
	if err == nil && answer.Status != http.StatusOK && (feedback.Failure{Status: answer.Status}).Repeated() {
		return nil, feedback.NewError(feedback.Failure{
			Event: feedback.ConnectionLost, Status: answer.Status, RetryAfter: answer.RetryAfter,
			Message: "The session could not be renewed, because the Hub cannot answer now. The original can be inspected again.",
		})
	}
	if lost, ok := errors.AsType[*boundary.LostError](err); ok {
		return nil, feedback.NewError(feedback.Failure{
			Event: feedback.ConnectionLost, Causes: lost.Causes,
			Message: "The session could not be renewed, because no whole answer came from the Hub. The original can be inspected again.",
		})
	}
	if err != nil {
		return nil, feedback.NewError(feedback.Failure{
			Event: feedback.TimedOut, Causes: []error{context.DeadlineExceeded},
			Message: "The session could not be renewed in time. The original can be inspected again.",
		})
	}
	return answer, nil
}

// accept takes an answer to a refresh for the credentials that follow current:
// of the same session and client, and in the form of contract section 6.
func (s *session) accept(answer *boundary.Answer, start time.Time, current registry.Credentials) (registry.Credentials, error) {
	if answer.Status != http.StatusOK {
		return current, noLogin(answer.Status)
	}
	var grant struct {
		TokenType        string `json:"token_type"`
		AccessToken      string `json:"access_token"`
		RefreshToken     string `json:"refresh_token"`
		ExpiresIn        int64  `json:"expires_in"`
		RefreshExpiresIn int64  `json:"refresh_expires_in"`
		SessionID        string `json:"session_id"`
		ClientAppID      string `json:"client_app_id"`
	}
	if err := strictjson.Unmarshal(answer.Body, &grant, strictjson.DropUnknown); err != nil || answer.Unusable ||
		grant.TokenType != "Bearer" ||
		!identifier.BearerToken(grant.AccessToken) || !identifier.BearerToken(grant.RefreshToken) ||
		grant.ExpiresIn < 1 || grant.RefreshExpiresIn < 1 ||
		!identifier.UUID(grant.SessionID) || !identifier.ClientAppID(grant.ClientAppID) {
		return current, noLogin(answer.Status)
	}
	if grant.SessionID != s.binding.SessionID || grant.ClientAppID != s.binding.ClientAppID {
		return current, feedback.NewError(s.failure(errNotOriginal))
	}
	next := current
	next.AccessToken = registry.NewSecret(grant.AccessToken)
	next.RefreshToken = registry.NewSecret(grant.RefreshToken)
	next.RefreshExpiresAt = start.Add(lifetime(grant.RefreshExpiresIn, maxRefreshLifetime))
	next.AccessExpiresAt = start.Add(lifetime(grant.ExpiresIn, maxAccessLifetime))
	// Credentials end with their refresh token: an access token that the Hub
	// lets live as long counts as a little shorter.
	if last := next.RefreshExpiresAt.Add(-time.Second); next.AccessExpiresAt.After(last) {
		next.AccessExpiresAt = last
	}
	return next, nil
}

func lifetime(seconds int64, most time.Duration) time.Duration {
	return time.Duration(min(seconds, int64(most/time.Second))) * time.Second
}

func noLogin(status int) error {
	return feedback.NewError(feedback.Failure{Event: feedback.NoAuthorization, Status: status})
}

// isSpent reports whether the Hub has already taken or refused this refresh
// token. It is not sent again: a second use would end the session for good.
func (s *session) isSpent(refreshToken registry.Secret) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent == refreshToken
}

func (s *session) spend(refreshToken registry.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = refreshToken
}
