package agentauth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// ErrSessionLivesOn says that the Hub has, or may have, a session that could not be ended
// and whose tokens nobody on this side has, so that nobody can use it. It ends by itself 30
// days after the login at the latest. The business system where the person approved it can
// end it earlier.
var ErrSessionLivesOn = errors.New("agentauth: a session that nobody holds may live on at the Hub")

// failure describes one failure as the code that met it saw it.
type failure struct {
	operation  feedback.Operation
	event      event
	step       step
	status     int           // of the deciding answer; 0 without one
	hubCode    feedback.Code // in that answer; "" without one
	retryAfter time.Duration
	causes     []error
	message    string // replaces that of the table
}

// event is what happened.
type event int

const (
	answered       event = iota // the Hub answered, and its answer decides
	badArgument                 // nothing was sent
	cancelled                   // by the caller
	timedOut                    // the time limit, or the caller's deadline
	expired                     // nobody decided about the login in time
	denied                      // somebody decided against it
	closed                      // the program closed the login
	noCode                      // the browser came back without a code
	noListener                  // no port for the callback could be opened
	storeFailed                 // the store of logins failed
	noLogin                     // the store has no usable login
	changed                     // the stored login was replaced or removed meanwhile
	connectionLost              // the answer did not come, or not all of it
	badAnswer                   // the answer is not what was asked for
	otherSession                // the answer is about another session or client
	noWorkspace                 // the session does not cover the workspace
	notChecked                  // the Hub gave an address that must not be opened
)

// step is the request that an event belongs to.
type step int

const (
	anyStep    step = iota
	starting        // POST authorizations
	exchanging      // POST token
	reading         // GET session
	revoking        // POST revoke
)

// row is one line of the table. A row without an operation, a step, statuses or hubCodes
// fits every value of them. A code of "" means the code of the Hub's answer. A next action
// of "" means that the same can be done again: for a login, by a person who begins another
// one; for anything else, by the caller.
type row struct {
	event      event
	operation  feedback.Operation
	step       step
	statuses   []span
	hubCodes   []feedback.Code
	code       feedback.Code
	category   feedback.Category
	nextAction feedback.NextAction
	message    string
}

type span struct{ from, to int }

const asTheHubSays feedback.Code = ""

var transient = []span{{408, 408}, {425, 425}, {429, 429}, {500, 599}}

