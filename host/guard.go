package host

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
	"github.com/bailinghub/bailinghub-go/registry"
)

// maxForcedRefreshes is how often an inspection answers a 401 with its guard: at
// most one of them renews the session, the other one only reads again.
const maxForcedRefreshes = 2

// guard stands over one inspection. Before each request it compares the
// connection and its login in the store with the original binding, and takes the
// token from that very read; it has the session renewed at most once; and it
// compares again after the answer.
//
// A call of the store that outlives the inspection may still write to it, so
// what such a call writes is atomic.
type guard struct {
	session *session

	entered       atomic.Bool // the check at entry went well
	refreshed     atomic.Bool // the one refresh was had
	refreshFailed atomic.Bool

	reading atomic.Bool            // the store is being read, or that failed
	waiting atomic.Pointer[flight] // the flight that is waited for; nil for none

	forced int           // how often Refresh was called
	fresh  *oauth2.Token // what Refresh gave, for the repeat alone

	answered   time.Time       // when the inspection had its answer
	suppressed *feedback.Error // the inspection's failure, where a check afterwards has one of its own
}

var _ inspection.Guard = (*guard)(nil)

// WaitsFor implements [inspection.Guard].
func (g *guard) WaitsFor() string {
	if f := g.waiting.Load(); f != nil {
		return f.stage()
	}
	return "the connection store"
}

// Token implements [inspection.Guard]: the access token of the very credentials
// that were checked, renewed where it has not long to live. The first time is
// the check at entry.
func (g *guard) Token(ctx context.Context) (*oauth2.Token, error) {
	if token := g.fresh; token != nil {
		g.fresh = nil
		return token, nil
	}
	credentials, err := call(ctx, g.session.transport, g.usable)
	if err != nil {
		return nil, err
	}
	return bearer(credentials), nil
}

// Refresh implements [inspection.Guard]. It renews the access token after a 401,
// unless the refused one is not the stored one any more: then it only reads
// again. An inspection that has had its refresh waits for one that somebody else
// may have under way, in this process or another, and goes on with what that
// brings.
func (g *guard) Refresh(ctx context.Context, refused *oauth2.Token) (again bool, err error) {
	if g.forced == maxForcedRefreshes {
		return false, nil
	}
	g.forced++
	credentials, err := await.Do(ctx, func(ctx context.Context) (registry.Credentials, error) { return g.replace(ctx, refused.AccessToken) })
	if err != nil {
		return false, err
	}
	g.fresh = bearer(credentials)
	return true, nil
}

// bearer has no expiry: the session itself decides how long a token is used.
func bearer(credentials registry.Credentials) *oauth2.Token {
	return &oauth2.Token{
		AccessToken: credentials.AccessToken.Reveal(),
		TokenType:   "Bearer",
	}
}

// usable gives credentials that were checked and whose access token can be used
// now, renewed where it has not long to live.
func (g *guard) usable(ctx context.Context) (registry.Credentials, error) {
	s := g.session
	for range maxRounds {
		credentials, err := g.check(ctx)
		if err != nil {
			return registry.Credentials{}, failures.New(s.failure(err))
		}
		if g.refreshed.Load() || !s.needsRefresh(credentials) {
			return credentials, nil
		}
		if err := s.refresh(ctx, credentials.AccessToken, g); err != nil {
			return registry.Credentials{}, err
		}
	}
	return registry.Credentials{}, neverShown()
}

// replace gives checked credentials with another access token than the refused
// one.
func (g *guard) replace(ctx context.Context, refused string) (registry.Credentials, error) {
	s := g.session
	waited := false
	for range maxRounds {
		credentials, err := g.check(ctx)
		switch {
		case err != nil:
			return registry.Credentials{}, failures.New(s.failure(err))
		case credentials.AccessToken.Reveal() != refused:
			return credentials, nil
		case waited:
			return registry.Credentials{}, failures.New(failures.Failure{Status: http.StatusUnauthorized})
		case g.refreshed.Load():
			waited = true
			err = s.waitForOthers(ctx, g)
		default:
			err = s.refresh(ctx, credentials.AccessToken, g)
		}
		if err != nil {
			return registry.Credentials{}, err
		}
	}
	return registry.Credentials{}, neverShown()
}

// check reads the connection and its login and gives the login only where both
// are still the original ones. A login that is missing at entry is told apart
// from one that disappeared. Where the store shows the credentials that an
// unsaved rotation replaces, those of the rotation are given.
func (g *guard) check(ctx context.Context) (registry.Credentials, error) {
	g.reading.Store(true)
	stored, err := g.session.stored(ctx)
	if errors.Is(err, registry.ErrNotLoggedIn) && !g.entered.Load() {
		err = errNoLogin
	}
	if err != nil {
		return registry.Credentials{}, err
	}
	g.reading.Store(false)
	g.entered.Store(true)
	return g.session.current(stored), nil
}

// checkAfter is the check after the answer. The error says what has changed.
func (g *guard) checkAfter(ctx context.Context) error {
	_, err := call(ctx, g.session.transport, g.check)
	return err
}

// call calls what reads the host's store, and is not held up by a store that
// ignores its context. Where the store never waits there is no need of another
// goroutine.
func call(ctx context.Context, t *Transport, f func(context.Context) (registry.Credentials, error)) (registry.Credentials, error) {
	if t.nonBlocking {
		return f(ctx)
	}
	return await.Do(ctx, f)
}
