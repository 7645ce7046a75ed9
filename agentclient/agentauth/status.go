package agentauth

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/nilcheck"
	"github.com/bailinghub/bailinghub-go/registry"
)

// LoginStatus is what is known of the login of a connection.
type LoginStatus struct {
	// Connection is the registered connection.
	Connection registry.Connection
	// SessionID is the session of the stored login; "" where there is no login.
	SessionID string
	// EndsAt is when that session ends, according to the store; zero where there is no
	// login.
	EndsAt time.Time
	// Session is what the Hub says of the session; zero after an error.
	Session Session
}

// Status asks the Hub about the login of a connection. It deletes nothing.
//
// It first refreshes an expired access token through the store, once for all processes, as
// package host does for an inspection. A host that has a host.Transport can use the token of
// that instead: see [Client.Session]. The options are those of [New].
//
// Every error is a [*feedback.Error] of the operation status. Status also returns what it
// could read from the store before the error. The code
// [feedback.CodeAgentAuthorizationUnavailable] means that a person has to log in, or that the
// client app is disabled: the Hub gives the same answer to both.
func Status(ctx context.Context, store Store, key string, opts ...agentclient.Option) (LoginStatus, error) {
	const status = feedback.OperationStatus
	switch {
	case ctx == nil:
		return LoginStatus{}, invalid(status, "The context is nil.")
	case nilcheck.IsNil(store):
		return LoginStatus{}, invalid(status, "The store is missing.")
	}
	connection, err := store.Connection(ctx, key)
	if err != nil {
		return LoginStatus{}, storeError(ctx, status, err)
	}
	known := LoginStatus{Connection: connection}
	stored, err := store.Credentials(ctx, key)
	if err != nil {
		return known, storeError(ctx, status, err)
	}
	known.SessionID, known.EndsAt = stored.SessionID, stored.RefreshExpiresAt
	client, err := New(Config{HubURL: connection.HubURL, ClientAppID: connection.ClientAppID, Workspace: connection.Workspace, AllowInsecureHTTP: connection.AllowInsecureHTTP}, opts...)
	if err != nil {
		return known, relabel(err, status)
	}
	defer client.CloseIdleConnections()
	transport, err := host.New(store, opts...)
	if err != nil {
		return known, relabel(err, status)
	}
	start := time.Now()
	known.Session, err = client.statusOf(ctx, transport, host.Original{
		InvocationID: host.NewInvocationID(), ConnectionKey: key, Workspace: connection.Workspace, ExpectedBinding: stored.Binding(),
	})
	closing, cancel := context.WithTimeout(await.Detach(ctx), cleanupLimit)
	defer cancel()
	if transport.Close(closing) != nil {
		if err == nil {
			err = failure{operation: status, event: storeFailed}.build()
		}
		err = with(err, "The session was renewed, and the store did not save that: unless another process renewed it first, it can be used no longer and a person has to log in.", host.ErrSessionUnsaved)
	}
	client.log(ctx, status, start, err)
	return known, err
}

// statusOf asks about the session of an original. Where the token was replaced between
// reading and sending it, statusOf reads it again, once.
func (c *Client) statusOf(ctx context.Context, transport *host.Transport, original host.Original) (Session, error) {
	const status = feedback.OperationStatus
	var session Session
	var err error
	for used := ""; ; {
		token, tokenErr := transport.Token(ctx, original)
		if tokenErr != nil {
			return Session{}, ofInspection(tokenErr)
		}
		if token.AccessToken == used {
			return Session{}, err
		}
		session, err = c.session(ctx, status, token.AccessToken, original.ExpectedBinding.SessionID)
		failure, ok := errors.AsType[*feedback.Error](err)
		if !ok || failure.StatusCode != http.StatusUnauthorized || used != "" {
			return session, err
		}
		used = token.AccessToken
	}
}

// ofInspection turns an error of package host, which is about an inspection, into one of the
// operation status.
func ofInspection(err error) error {
	const status = feedback.OperationStatus
	known, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return failure{operation: status, event: storeFailed}.build()
	}
	f := failure{operation: status, status: known.StatusCode, retryAfter: known.RetryAfter, causes: known.Unwrap()}
	switch known.Feedback.Category {
	case feedback.CategoryCancelled:
		f.event = cancelled
	case feedback.CategoryTransportUnavailable:
		f.event = connectionLost
		f.message = "The login could not be renewed, because the Hub did not answer."
		if known.Feedback.Code == feedback.CodeAgentRequestTimeout {
			f.event = timedOut
		}
	case feedback.CategoryAuthorizationUnavailable:
		f.event = noLogin
		f.message = "The Hub does not renew the stored login. Either it has ended and a person has to log in, or the client app is disabled. Nothing was deleted."
		if known.Feedback.Code == feedback.CodeAgentBindingChanged {
			f.event, f.message = changed, ""
		}
	default: // the store, whose sentence says what to look at
		f.event, f.message = storeFailed, known.Feedback.Message
	}
	return f.build()
}
