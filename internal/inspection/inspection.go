package inspection

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// Server is a server that can be asked, and the settings for that. It does not change
// after it was made.
type Server struct {
	// Name names the server in messages, such as "the Hub". Again ends the message
	// of a failure after which the server can be asked again.
	Name, Again string
	// Client sends the requests to the server.
	Client *boundary.Client
	// Settings has the time limit, the number of repeats and the log of an
	// inspection.
	Settings boundary.Settings
	// Code reads the server's own code from an answer other than 200; nil where
	// answers have none.
	Code func(*boundary.Answer) feedback.Code
}

// Subject names what an inspection is about in its errors and its log records. One of
// the two fields is set.
type Subject struct {
	// InvocationID is the original invocation.
	InvocationID string
	// RequestID is sent with every request of the inspection.
	RequestID string
}

func (s Subject) attr() slog.Attr {
	if s.RequestID != "" {
		return slog.String("request_id", s.RequestID)
	}
	return slog.String("invocation_id", s.InvocationID)
}

// Inspection is one call of a client. It is for one goroutine.
type Inspection struct {
	server  *Server
	subject Subject
	guard   Guard
	start   time.Time
	// caller is the caller's context, ctx the same within the time limit.
	caller, ctx context.Context
	cancel      context.CancelFunc

	retries    int    // repeats that are still allowed
	dispatched bool   // a request was handed to the network
	guarding   bool   // it waits for the guard, whose WaitsFor says for what
	waitsFor   string // what it waits for, unless guarding; "" before the first wait
	requestID  string // the id in the last answer, or the one that was sent where no answer came
}

// Begin begins an inspection and its time limit. The caller calls End afterwards. A nil
// server belongs to a client that its constructor did not make, which is an invalid
// request.
func (s *Server) Begin(ctx context.Context, subject Subject, guard Guard) (*Inspection, error) {
	switch {
	case ctx == nil:
		return nil, invalidFor(subject.InvocationID, "The context is nil.")
	case s == nil:
		return nil, invalidFor(subject.InvocationID, "The client was not made by New.")
	}
	i := &Inspection{server: s, subject: subject, guard: guard, start: time.Now(), caller: ctx, retries: s.Settings.MaxRetries}
	i.ctx, i.cancel = context.WithTimeout(ctx, s.Settings.Timeout)
	return i, nil
}

// End releases what the inspection holds.
func (i *Inspection) End() { i.cancel() }

// WithGuard calls f, which calls a method of the guard, with the caller's context within
// the time limit. Should the inspection end meanwhile, its error says what the guard
// waited for.
func (i *Inspection) WithGuard(f func(context.Context) error) error {
	i.waitForGuard()
	return f(i.ctx)
}

// waitForGuard notes that the inspection now waits for the guard. It notes nothing after
// the end of the inspection, whose error must name what it waited for at that moment.
func (i *Inspection) waitForGuard() {
	if i.ctx.Err() == nil {
		i.guarding = true
	}
}

// Ended reports whether the caller's context has ended or the time limit has passed.
func (i *Inspection) Ended() bool { return i.ctx.Err() != nil }

// ended gives the failure of an inspection that was ended, which says what it waited
// for.
func (i *Inspection) ended() failures.Failure {
	if i.guarding {
		return failures.EndedDuring(i.caller, i.guard.WaitsFor())
	}
	return failures.EndedDuring(i.caller, i.waitsFor)
}

// Invalid makes the error of a bad argument.
func Invalid(message string) *feedback.Error { return invalidFor("", message) }

// invalidFor does what Invalid does, for an inspection of a valid invocation id.
func invalidFor(invocationID, message string) *feedback.Error {
	return failures.New(failures.Failure{Event: failures.BadArgument, InvocationID: invocationID, Message: message})
}

// InvalidOption gives the error of a list of options. It gives the error of an option as
// it is, and makes one for a nil option.
func InvalidOption(err error) error {
	if errors.Is(err, boundary.ErrNilOption) {
		return Invalid("An option is nil.")
	}
	return err
}

// Question is one GET.
type Question struct {
	// Step is the step of the failure table.
	Step failures.Step
	// Path and Query follow the server's base on the wire.
	Path, Query string
	// Limit is how many bytes the body of a 200 may have.
	Limit int64
	// Once says that Ask must not repeat the question, whatever the settings say,
	// because its caller does that.
	Once bool
}

