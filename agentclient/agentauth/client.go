package agentauth

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
	"github.com/bailinghub/bailinghub-go/registry"
)

// DefaultDeviceLabel is the device label of a login where [Config.DeviceLabel] is empty.
const DefaultDeviceLabel = "bailinghub-go"

const (
	// maxDeviceLabel is the greatest length of a device label in UTF-16 units.
	maxDeviceLabel = 128
	// cleanupLimit is how long a failed login may take to end: to learn whether the
	// Hub has opened a session, and to end that session.
	cleanupLimit = 5 * time.Second
)

// Config has the Hub, the client app and the workspace to log in to.
type Config struct {
	// HubURL is the Hub, in any spelling that registry.NormalizeHubURL takes.
	// Required.
	HubURL string
	// ClientAppID is the client app that logs in: 2 to 64 of a-z, 0-9, _ and -,
	// the first a letter or digit. Required.
	ClientAppID string
	// Workspace is the one workspace that the login is for; it has the form of
	// ClientAppID and is never "auto". Required.
	Workspace string
	// DeviceLabel tells the person who approves where the login comes from: 1 to
	// 128 printable characters. Empty means [DefaultDeviceLabel].
	DeviceLabel string
	// AllowInsecureHTTP allows plain http to any host. Everybody between this program
	// and the Hub can then read the tokens and the code of the login.
	AllowInsecureHTTP bool
}

// descriptor gives the connection that the login is for.
func (c Config) descriptor() registry.Descriptor {
	return registry.Descriptor{HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace, AllowInsecureHTTP: c.AllowInsecureHTTP}
}

// Client logs one client app in at one Hub for one workspace. It is safe for
// concurrent use and does not change after [New]; each [Client.Begin] is a
// login of its own.
type Client struct {
	config    Config // checked, the Hub URL in normal form
	settings  boundary.Settings
	transport *boundary.Transport
	hub       *boundary.Client
}

// New checks all arguments and gives a client. It sends nothing. The options are those of
// package agentclient: the HTTP client, the time limit of each request with its repeats (15
// seconds; it does not limit the wait for a person), the number of repeats, and the logger.
// That gets one record for each login, status and logout, and one for each repeat, with
// operation, client app, workspace, code, status and duration. The errors of New match
// [feedback.CodeInvalidRequest].
func New(config Config, opts ...agentclient.Option) (*Client, error) {
	const login = feedback.OperationLogin
	settings, err := boundary.Apply(opts)
	switch {
	case errors.Is(err, boundary.ErrNilOption):
		return nil, invalid(login, "An option is nil.")
	case err != nil:
		return nil, err
	}
	hubURL, err := huburl.Normalize(config.HubURL, config.AllowInsecureHTTP)
	switch {
	case err != nil:
		return nil, invalid(login, "Config.HubURL "+err.Error()+".")
	case !identifier.ClientAppID(config.ClientAppID):
		return nil, invalid(login, "Config.ClientAppID must be 2 to 64 of a-z, 0-9, _ and -, the first a letter or digit.")
	case !identifier.Workspace(config.Workspace):
		return nil, invalid(login, "Config.Workspace must be 2 to 64 of a-z, 0-9, _ and -, the first a letter or digit, and not auto.")
	}
	config.HubURL = hubURL
	if config.DeviceLabel == "" {
		config.DeviceLabel = DefaultDeviceLabel
	}
	if !isDeviceLabel(config.DeviceLabel) {
		return nil, invalid(login, "Config.DeviceLabel must be 1 to 128 printable characters, without a space at either end.")
	}
	transport := boundary.NewTransport(settings)
	hub, err := boundary.NewClient(transport, hubURL, boundary.LoginRequests)
	if err != nil {
		return nil, invalid(login, "Config.HubURL cannot be sent to.")
	}
	return &Client{config: config, settings: settings, transport: transport, hub: hub}, nil
}

func isDeviceLabel(label string) bool {
	for _, r := range label {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return false
		}
	}
	return identifier.UTF16Len(label) <= maxDeviceLabel && !identifier.SpaceAtEnd(label)
}

// CloseIdleConnections closes the idle connections of the client's own HTTP transport. It
// leaves those of a borrowed HTTP client to the owner of that client.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// Session asks the Hub what it knows of the session of these credentials. It does not
// refresh them, so the Hub refuses an expired access token; see [Status] for a login in a
// store.
//
// Every error is a [*feedback.Error] of the operation status. A refusal is
// [feedback.CodeAgentAuthorizationUnavailable].
func (c *Client) Session(ctx context.Context, credentials registry.Credentials) (Session, error) {
	const status = feedback.OperationStatus
	if err := c.check(ctx, status, credentials); err != nil {
		return Session{}, err
	}
	start := time.Now()
	session, err := c.session(ctx, status, credentials.AccessToken.Reveal(), credentials.SessionID)
	c.log(ctx, status, start, err)
	return session, err
}

