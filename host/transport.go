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
	// maxSessions is how many sessions are remembered. There may be more where
	// sessions are in use, are not saved, or have a refresh token that must not be
	// sent again for a while.
	maxSessions = 1024
	// sessionMemory is how long a session is remembered that nobody uses, and
	// sweepInterval is how often the transport forgets such sessions.
	sessionMemory = time.Hour
	sweepInterval = time.Minute
	// maxEvictionChecks is how many remembered sessions are checked, when there are
	// maxSessions and one is added, to find some that can be forgotten. Without this
	// limit, each new session would check all of them.
	maxEvictionChecks = 16
)

// Transport inspects original invocations through the connections of a store. It is safe
// for concurrent use. A host makes one at its start and closes it at its end.
type Transport struct {
	store       registry.Store
	nonBlocking bool // the store's reads never wait for anything
	settings    boundary.Settings
	shared      *boundary.Transport // for the requests of all connections

	saves  chan struct{} // has a value for each session that is being saved again
	closed atomic.Bool   // set with mu held

	mu       sync.Mutex
	sessions map[sessionKey]*session
	swept    time.Time // when sweep last checked all sessions
}

// New makes a transport that uses the host's store. The options are those of the
// low-level client, with the same defaults. One HTTP transport serves all connections, and
// another one like it serves the batches. The errors of New match
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

// Capture gives the record that a host keeps of an operation before it sends it: the
// present authorization of the connection, and the time when its session ends. It reads
// the store and sends nothing.
//
// Every error is a [*feedback.Error]. Its code is
// [feedback.CodeAgentAuthorizationUnavailable] where there is no such connection or it has
// no login.
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

// bound reads the authorization of a connection and gives it as an original without an
// invocation. It is an error of the store where the login does not belong to the
// connection.
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
		// Cut to the millisecond, as it is stored. Otherwise an original that was
		// written as JSON and read again would not be equal to itself.
		SessionEnds: credentials.RefreshExpiresAt.UTC().Truncate(time.Millisecond),
	}, nil
}

// InspectInvocation reads the receipt of an original invocation, which says what the Hub
// knows of it now, under its original authorization. It never runs, approves, resumes or
// repeats the operation, so a host may call it as often as it wants.
//
// It compares the connection and its session with original.ExpectedBinding at the
// beginning, immediately before every request, and after the answer, also after a failed
// one. A difference at any point is [feedback.CodeAgentBindingChanged], and no answer is
// given. It never tries a default, an alias, the current connection or another session
// instead.
//
// It refreshes an access token that has less than 30 seconds left or that the Hub
// refuses, once, through the store. Where the store cannot save the new tokens,
// inspections use them as long as the store shows the same binding, and this transport
// tries to save them again and again: see [ErrSessionUnsaved], [Transport.Unsaved] and
// [Transport.Close].
//
// Every error is a [*feedback.Error]. No error, whatever its code, is evidence that the
// operation did not happen. The text of a store's own error is never shown, because it
// may quote a secret: a host that wants to see it logs it in its store.
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
		s.forgetNegotiation() // the next inspection negotiates again after any failure
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

// CloseIdleConnections closes the idle connections of the transport's own HTTP transport.
// It leaves those of a borrowed HTTP client to the owner of that client. It does not end
// the transport: [Transport.Close] does.
func (t *Transport) CloseIdleConnections() { t.shared.CloseIdleConnections() }
