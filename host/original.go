package host

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/registry"
)

// Original is the host's own record of an operation that it sent: which
// invocation, and under which authorization. It comes from [Transport.Capture]
// before the operation is sent, is kept with the operation, and is never put
// together from what a model says.
//
// It holds no secret. Everything but Tool, AgentRunID and SessionEnds is
// required, nothing is defaulted or trimmed.
type Original struct {
	// InvocationID is the id of the original invocation: 64 lower-case
	// hexadecimal digits.
	InvocationID string `json:"invocation_id"`
	// ConnectionKey names the connection that the operation was sent through.
	ConnectionKey string `json:"connection_key"`
	// Workspace is the one that the operation was sent to. It is the same as
	// that of ExpectedBinding.
	Workspace string `json:"workspace"`
	// ExpectedBinding is what the connection was bound to then. An answer is
	// given only while it still is.
	ExpectedBinding registry.Binding `json:"expected_binding"`
	// Tool is the tool that the host recorded; a receipt of another one is
	// refused. Empty for no such check.
	Tool string `json:"tool,omitempty"`
	// AgentRunID is the run that the host recorded; a receipt of another one
	// is refused. Empty for no such check.
	AgentRunID string `json:"agent_run_id,omitempty"`
	// SessionEnds is when the session ends for good, in UTC: until then the
	// operation can be asked about. It is told, and not compared. Zero where it
	// is not known.
	SessionEnds time.Time `json:"session_ends,omitzero"`
}

// NewInvocationID makes the id of a new operation: 64 hexadecimal digits from
// the system's random source. The operation is captured, kept and sent under it.
func NewInvocationID() string {
	var id [32]byte
	_, _ = rand.Read(id[:]) // It never fails.
	return hex.EncodeToString(id[:])
}

// Check says what is wrong with an original that no inspection would take. The
// error is a [*feedback.Error] with [feedback.CodeInvalidRequest].
func (o Original) Check() error {
	if err := o.valid(); err != nil {
		return err
	}
	_, err := o.sessionKey()
	return err
}

// valid checks what an original says of its invocation.
func (o Original) valid() error {
	return o.firstWrong([]argument{
		{identifier.InvocationID(o.InvocationID), "invocation_id must be 64 lower-case hexadecimal digits."},
		{identifier.Workspace(o.Workspace), "workspace must be 2 to 64 of a-z, 0-9, _ and -, the first a letter or digit, and not auto."},
		{o.ExpectedBinding.Workspace == o.Workspace, "expected_binding.workspace must be the workspace of the original."},
		{o.Tool == "" || identifier.Tool(o.Tool), "tool must be 1 to 64 letters, digits and _, the first not a digit."},
		{o.AgentRunID == "" || identifier.UUID(o.AgentRunID), "agent_run_id must be a UUID of version 1 to 5."},
	})
}

// sessionKey checks what a valid original says of its authorization, and gives
// that with the Hub URL in normal form.
func (o Original) sessionKey() (sessionKey, error) {
	key := sessionKey{o.ConnectionKey, o.ExpectedBinding}
	hubURL, err := huburl.Normalize(o.ExpectedBinding.HubURL, true) // the connection says whether http is allowed
	if err != nil {
		return key, invalidFor(o.InvocationID, "expected_binding.hub_url "+err.Error()+".")
	}
	key.binding.HubURL = hubURL
	return key, o.firstWrong([]argument{
		{identifier.ConnectionKey(o.ConnectionKey), "connection_key must be conn_ and 32 lower-case hexadecimal digits."},
		{identifier.ClientAppID(o.ExpectedBinding.ClientAppID), "expected_binding.client_app_id must be 2 to 64 of a-z, 0-9, _ and -, the first a letter or digit."},
		{identifier.UUID(o.ExpectedBinding.SessionID), "expected_binding.session_id must be a UUID of version 1 to 5."},
	})
}

type argument struct {
	ok   bool
	what string
}

func (o Original) firstWrong(arguments []argument) error {
	for _, argument := range arguments {
		if !argument.ok {
			return invalidFor(o.InvocationID, argument.what)
		}
	}
	return nil
}

func invalid(message string) *feedback.Error { return invalidFor("", message) }

// invalidFor is invalid with the invocation id that the caller gave, if it is
// one.
func invalidFor(invocationID, message string) *feedback.Error {
	if !identifier.InvocationID(invocationID) {
		invocationID = ""
	}
	return failures.New(failures.Failure{Event: failures.BadArgument, InvocationID: invocationID, Message: message})
}
