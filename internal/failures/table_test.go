package failures_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// contractRows restates the failure table of the contract, section 4: one line
// for each way into a row, written as the page has it. The rows "x" are those
// for a HermesX server.
const contractRows = `
1  event:argument                                        invalid_request                 invalid_request            none                no
2  event:cancelled                                       agent_request_cancelled         cancelled                  none                no
3  event:timeout                                         agent_request_timeout           transport_unavailable      inspect_original    yes
4  event:binding                                         agent_binding_changed           authorization_unavailable  restore_scope       yes
5  event:login                                           agent_authorization_unavailable authorization_unavailable  reauthorize         no
6  event:store                                           unknown_failure                 unknown_failure            none                no
7  event:lost                                            agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
8  negotiation 200                                       agent_schema_unsupported        unsupported                check_compatibility no
8  negotiation 204                                       agent_schema_unsupported        unsupported                check_compatibility no
8  negotiation 299                                       agent_schema_unsupported        unsupported                check_compatibility no
8  negotiation 404                                       agent_schema_unsupported        unsupported                check_compatibility no
8  negotiation 404 route_unavailable                     agent_schema_unsupported        unsupported                check_compatibility no
8  negotiation 405 hub_paused                            agent_schema_unsupported        unsupported                check_compatibility no
8  negotiation 501 TASK_UNAVAILABLE                      agent_schema_unsupported        unsupported                check_compatibility no
8  negotiation 200 event:body                            agent_schema_unsupported        unsupported                check_compatibility no
9  negotiation 101                                       agent_invalid_response          unknown_failure            none                no
9  receipt 302 hub_paused                                agent_invalid_response          unknown_failure            none                no
9  receipt 399                                           agent_invalid_response          unknown_failure            none                no
9  receipt 206                                           agent_invalid_response          unknown_failure            none                no
10 receipt 200 event:schema                              agent_schema_unsupported        unsupported                check_compatibility no
11 receipt 200 event:body                                agent_invalid_response          unknown_failure            none                no
11a negotiation 401                                      agent_authorization_unavailable authorization_unavailable  reauthorize         no
11a receipt 401 invocation_not_found                     agent_authorization_unavailable authorization_unavailable  reauthorize         no
12 receipt 404 invocation_not_found                      =                               invocation_outcome_unknown inspect_original    no
12 receipt 503 invocation_record_invalid                 =                               invocation_outcome_unknown inspect_original    no
12 receipt 409 invocation_conflict                       =                               invocation_outcome_unknown inspect_original    no
12 receipt 409 agent_run_conflict                        =                               invocation_outcome_unknown inspect_original    no
12 receipt 409 TASK_DISPATCH_UNCERTAIN                   =                               invocation_outcome_unknown inspect_original    no
13 receipt 501 TASK_UNSUPPORTED                          =                               unsupported                check_compatibility no
13 negotiation 409 TASK_UNSUPPORTED                      =                               unsupported                check_compatibility no
14 receipt 503 TASK_UNAVAILABLE                          =                               transport_unavailable      inspect_original    yes repeated
14 receipt 403 TASK_UNAVAILABLE                          =                               transport_unavailable      inspect_original    yes repeated
15 receipt 400 TASK_INVALID_INPUT                        =                               invalid_request            none                no
16 receipt 409 TASK_REQUIRED                             =                               task_control               none                no
16 receipt 409 TASK_SCOPE_BLOCKED                        =                               task_control               none                no
16 receipt 409 TASK_MEMBER_MISMATCH                      =                               task_control               none                no
16 receipt 409 TASK_BINDING_CONFLICT                     =                               task_control               none                no
16 receipt 409 TASK_PAUSED                               =                               task_control               none                no
16 receipt 409 TASK_CANCELLED                            =                               task_control               none                no
16 receipt 409 TASK_EXPIRED                              =                               task_control               none                no
16 receipt 409 TASK_WRITE_BUDGET_EXHAUSTED               =                               task_control               none                no
16 receipt 429 TASK_CONCURRENCY_EXHAUSTED                =                               task_control               none                no
16 receipt 403 TASK_TOOL_NOT_ALLOWED                     =                               task_control               none                no
16 receipt 409 TASK_REVISION_CONFLICT                    =                               task_control               none                no
16 receipt 409 TASK_RECORD_INVALID                       =                               task_control               none                no
16 receipt 404 TASK_NOT_FOUND                            =                               task_control               none                no
16 negotiation 503 TASK_RUN_INACTIVE                     =                               task_control               none                no
17 receipt 403 route_not_allowed                         =                               authorization_unavailable  reauthorize         no
17 receipt 403 audience_not_allowed                      =                               authorization_unavailable  reauthorize         no
17 negotiation 403 agent_direct_disabled                 =                               authorization_unavailable  reauthorize         no
17 receipt 403 agent_client_disabled                     =                               authorization_unavailable  reauthorize         no
17 receipt 403                                           agent_authorization_unavailable authorization_unavailable  reauthorize         no
17 receipt 403 hub_paused                                agent_authorization_unavailable authorization_unavailable  reauthorize         no
17 receipt 403 capability_changed                        agent_authorization_unavailable authorization_unavailable  reauthorize         no
18 receipt 409 capability_changed                        =                               authorization_unavailable  reauthorize         no
18 receipt 500 capability_changed                        =                               authorization_unavailable  reauthorize         no
19 receipt 400 invalid_request                           =                               invalid_request            none                no
19 receipt 400 invalid_route                             =                               invalid_request            none                no
20 receipt 404 route_unavailable                         =                               unknown_failure            none                no
21 receipt 503 hub_paused                                =                               transport_unavailable      inspect_original    yes repeated
21 negotiation 503 agent_tools_unavailable               =                               transport_unavailable      inspect_original    yes repeated
21 receipt 409 agent_runtime_unavailable                 =                               transport_unavailable      inspect_original    yes repeated
22 receipt 408                                           agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
22 negotiation 425                                       agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
22 receipt 429 rate_limited                              agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
22 receipt 500                                           agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
22 receipt 599                                           agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
22 negotiation 503 invocation_record_invalid             agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
23 receipt 404                                           unknown_failure                 unknown_failure            none                no
23 receipt 405                                           unknown_failure                 unknown_failure            none                no
23 receipt 400 agent_request_timeout                     unknown_failure                 unknown_failure            none                no
23 receipt 409 route_not_allowed                         unknown_failure                 unknown_failure            none                no
23 receipt 409 TASK_SOMETHING_NEW                        unknown_failure                 unknown_failure            none                no
23 receipt 404 receipt_not_found                         unknown_failure                 unknown_failure            none                no
23 negotiation 409 invocation_not_found                  unknown_failure                 unknown_failure            none                no
23 receipt 600                                           unknown_failure                 unknown_failure            none                no
x  execution event:lost                                  agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  list event:lost                                       agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  execution 200 event:body                              agent_invalid_response          unknown_failure            none                no
x  list 200 event:body                                   agent_invalid_response          unknown_failure            none                no
x  list 101                                              agent_invalid_response          unknown_failure            none                no
x  execution 204                                         agent_invalid_response          unknown_failure            none                no
x  execution 307                                         agent_invalid_response          unknown_failure            none                no
x  list 400                                              invalid_request                 invalid_request            none                no
x  execution 401                                         agent_authorization_unavailable authorization_unavailable  reauthorize         no
x  list 401 hub_paused                                   agent_authorization_unavailable authorization_unavailable  reauthorize         no
x  list 403                                              agent_authorization_unavailable authorization_unavailable  reauthorize         no
x  execution 404 receipt_not_found                       =                               invocation_outcome_unknown inspect_original    no
x  execution 404                                         agent_schema_unsupported        unsupported                check_compatibility no
x  execution 403 agent_schema_unsupported                =                               unsupported                check_compatibility no
x  list 403 agent_schema_unsupported                     =                               unsupported                check_compatibility no
x  list 404                                              agent_schema_unsupported        unsupported                check_compatibility no
x  execution 405                                         agent_schema_unsupported        unsupported                check_compatibility no
x  execution 408                                         agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  list 425                                              agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  list 429                                              agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  execution 500                                         agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  list 501 TASK_UNSUPPORTED                             agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  list 599                                              agent_transport_unavailable     transport_unavailable      inspect_original    yes repeated
x  execution 409 invocation_not_found                    unknown_failure                 unknown_failure            none                no
x  list 414                                              unknown_failure                 unknown_failure            none                no
x  execution event:cancelled                             agent_request_cancelled         cancelled                  none                no
x  list event:timeout                                    agent_request_timeout           transport_unavailable      inspect_original    yes
x  list event:login                                      agent_authorization_unavailable authorization_unavailable  reauthorize         no
`

