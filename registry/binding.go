package registry

import (
	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// Binding is the authorization that an operation was sent under: a session of
// one client app at one workspace of one Hub. A host keeps it with the
// operation and asks about the operation under no other.
//
// A Binding holds no secret. It is a plain value; compare two of them with
// [Binding.Equal].
type Binding struct {
	// HubURL is the Hub, in the normal form of [NormalizeHubURL] where this
	// package made the binding.
	HubURL string `json:"hub_url"`
	// ClientAppID is the client app that logged in.
	ClientAppID string `json:"client_app_id"`
	// Workspace is the workspace, which the Hub calls a route.
	Workspace string `json:"workspace"`
	// SessionID is the agent session, a UUID, which is compared byte by byte.
	SessionID string `json:"session_id"`
}

// Equal reports whether both are the same authorization. It compares the Hub URLs
// in the normal form of [NormalizeHubURL], and everything else byte by byte. A
// Binding that is not valid, such as the zero one, is not equal to any Binding, not
// even to itself. Plain http is valid here, because the connection, not the
// binding, says whether it is allowed.
func (b Binding) Equal(other Binding) bool {
	hub, ok := b.hub()
	otherHub, otherOK := other.hub()
	b.HubURL, other.HubURL = hub, otherHub
	return ok && otherOK && b == other
}

// hub gives the Hub URL of a valid binding in normal form.
func (b Binding) hub() (normal string, ok bool) {
	normal, err := huburl.Normalize(b.HubURL, true)
	return normal, err == nil && identifier.ClientAppID(b.ClientAppID) && identifier.Workspace(b.Workspace) && identifier.UUID(b.SessionID)
}