// failures says what the failures of a login mean: the first row that fits
// decides.
var collected = []row{
	{event: badArgument,
		code: feedback.CodeInvalidRequest, category: feedback.CategoryInvalidRequest, nextAction: feedback.NextNone,
		message: "An argument is not valid, so nothing was sent."},
	{event: cancelled,
		code: feedback.CodeAgentRequestCancelled, category: feedback.CategoryCancelled, nextAction: feedback.NextNone,
		message: "It was cancelled by its caller."},
	{event: closed,
		code: feedback.CodeAgentRequestCancelled, category: feedback.CategoryCancelled, nextAction: feedback.NextNone,
		message: "The login was closed before anybody had decided."},
	{event: timedOut,
		code: feedback.CodeAgentRequestTimeout, category: feedback.CategoryTransportUnavailable,
		message: "It ran out of time."},
	{event: expired,
		code: feedback.CodeLoginExpired, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "Nobody approved or refused the login in time, and its address is no longer good. Begin another login."},
	{event: denied,
		code: feedback.CodeAccessDenied, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The login was refused at the page where it was to be approved."},
	{event: noCode,
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The browser came back from the right page without a usable code, so the login has ended. Begin another one; if this repeats, tell whoever runs the page."},
	{event: noListener,
		code: feedback.CodeUnknownFailure, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "There is no port of this machine to wait for the browser at."},
	{event: storeFailed,
		code: feedback.CodeUnknownFailure, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The store of logins failed."},
	{event: noLogin,
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The connection has no login. A person has to log in."},
	{event: changed,
		code: feedback.CodeAgentBindingChanged, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextNone,
		message: "The stored login was replaced or removed in the meantime. Look at what is there now."},
	{event: notChecked, step: starting,
		code: feedback.CodeAgentAuthorizeURLInvalid, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextNone,
		message: "The Hub gave an address to log in at that must not be opened in a browser: it has to be https, or http to this machine. Ask the Hub's administrator to correct the page of the client app."},
	{event: connectionLost,
		code: feedback.CodeAgentTransportUnavailable, category: feedback.CategoryTransportUnavailable,
		message: "The Hub could not be reached, or the connection was lost before the whole answer came."},
	{event: otherSession,
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub speaks of another session or client app than that of this login, so it is not used."},
	{event: noWorkspace,
		code: feedback.CodeRouteNotAllowed, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The session does not cover the workspace that was asked for. Log in again and approve that workspace, or ask the business system's administrator."},
	{event: badAnswer, step: starting,
		code: feedback.CodeAgentSchemaUnsupported, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "What is at the Hub's address did not begin a login in the form that this SDK knows. Check the address, and the versions of Hub and SDK."},
	{event: badAnswer,
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub's answer is not what was asked for, so it is not used."},
	{step: starting, hubCodes: []feedback.Code{feedback.CodeInvalidClient},
		code: asTheHubSays, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextNone,
		message: "The Hub begins no login for this client app and workspace: the client app is unknown or disabled, has no page to log in at, or may not use the workspace. Check both names, or ask the Hub's administrator."},
	{step: starting, hubCodes: []feedback.Code{feedback.CodeAgentAuthorizeURLInvalid},
		code: asTheHubSays, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextNone,
		message: "The page to log in at that the Hub has for this client app is not one that it may send people to. Ask the Hub's administrator to correct it."},
	{step: starting, statuses: []span{{429, 429}},
		code: feedback.CodeRateLimited, category: feedback.CategoryTransportUnavailable,
		message: "Too many logins of this client app were begun within a minute. Wait a minute and begin another one."},
	{hubCodes: []feedback.Code{feedback.CodeAgentAuthUnavailable},
		code: asTheHubSays, category: feedback.CategoryTransportUnavailable,
		message: "The Hub cannot keep logins now."},
	{step: exchanging, hubCodes: []feedback.Code{feedback.CodeInvalidGrant},
		code: asTheHubSays, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The Hub does not take the code that the browser brought: it came too late, was used already, or the client app was disabled meanwhile. Begin another login."},
	{step: reading, operation: feedback.OperationLogin, statuses: []span{{401, 401}},
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The Hub gave a session and does not accept it. The client app may be disabled, or the Hub cannot keep logins now."},
	{step: reading, statuses: []span{{401, 401}},
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextReauthorize,
		message: "The Hub does not accept the stored login. Either it has ended and a person has to log in, or the client app is disabled, or the Hub cannot keep logins now. Nothing was deleted."},
	{statuses: []span{{403, 403}},
		code: feedback.CodeAgentAuthorizationUnavailable, category: feedback.CategoryAuthorizationUnavailable, nextAction: feedback.NextNone,
		message: "Something at the Hub's address does not allow this. Ask the Hub's administrator."},
	{hubCodes: []feedback.Code{feedback.CodeInvalidRequest},
		code: asTheHubSays, category: feedback.CategoryInvalidRequest, nextAction: feedback.NextNone,
		message: "The Hub does not accept the request. Check the names of client app and workspace, the device label, and the versions of Hub and SDK."},
	{statuses: []span{{404, 405}, {501, 501}},
		code: feedback.CodeAgentSchemaUnsupported, category: feedback.CategoryUnsupported, nextAction: feedback.NextCheckCompatibility,
		message: "What is at the Hub's address does not know logins. Check the address, and the versions of Hub and SDK."},
	{statuses: transient,
		code: feedback.CodeAgentTransportUnavailable, category: feedback.CategoryTransportUnavailable,
		message: "The Hub cannot answer now."},
	{statuses: []span{{100, 399}},
		code: feedback.CodeAgentInvalidResponse, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub's answer has a status that was not asked for (a redirect, for example, which was not followed), so it is not used."},
	{
		code: feedback.CodeUnknownFailure, category: feedback.CategoryUnknownFailure, nextAction: feedback.NextNone,
		message: "The Hub refused, for a reason that this SDK does not know."},
}

func (r *row) fits(f failure) bool {
	return r.event == f.event &&
		(r.operation == "" || r.operation == f.operation) &&
		(r.step == anyStep || r.step == f.step) &&
		(r.statuses == nil || slices.ContainsFunc(r.statuses, func(s span) bool { return s.from <= f.status && f.status <= s.to })) &&
		(r.hubCodes == nil || slices.Contains(r.hubCodes, f.hubCode))
}

// row gives the first row that fits. The last row fits every answer.
func (f failure) row() *row {
	for i := range collected {
		if collected[i].fits(f) {
			return &collected[i]
		}
	}
	return &collected[len(collected)-1]
}

// isTransient reports whether the Hub may give another answer than one of this status a
// moment later.
func isTransient(status int) bool {
	return slices.ContainsFunc(transient, func(s span) bool { return s.from <= status && status <= s.to })
}

// build makes the error of the failure by the table.
func (f failure) build() *feedback.Error {
	decided := f.row()
	account := feedback.Feedback{
		Category:   decided.category,
		Code:       cmp.Or(decided.code, f.hubCode),
		Origin:     feedback.OriginSDK,
		Operation:  f.operation,
		Dispatch:   feedback.DispatchNotDispatched,
		NextAction: decided.nextAction,
		Message:    cmp.Or(f.message, decided.message),
	}
	if account.NextAction == "" {
		account.NextAction = feedback.NextNone
		if f.operation == feedback.OperationLogin {
			account.NextAction, account.Retryable = feedback.NextReauthorize, true
		}
	}
	if f.status != 0 && (f.status < 200 || f.status > 299) {
		account.Origin = feedback.OriginCore
	}
	if f.step != anyStep {
		account.Dispatch = feedback.DispatchAttempted
	}
	err := failures.Build(account, f.causes...)
	err.StatusCode = f.status
	err.RetryAfter = min(max(f.retryAfter, 0), feedback.MaxRetryAfter)
	return err
}

// invalid makes the error of a bad argument.
func invalid(operation feedback.Operation, message string) error {
	return failure{operation: operation, event: badArgument, message: message}.build()
}

// ended gives the failure of a call that was ended by its context or, while that goes on,
// by the time limit of the client.
func ended(ctx context.Context, operation feedback.Operation) failure {
	switch err := ctx.Err(); {
	case err == nil:
		return failure{operation: operation, event: timedOut, causes: []error{context.DeadlineExceeded}}
	case errors.Is(err, context.DeadlineExceeded):
		return failure{operation: operation, event: timedOut, causes: []error{err, context.Cause(ctx)}}
	default:
		return failure{operation: operation, event: cancelled, causes: []error{err, context.Cause(ctx)}}
	}
}

// with gives a copy of an error of this package with another sentence in its message, which
// also matches causes.
func with(err error, message string, causes ...error) error {
	known, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return err
	}
	account := known.Feedback
	account.Message = bothMessage(account.Message, message)
	added := failures.Build(account, append(slices.Clone(known.Unwrap()), causes...)...)
	added.StatusCode, added.RetryAfter = known.StatusCode, known.RetryAfter
	return added
}

func bothMessage(first, message string) string { return first + " " + message }