var steps = map[string]failures.Step{
	"negotiation": failures.Negotiation, "receipt": failures.Receipt,
	"execution": failures.ExecutionReceipt, "list": failures.ExecutionList,
}

var events = map[string]failures.Event{
	"argument": failures.BadArgument, "cancelled": failures.Cancelled, "timeout": failures.TimedOut,
	"binding": failures.BindingChanged, "login": failures.NoAuthorization, "store": failures.StoreFailed,
	"lost": failures.ConnectionLost, "schema": failures.UnknownSchema, "body": failures.BadBody,
}

func TestFailureTable(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(strings.TrimSpace(contractRows)) {
		fields := strings.Fields(line)
		repeated := fields[len(fields)-1] == "repeated"
		if repeated {
			fields = fields[:len(fields)-1]
		}
		n := len(fields)
		want := feedback.Feedback{
			Schema:     feedback.Schema,
			Code:       feedback.Code(fields[n-4]),
			Category:   feedback.Category(fields[n-3]),
			NextAction: feedback.NextAction(fields[n-2]),
			Retryable:  fields[n-1] == "yes",
			Origin:     feedback.OriginSDK,
			Operation:  feedback.OperationInspect,
			Dispatch:   feedback.DispatchNotDispatched,
		}
		var failure failures.Failure
		for _, word := range fields[1 : n-4] {
			switch event, isEvent := strings.CutPrefix(word, "event:"); {
			case isEvent:
				failure.Event = events[event]
			case steps[word] != failures.AnyStep:
				failure.Step = steps[word]
			case word[0] >= '0' && word[0] <= '9':
				fmt.Sscan(word, &failure.Status)
			default:
				failure.HubCode = feedback.Code(word)
			}
		}
		if want.Code == "=" {
			want.Code = failure.HubCode
		}
		if failure.Status != 0 && failure.Status/100 != 2 {
			want.Origin = feedback.OriginCore
		}
		t.Run(strings.Join(fields[:n-4], " "), func(t *testing.T) {
			t.Parallel()
			got := failures.New(failure)
			if got.Feedback.Message == "" {
				t.Error("no message")
			}
			want.Message = got.Feedback.Message
			if diff := cmp.Diff(want, got.Feedback); diff != "" {
				t.Errorf("feedback (-want +got):\n%s", diff)
			}
			if got.StatusCode != failure.Status {
				t.Errorf("status %d, want %d", got.StatusCode, failure.Status)
			}
			if failure.Repeated() != repeated {
				t.Errorf("repeated: %v, want %v", failure.Repeated(), repeated)
			}
		})
	}
}

