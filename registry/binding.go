package registry

// Binding is the authorization that an operation was sent under: a session of
// one client app at one workspace of one Hub. A host keeps it with the
// operation and asks about the operation under no other.
//
// A Binding holds no secret. It is a plain value and can be compared with ==
// where both Hub URLs are in normal form.
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