// Revoke ends the session of these credentials at the Hub, by the refresh token and by the
// access token. Afterwards no operation can be sent or inspected under the session. Give it
// the newest tokens: the Hub confirms that it has revoked any token, also an old one whose
// session then lives on. See [LogOut] for a login in a store. Revoke returns nil for a
// session that has ended already.
//
// Every error is a [*feedback.Error] of the operation logout that matches
// [ErrSessionLivesOn] where something was sent.
func (c *Client) Revoke(ctx context.Context, credentials registry.Credentials) error {
	const logout = feedback.OperationLogout
	if err := c.check(ctx, logout, credentials); err != nil {
		return err
	}
	start := time.Now()
	err := c.revoke(ctx, logout, credentials.AccessToken.Reveal(), credentials.RefreshToken.Reveal())
	c.log(ctx, logout, start, err)
	return err
}

// check returns an error for credentials that must not be sent to this client's Hub.
func (c *Client) check(ctx context.Context, operation feedback.Operation, credentials registry.Credentials) error {
	switch {
	case ctx == nil:
		return invalid(operation, "The context is nil.")
	case c == nil || c.hub == nil:
		return invalid(operation, "The client was not made by New.")
	}
	hubURL, err := huburl.Normalize(credentials.HubURL, c.config.AllowInsecureHTTP)
	if err != nil || hubURL != c.config.HubURL || credentials.ClientAppID != c.config.ClientAppID || credentials.Workspace != c.config.Workspace {
		return invalid(operation, "The credentials are for another Hub, client app or workspace than this client.")
	}
	if !identifier.BearerToken(credentials.AccessToken.Reveal()) || !identifier.BearerToken(credentials.RefreshToken.Reveal()) || !identifier.UUID(credentials.SessionID) {
		return invalid(operation, "The credentials are not complete.")
	}
	return nil
}

// question is one request of a login.
type question struct {
	step         step
	method, path string
	body         any    // sent as JSON; nil for none
	bearer       string // "" for none
	good         int    // the status that is wanted; 0 means 200
	limit        int64  // of the body of a good answer
	again        func(*boundary.Answer) bool
	sending      func()
}

// ask sends a question and gives a good answer whose body can be read, or an error of the
// operation. Where the server answered something else, it gives that answer too.
func (c *Client) ask(ctx context.Context, operation feedback.Operation, q question) (*boundary.Answer, error) {
	limited, cancel := context.WithTimeout(ctx, c.settings.Timeout)
	defer cancel()
	request := boundary.Request{
		Method: q.method, Path: q.path, Good: q.good, Limit: q.limit,
		Again: q.again, Retries: new(c.settings.MaxRetries), Sending: q.sending,
		Decisive: func(status int) bool { return status/100 == 2 || status >= 400 },
		Repeating: func(answer *boundary.Answer, wait time.Duration) {
			again := failure{operation: operation, event: connectionLost, step: q.step}
			if answer != nil {
				again = answeredBy(operation, q.step, answer)
			}
			err := again.build()
			c.record(ctx, slog.LevelInfo, "login repeats a request", operation,
				slog.String("code", string(err.Feedback.Code)), slog.Int("status", err.StatusCode), slog.Duration("wait", wait))
		},
	}
	if q.bearer != "" {
		request.Bearer = func(context.Context) (string, error) { return q.bearer, nil }
	}
	if q.body != nil {
		body, err := json.Marshal(q.body)
		if err != nil {
			return nil, failure{operation: operation}.build()
		}
		request.Body = body
	}
	answer, err := c.hub.Do(limited, request)
	if err != nil {
		return nil, c.notAnswered(ctx, operation, q.step, err)
	}
	good := http.StatusOK
	if q.good != 0 {
		good = q.good
	}
	switch {
	case answer.Status != good:
		return answer, answeredBy(operation, q.step, answer).build()
	case answer.Unusable:
		return answer, failure{operation: operation, event: badAnswer, step: q.step, status: answer.Status}.build()
	}
	return answer, nil
}

// answeredBy gives the failure of an answer that is not a good one.
func answeredBy(operation feedback.Operation, s step, answer *boundary.Answer) failure {
	f := failure{operation: operation, step: s, status: answer.Status, retryAfter: answer.RetryAfter, hubCode: hubCode(answer.Body)}
	if answer.Status/100 == 2 {
		f.event = badAnswer
	}
	return f
}