// The body of an answer has to be read where some code in it would change what
// the answer means, and only there.
func TestCodeDecides(t *testing.T) {
	t.Parallel()
	var codes []feedback.Code
	for line := range strings.Lines(contractRows) {
		for _, word := range strings.Fields(line) {
			codes = append(codes, feedback.Code(word))
		}
	}
	for _, step := range steps {
		for status := 100; status < 600; status++ {
			plain := failures.New(failures.Failure{Step: step, Status: status})
			want := false
			for _, code := range codes {
				want = want || failures.New(failures.Failure{Step: step, Status: status, HubCode: code}).Feedback != plain.Feedback
			}
			if got := (failures.Failure{Step: step, Status: status}).CodeDecides(); got != want {
				t.Errorf("step %d, status %d: %v, want %v", step, status, got, want)
			}
		}
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user closed the window")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	expired, stop := context.WithDeadlineCause(context.Background(), time.Now().Add(-time.Second), cause)
	defer stop()
	for name, test := range map[string]struct {
		ctx       context.Context
		code      feedback.Code
		is, isNot []error
	}{
		"own limit": {context.Background(), feedback.CodeAgentRequestTimeout, []error{context.DeadlineExceeded}, []error{context.Canceled}},
		"cancelled": {cancelled, feedback.CodeAgentRequestCancelled, []error{context.Canceled, cause}, []error{context.DeadlineExceeded}},
		"deadline":  {expired, feedback.CodeAgentRequestTimeout, []error{context.DeadlineExceeded, cause}, []error{context.Canceled}},
	} {
		err := failures.New(failures.Ended(test.ctx))
		if err.Feedback.Code != test.code {
			t.Errorf("%s: %s", name, err.Feedback.Code)
		}
		for _, target := range test.is {
			if !errors.Is(err, target) {
				t.Errorf("%s: %v is not found", name, target)
			}
		}
		for _, target := range test.isNot {
			if errors.Is(err, target) {
				t.Errorf("%s: %v is found", name, target)
			}
		}
		if strings.Contains(err.Error(), cause.Error()) {
			t.Errorf("%s: the caller's cause is in the text: %s", name, err)
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, time.Minute: time.Minute, 1 << 62: feedback.MaxRetryAfter,
	} {
		if got := failures.New(failures.Failure{Status: 503, RetryAfter: given}).RetryAfter; got != want {
			t.Errorf("%v: %v, want %v", given, got, want)
		}
	}
}

// What the SDK says must never be read as leave to send the operation again,
// nor as proof that it did not happen.
func TestMessagesNeverInvite(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(strings.TrimSpace(contractRows)) {
		fields := strings.Fields(line)
		for _, event := range events {
			for _, step := range steps {
				for _, status := range []int{0, 101, 200, 204, 302, 400, 401, 403, 404, 409, 500, 501, 503} {
					for _, word := range fields {
						message := strings.ToLower(failures.New(failures.Failure{Event: event, Step: step, Status: status, HubCode: feedback.Code(word)}).Feedback.Message)
						for _, never := range []string{"resend", "send it again", "sent again", "retry", "was not executed", "did not run", "nothing happened", "safe to"} {
							if strings.Contains(message, never) {
								t.Fatalf("%q in: %s", never, message)
							}
						}
					}
				}
			}
		}
	}
}
