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
	// Workspace is the workspace; the Hub calls it route.
	Workspace string `json:"workspace"`
	// SessionID is the agent session, a UUID, compared letter by letter.
	SessionID string `json:"session_id"`
}

// Equal reports whether both are the same authorization: the Hub URLs in the
// normal form of [NormalizeHubURL], everything else letter by letter. A Binding
// that is not valid, the zero one for example, equals nothing, not even itself.
// Plain http is valid here: it is the connection that allows it or not.
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