// notAnswered makes the error of a request without an answer.
func (c *Client) notAnswered(ctx context.Context, operation feedback.Operation, s step, err error) error {
	lost, isLost := errors.AsType[*boundary.LostError](err)
	switch {
	case ctx.Err() != nil:
		f := ended(ctx, operation)
		f.step = s
		return f.build()
	case isLost:
		f := failure{operation: operation, event: connectionLost, step: s, causes: lost.Causes}
		if lost.Reason != "" {
			f.message = "No whole answer came from the Hub: " + lost.Reason + "."
		}
		return f.build()
	case errors.Is(err, context.DeadlineExceeded):
		return failure{operation: operation, event: timedOut, step: s, message: "The Hub did not answer in time.", causes: []error{context.DeadlineExceeded}}.build()
	}
	return failure{operation: operation, step: s}.build()
}

// hubCode reads the code of an error body; "" where there is none.
func hubCode(body []byte) feedback.Code {
	var code string
	var isText bool
	err := strictjson.Object(body, func(name []byte, d *jsontext.Decoder) (err error) {
		if string(name) == "error" {
			code, isText, err = strictjson.String(d)
		}
		return err
	})
	if err != nil || !isText {
		return ""
	}
	return feedback.Code(code)
}

// askAgain is the again of requests that may be sent twice. It reports true after a lost
// connection, and where the Hub may be able to answer a moment later.
func askAgain(answer *boundary.Answer) bool { return answer == nil || isTransient(answer.Status) }

// revoke ends a session by each of its tokens; one of them may be "". It succeeds where the
// Hub confirms either.
func (c *Client) revoke(ctx context.Context, operation feedback.Operation, access, refresh string) error {
	by := func(q question) error {
		q.step, q.method, q.path, q.limit, q.again = revoking, http.MethodPost, boundary.RevokePath, answerLimit, askAgain
		answer, err := c.ask(ctx, operation, q)
		if err == nil && !isRevoked(answer.Body) {
			err = failure{operation: operation, event: badAnswer, step: revoking, status: answer.Status}.build()
		}
		return err
	}
	first := failure{operation: operation, event: badAnswer}.build() // for a session without any token
	var errs []error
	if refresh != "" {
		errs = append(errs, by(question{body: map[string]string{"client_app_id": c.config.ClientAppID, "refresh_token": refresh}}))
	}
	if access != "" {
		errs = append(errs, by(question{bearer: access}))
	}
	for i, err := range errs {
		if err == nil {
			return nil
		}
		if i == 0 {
			first, _ = errors.AsType[*feedback.Error](err)
		}
	}
	return with(first, "The session was not ended: it lives on at the Hub.", ErrSessionLivesOn)
}

func isRevoked(body []byte) (revoked bool) {
	err := strictjson.Object(body, func(name []byte, d *jsontext.Decoder) (err error) {
		if string(name) == "revoked" {
			revoked, _, err = strictjson.Bool(d)
		}
		return err
	})
	return revoked && err == nil
}

// giveUp ends a session that a failed login has opened, even after the caller's context has
// ended. It gives the error of the login with a sentence that says whether that worked.
func (c *Client) giveUp(ctx context.Context, access, refresh string, cause error) error {
	if access == "" && refresh == "" {
		return livesOn(cause)
	}
	ctx, cancel := context.WithTimeout(await.Detach(ctx), cleanupLimit)
	defer cancel()
	if err := c.revoke(ctx, feedback.OperationLogin, access, refresh); err != nil {
		return livesOn(cause)
	}
	return with(cause, "The session that had been opened was ended again; nothing is left of it.")
}

func livesOn(cause error) error {
	return with(cause, "The Hub may have opened a session all the same, which nobody holds and which could not be ended: it lives on there for up to 30 days, unless the business system ends it.", ErrSessionLivesOn)
}

// log writes the one record of a call.
func (c *Client) log(ctx context.Context, operation feedback.Operation, start time.Time, err error) {
	level, title := slog.LevelInfo, "login answered"
	var code feedback.Code
	status := http.StatusOK
	if known, ok := errors.AsType[*feedback.Error](err); ok {
		level, title, code, status = slog.LevelWarn, "login failed", known.Feedback.Code, known.StatusCode
	}
	c.record(ctx, level, title, operation, slog.String("code", string(code)), slog.Int("status", status), slog.Duration("duration", time.Since(start)))
}

func (c *Client) record(ctx context.Context, level slog.Level, title string, operation feedback.Operation, attrs ...slog.Attr) {
	if c.settings.Logger == nil {
		return
	}
	attrs = append([]slog.Attr{slog.String("operation", string(operation)), slog.String("client_app_id", c.config.ClientAppID), slog.String("workspace", c.config.Workspace)}, attrs...)
	c.settings.Logger.LogAttrs(ctx, level, title, attrs...)
}
