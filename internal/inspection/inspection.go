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

// Server is a server and how it is asked. It does not change after it was made.
type Server struct {
	// Name is what messages call it, such as "the Hub". Again is the sentence
	// for what can be asked again.
	Name, Again string
	// Client reaches it.
	Client *boundary.Client
	// Settings are the time limit, the repeats and the log of an inspection.
	Settings boundary.Settings
	// Code reads the server's own code of an answer other than 200; nil where
	// answers carry none.
	Code func(*boundary.Answer) feedback.Code
}

// Subject is what an inspection is about, for its errors and its log records:
// one of the two.
type Subject struct {
	// InvocationID is the original invocation.
	InvocationID string
	// RequestID goes along with every request of the inspection.
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

	retries    int    // what is left of them
	dispatched bool   // a request was handed to the network
	guarding   bool   // it waits for the guard; what for, the guard says
	waitsFor   string // what it waits for else; "" before anything
	requestID  string // what the last answer calls its request, or else what was sent as that
}

// Begin starts the time limit; End ends it. A nil server is that of a client
// that was not made as it should be.
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

// WithGuard calls f, which asks the guard for something besides tokens, with the
// caller's context within the time limit.
func (i *Inspection) WithGuard(f func(context.Context) error) error {
	i.waitForGuard()
	return f(i.ctx)
}

// waitForGuard notes that the guard is waited for, unless the end has come
// already: that was while something else was waited for.
func (i *Inspection) waitForGuard() {
	if i.ctx.Err() == nil {
		i.guarding = true
	}
}

// Ended reports that the caller's context has ended, or the time limit has
// passed.
func (i *Inspection) Ended() bool { return i.ctx.Err() != nil }

// ended says what was waited for when the inspection ended.
func (i *Inspection) ended() failures.Failure {
	if i.guarding {
		return failures.EndedDuring(i.caller, i.guard.WaitsFor())
	}
	return failures.EndedDuring(i.caller, i.waitsFor)
}

// Invalid is the error of a bad argument.
func Invalid(message string) *feedback.Error { return invalidFor("", message) }

// invalidFor is Invalid where the caller gave a valid invocation id.
func invalidFor(invocationID, message string) *feedback.Error {
	return failures.New(failures.Failure{Event: failures.BadArgument, InvocationID: invocationID, Message: message})
}

// InvalidOption is the error of a list of options: that of an option as it is;
// a nil one has none.
func InvalidOption(err error) error {
	if errors.Is(err, boundary.ErrNilOption) {
		return Invalid("An option is nil.")
	}
	return err
}

// Question is one GET.
type Question struct {
	// Step is what the failure table calls it.
	Step failures.Step
	// Path and Query are what goes on the wire after the server's base.
	Path, Query string
	// Limit is how many bytes the body of a 200 may have.
	Limit int64
	// Once says that the question is not repeated, whatever the settings are: who
	// asks does that.
	Once bool
}

// Ask gives an answer of status 200, after one forced refresh where that
// helps.
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

// answered is the failure that an answer other than 200, or none, stands for.
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

// Refused gives the error of this inspection for an error of what read the body
// of an answer of this status: a [*feedback.Error].
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

// answerTo is what an inspection waits for after a request.
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
