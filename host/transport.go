package host

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/nilcheck"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	// maxSessions is how many sessions are remembered, unless more are in use,
	// not saved, or have a refresh token that is not sent again just now.
	maxSessions = 1024
	// sessionMemory is for how long a session is remembered that nobody asks
	// for, and sweepInterval how often such are looked for.
	sessionMemory = time.Hour
	sweepInterval = time.Minute
	// maxLooks is at how many of those a new one looks to find some that can be
	// forgotten.
	maxLooks = 16
)

// Transport inspects original invocations through the connections of a store.
// It is safe for concurrent use and meant to live as long as the host.
type Transport struct {
	store       registry.Store
	nonBlocking bool // the store's reads never wait for anything
	settings    boundary.Settings
	shared      *boundary.Transport // of all connections

	saves  chan struct{} // one for each session that is being saved again
	closed atomic.Bool   // set with mu held

	mu       sync.Mutex
	sessions map[sessionKey]*session
	swept    time.Time // when sessions were last looked through
}

// New gives a transport over the host's store. The options are those of the
// low-level client, with the same defaults; one HTTP transport serves all
// connections, and another one of its kind the batches. Its errors match
// [feedback.CodeInvalidRequest].
func New(store registry.Store, opts ...agentclient.Option) (*Transport, error) {
	if nilcheck.IsNil(store) {
		return nil, invalid("The store is missing.")
	}
	settings, err := boundary.Apply(opts)
	switch {
	case errors.Is(err, boundary.ErrNilOption):
		return nil, invalid("An option is nil.")
	case err != nil:
		return nil, err
	}
	_, nonBlocking := store.(*registry.Memory)
	return &Transport{
		store:       store,
		nonBlocking: nonBlocking,
		settings:    settings,
		shared:      boundary.NewTransport(settings),
		sessions:    map[sessionKey]*session{},
		saves:       make(chan struct{}, maxSaves),
	}, nil
}

// Capture gives what to keep of an operation before it is sent: the connection
// and its session as they are bound now, and when that session ends. It reads
// the store and sends nothing.
//
// Every error is a [*feedback.Error]. A connection that is not there, or has no
// login, is [feedback.CodeAgentAuthorizationUnavailable].
func (t *Transport) Capture(ctx context.Context, connectionKey, invocationID string) (Original, error) {
	switch {
	case ctx == nil:
		return Original{}, invalidFor(invocationID, "The context is nil.")
	case t.store == nil:
		return Original{}, invalidFor(invocationID, "The transport was not made by New.")
	case t.closed.Load():
		return Original{}, invalidFor(invocationID, "The transport is closed.")
	case !identifier.ConnectionKey(connectionKey):
		return Original{}, invalidFor(invocationID, "The connection key must be conn_ and 32 lower-case hexadecimal digits.")
	case !identifier.InvocationID(invocationID):
		return Original{}, invalid("The invocation id must be 64 lower-case hexadecimal digits.")
	}
	limited, cancel := context.WithTimeout(ctx, t.settings.Timeout)
	defer cancel()
	original, err := await.Do(limited, func(ctx context.Context) (Original, error) { return bound(ctx, t.store, connectionKey) })
	if err == nil {
		original.InvocationID = invocationID
		return original, nil
	}
	failure := storeFailure(err)
	switch {
	case limited.Err() != nil:
		failure = failures.EndedDuring(ctx, "the connection store")
	case errors.Is(err, registry.ErrNotFound):
		failure.Event, failure.Message = failures.NoAuthorization, "There is no connection of this key. Register it and have a person log in."
	case errors.Is(err, registry.ErrNotLoggedIn):
		failure.Event, failure.Message = failures.NoAuthorization, "The connection has no login. A person has to log in before the operation is sent."
	}
	failure.InvocationID = invocationID
	return Original{}, failures.New(failure)
}

// bound reads what a connection and its login are bound to, as an original
// without an invocation. They agree with each other, or the store is damaged.
func bound(ctx context.Context, store registry.Store, key string) (Original, error) {
	connection, err := store.Connection(ctx, key)
	if err != nil {
		return Original{}, err
	}
	credentials, err := store.Credentials(ctx, key)
	if err != nil {
		return Original{}, err
	}
	if connection.Key != key || connection.Check(credentials) != nil {
		return Original{}, registry.ErrDamaged
	}
	binding := credentials.Binding()
	binding.HubURL, err = huburl.Normalize(binding.HubURL, connection.AllowInsecureHTTP)
	if err != nil {
		return Original{}, registry.ErrDamaged
	}
	return Original{
		ConnectionKey: key, Workspace: binding.Workspace, ExpectedBinding: binding,
		// To the millisecond, as it is stored, so that it is equal to itself after
		// a way through JSON.
		SessionEnds: credentials.RefreshExpiresAt.UTC().Truncate(time.Millisecond),
	}, nil
}

// InspectInvocation reads the receipt of an original invocation under its
// original authorization: what the Hub knows of it now. It runs, approves,
// resumes and repeats nothing, and may be called as often as wanted.
//
// Connection and session are compared with original.ExpectedBinding at the
// beginning, immediately before every request, and after the answer, a failed
// one too. A difference at any point is [feedback.CodeAgentBindingChanged], and
// no answer is given. No default, alias, current connection or other session
// is tried instead. An access token with less than 30 seconds left, or one that
// the Hub refuses, is renewed once, through the store. Where the store cannot
// save what the Hub gave, inspections go on under it while the store's reads
// show the same binding, and this transport tries to save it again and again:
// see [ErrSessionUnsaved], [Transport.Unsaved] and [Transport.Close].
//
// Every error is a [*feedback.Error], and none of them, whatever its code, is
// evidence that the operation did not happen. What a store's own error says
// goes no further, because it may quote a secret: a host that wants to see it
// logs it in its store.
func (t *Transport) InspectInvocation(ctx context.Context, original Original) (*receipt.Receipt, error) {
	switch {
	case ctx == nil:
		return nil, invalidFor(original.InvocationID, "The context is nil.")
	case t.store == nil:
		return nil, invalidFor(original.InvocationID, "The transport was not made by New.")
	}
	if err := original.valid(); err != nil {
		return nil, err
	}
	s, err := t.session(original)
	if err != nil {
		return nil, err
	}
	defer t.release(s)
	start := time.Now()
	observed, err := inspect(ctx, s.hub.Load(), &guard{session: s}, original)
	if err != nil {
		s.forgetNegotiation() // any failure ends the reuse of a negotiation
	}
	t.logInspection(ctx, start, original.InvocationID, err)
	return observed, err
}

func (t *Transport) logInspection(ctx context.Context, start time.Time, invocationID string, err error) {
	var code feedback.Code
	status := http.StatusOK
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		code, status = failure.Feedback.Code, failure.StatusCode
	}
	boundary.LogInspection(ctx, t.settings.Logger, start, slog.String("invocation_id", invocationID), string(code), status)
}

// CloseIdleConnections closes the idle connections of the transport's own HTTP
// transport. That of a borrowed HTTP client is its owner's to close. It ends
// nothing: what ends a transport is [Transport.Close].
func (t *Transport) CloseIdleConnections() { t.shared.CloseIdleConnections() }
