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

// Original is the host's own record of an operation that it sent: its invocation, and
// the authorization under which it was sent. The host gets it from [Transport.Capture]
// before it sends the operation, and keeps it with the operation. It must never make one
// from what a model says.
//
// An Original holds no secret. All fields but Tool, AgentRunID and SessionEnds are
// required; no field has a default, and nothing is trimmed.
type Original struct {
	// InvocationID is the id of the original invocation: 64 lower-case
	// hexadecimal digits.
	InvocationID string `json:"invocation_id"`
	// ConnectionKey names the connection that the operation was sent through.
	ConnectionKey string `json:"connection_key"`
	// Workspace is the workspace that the operation was sent to. It must equal the
	// workspace of ExpectedBinding.
	Workspace string `json:"workspace"`
	// ExpectedBinding is the authorization that the connection had when the
	// operation was sent. An inspection gives an answer only while the connection
	// still has it.
	ExpectedBinding registry.Binding `json:"expected_binding"`
	// Tool is the tool that the host recorded. An inspection refuses a receipt of
	// another tool. Empty for no such check.
	Tool string `json:"tool,omitempty"`
	// AgentRunID is the run that the host recorded. An inspection refuses a receipt
	// of another run. Empty for no such check.
	AgentRunID string `json:"agent_run_id,omitempty"`
	// SessionEnds is when the session ends for good, in UTC. After that the
	// operation cannot be inspected any more. It is for the host to know; an
	// inspection does not compare it. Zero where it is not known.
	SessionEnds time.Time `json:"session_ends,omitzero"`
}

// NewInvocationID makes the id of a new operation: 64 hexadecimal digits from the
// system's random source. The host captures, keeps and sends the operation with this id.
func NewInvocationID() string {
	var id [32]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Check returns an error for an original that an inspection would refuse as not valid.
// The error is a [*feedback.Error] with [feedback.CodeInvalidRequest].
func (o Original) Check() error {
	if err := o.valid(); err != nil {
		return err
	}
	_, err := o.sessionKey()
	return err
}

// valid checks the fields of an original about its invocation.
func (o Original) valid() error {
	return o.firstWrong([]argument{
		{identifier.InvocationID(o.InvocationID), "invocation_id must be 64 lower-case hexadecimal digits."},
		{identifier.Workspace(o.Workspace), "workspace must be 2 to 64 of a-z, 0-9, _ and -, the first a letter or digit, and not auto."},
		{o.ExpectedBinding.Workspace == o.Workspace, "expected_binding.workspace must be the workspace of the original."},
		{o.Tool == "" || identifier.Tool(o.Tool), "tool must be 1 to 64 letters, digits and _, the first not a digit."},
		{o.AgentRunID == "" || identifier.UUID(o.AgentRunID), "agent_run_id must be a UUID of version 1 to 5."},
	})
}

// sessionKey checks the fields of a valid original about its authorization, and gives
// the authorization with the Hub URL in normal form.
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

// invalidFor does what invalid does, and puts the invocation id of the caller into the
// error where it has the form of one.
func invalidFor(invocationID, message string) *feedback.Error {
	if !identifier.InvocationID(invocationID) {
		invocationID = ""
	}
	return failures.New(failures.Failure{Event: failures.BadArgument, InvocationID: invocationID, Message: message})
}
