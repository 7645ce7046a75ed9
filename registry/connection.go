package registry

import "time"

// MaxConnections is how many connections a registry holds at most.
const MaxConnections = 256

// Connection is one entry of a registry: the Hub, the client app and the workspace
// that a login is for. The login itself is in [Credentials]. A Connection holds no
// secret and is a plain value.
type Connection struct {
	// Key names the connection; see [Descriptor.ConnectionKey] and
	// [Descriptor.InstanceKey].
	Key string
	// InstanceID is set for a named instance only.
	InstanceID string
	// Alias is the name that a person gave it; "" for none. Other programs
	// write aliases too: make it safe before it is printed on a terminal.
	Alias string
	// HubURL is in normal form.
	HubURL string
	// ClientAppID and Workspace are as in [Descriptor].
	ClientAppID string
	Workspace   string
	// AllowInsecureHTTP is as in [Descriptor].
	AllowInsecureHTTP bool
	// CreatedAt and UpdatedAt are in UTC with a precision of a millisecond.
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Descriptor gives the Hub, the client app and the workspace of the connection.
func (c Connection) Descriptor() Descriptor {
	return Descriptor{HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace, AllowInsecureHTTP: c.AllowInsecureHTTP}
}

// Check returns an error where a store must not save credentials under this
// connection, because one of their members is not valid, or their Hub, client app
// or workspace is not that of the connection. The error matches
// feedback.CodeInvalidRequest and names the member, never its value.
func (c Connection) Check(credentials Credentials) error {
	_, err := c.accept(credentials)
	return err
}

// accept does what Check does, and gives the credentials in normal form.
func (c Connection) accept(credentials Credentials) (Credentials, error) {
	normal, flaw := credentials.normal()
	if flaw != "" {
		return Credentials{}, invalid(flaw)
	}
	if !c.owns(&normal) {
		return Credentials{}, invalid("the Hub, client app and workspace of the credentials must be those of connection " + c.Key)
	}
	return normal, nil
}

// owns reports whether credentials in normal form are for this connection.
func (c *Connection) owns(credentials *Credentials) bool {
	return credentials.HubURL == c.HubURL && credentials.ClientAppID == c.ClientAppID && credentials.Workspace == c.Workspace
}