// Ask sends the question and gives an answer of status 200. After a 401 it lets the
// guard replace the token, and sends the question again.
func (i *Inspection) Ask(q Question) (*boundary.Answer, error) {
	var used *oauth2.Token
	request := boundary.Request{
		Method:    http.MethodGet,
		Path:      q.Path,
		Query:     q.Query,
		Limit:     q.Limit,
		RequestID: i.subject.RequestID,
		Bearer: func(ctx context.Context) (token string, err error) {
			i.waitForGuard()
			if used, err = i.guard.Token(ctx); err != nil {
				return "", err
			}
			if !identifier.BearerToken(used.AccessToken) {
				return "", noToken("The token source gave an access token that cannot stand in a header: it must be the token alone, without the word Bearer and without spaces.")
			}
			return used.AccessToken, nil
		},
		Decisive: func(status int) bool { return failures.Failure{Step: q.Step, Status: status}.CodeDecides() },
		Again: func(answer *boundary.Answer) bool {
			return !q.Once && (answer == nil || answer.Status != http.StatusOK) && i.answered(q.Step, answer).Repeated()
		},
		Retries: &i.retries,
		Sending: func() {
			i.dispatched, i.requestID = true, i.subject.RequestID
			i.guarding, i.waitsFor = false, i.server.answerTo(q.Step)
		},
		Repeating: func(answer *boundary.Answer, wait time.Duration) {
			again := failures.New(i.answered(q.Step, answer))
			i.waitsFor = "the next try"
			if again.RetryAfter > 0 {
				i.waitsFor = "the end of a pause that " + i.server.Name + " asked for"
			}
			boundary.LogRepeat(i.caller, i.server.Settings.Logger, i.subject.attr(), string(again.Feedback.Code), again.StatusCode, wait)
		},
	}
	do := func() (*boundary.Answer, error) {
		answer, err := i.server.Client.Do(i.ctx, request)
		if err == nil {
			i.requestID = answer.RequestID
		}
		return answer, err
	}
	answer, err := do()
	for again := true; again && err == nil && answer.Status == http.StatusUnauthorized; {
		i.waitForGuard()
		if again, err = i.guard.Refresh(i.ctx, used); again {
			answer, err = do()
		}
	}
	if err != nil {
		return nil, i.passOn(q.Step, err)
	}
	if answer.Status != http.StatusOK {
		return nil, i.Failure(i.answered(q.Step, answer))
	}
	return answer, nil
}

// answered gives the failure of an answer other than 200, or of a missing answer.
func (i *Inspection) answered(step failures.Step, answer *boundary.Answer) failures.Failure {
	if answer == nil {
		return failures.Failure{Event: failures.ConnectionLost, Step: step}
	}
	failure := failures.Failure{Step: step, Status: answer.Status, RetryAfter: answer.RetryAfter}
	if i.server.Code != nil {
		failure.HubCode = i.server.Code(answer)
	}
	return failure
}

// Failure gives the error of this inspection for what went wrong.
func (i *Inspection) Failure(f failures.Failure) error {
	if i.ctx.Err() != nil {
		f = i.ended()
	}
	f.InvocationID, f.RequestID, f.Dispatched = i.subject.InvocationID, i.requestID, i.dispatched
	return failures.New(f)
}

// Refused gives the error of this inspection for a body that could not be used. err is
// the [*feedback.Error] of the parser, and status the status of the answer.
func (i *Inspection) Refused(err error, status int) error {
	known, ok := errors.AsType[*feedback.Error](err)
	if !ok || i.ctx.Err() != nil {
		return i.Failure(failures.Failure{})
	}
	passed := *known
	passed.RequestID = i.requestID
	passed.Feedback.InvocationID = i.subject.InvocationID
	passed.Feedback.Dispatch = feedback.DispatchNotDispatched
	if i.dispatched {
		passed.Feedback.Dispatch = feedback.DispatchAttempted
	}
	if status != 0 {
		passed.StatusCode = status
	}
	return &passed
}

// passOn gives the error of this inspection for an error of the boundary.
func (i *Inspection) passOn(step failures.Step, err error) error {
	if _, ok := errors.AsType[*feedback.Error](err); ok {
		return i.Refused(err, 0)
	}
	if lost, ok := errors.AsType[*boundary.LostError](err); ok {
		return i.Failure(failures.Failure{Event: failures.ConnectionLost, Step: step, Message: i.lostMessage(lost), Causes: lost.Causes})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return i.Failure(i.ended())
	}
	return i.Failure(failures.Failure{Step: step})
}

// answerTo names what an inspection waits for after a request, for messages.
func (s *Server) answerTo(step failures.Step) string {
	switch step {
	case failures.Negotiation:
		return "the negotiation with " + s.Name
	case failures.Receipt:
		return "the receipt from " + s.Name
	default:
		return "the answer of " + s.Name
	}
}

func (i *Inspection) lostMessage(lost *boundary.LostError) string {
	if lost.Reason == "" {
		return ""
	}
	return "No whole answer came from " + i.server.Name + ": " + lost.Reason + ". " + i.server.Again
}

// Log writes the one record of the inspection.
func (i *Inspection) Log(err error) {
	var code feedback.Code
	status := http.StatusOK
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		code, status = failure.Feedback.Code, failure.StatusCode
	}
	boundary.LogInspection(i.caller, i.server.Settings.Logger, i.start, i.subject.attr(), string(code), status)
}
