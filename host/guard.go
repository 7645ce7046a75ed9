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

// maxForcedRefreshes is how often an inspection may call Refresh of its guard after a
// 401. At most one of the calls refreshes the session; the other one only reads the store
// again.
const maxForcedRefreshes = 2

// guard checks the binding for one inspection. Before each request it reads the
// connection and its login from the store, compares both with the original binding, and
// takes the token from the same read. It refreshes the session at most once. After the
// answer it compares again.
//
// A call of the store may still run when the inspection has ended, and write to the
// guard. The fields that such a call writes are atomic.
type guard struct {
	session *session

	entered       atomic.Bool // the first check succeeded
	refreshed     atomic.Bool // the one refresh that an inspection may make was made
	refreshFailed atomic.Bool

	waiting atomic.Pointer[flight] // the flight that the inspection waits for; nil for none

	forced int           // how often Refresh was called
	fresh  *oauth2.Token // the token of Refresh, for the repeated request only

	answered   time.Time       // when the answer came
	suppressed *feedback.Error // the failure of the inspection where the check afterwards failed too, and counts more
}

var _ inspection.Guard = (*guard)(nil)

// WaitsFor implements [inspection.Guard].
func (g *guard) WaitsFor() string {
	if f := g.waiting.Load(); f != nil {
		return f.stage()
	}
	return "the connection store"
}

// Token implements [inspection.Guard]. It gives the access token of the credentials that
// it checked, and refreshes it first where it expires soon. The first call is the check
// at the beginning of the inspection.
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

// Refresh implements [inspection.Guard]. It refreshes the access token after a 401. Where
// the store has another token than the refused one by now, it only reads that. An
// inspection that has made its one refresh waits for a refresh by somebody else, in this
// process or another, and continues with the token of that.
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

// bearer gives the access token without its expiry: this package, not the engine,
// decides how long a token is used.
func bearer(credentials registry.Credentials) *oauth2.Token {
	return &oauth2.Token{
		AccessToken: credentials.AccessToken.Reveal(),
		TokenType:   "Bearer",
	}
}

// usable gives checked credentials with an access token that can be used now. It
// refreshes them first where the token expires soon.
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

// replace gives checked credentials whose access token is not the refused one.
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

// check reads the connection and its login, and gives the login only where both are still
// the original ones. A login that is missing at the first check is another failure than
// one that was removed later. Where the store still has the credentials that an unsaved
// rotation replaces, check gives those of the rotation.
func (g *guard) check(ctx context.Context) (registry.Credentials, error) {
	stored, err := g.session.stored(ctx)
	if errors.Is(err, registry.ErrNotLoggedIn) && !g.entered.Load() {
		err = errNoLogin
	}
	if err != nil {
		return registry.Credentials{}, err
	}
	g.entered.Store(true)
	return g.session.current(stored), nil
}

// checkAfter checks the binding after the answer. The error says what has changed.
func (g *guard) checkAfter(ctx context.Context) error {
	_, err := call(ctx, g.session.transport, g.check)
	return err
}

// call calls f, which reads the host's store. It returns when ctx ends, even where the
// store ignores its context; for that it calls f in another goroutine, unless the reads
// of the store never wait.
func call(ctx context.Context, t *Transport, f func(context.Context) (registry.Credentials, error)) (registry.Credentials, error) {
	if t.nonBlocking {
		return f(ctx)
	}
	return await.Do(ctx, f)
}
