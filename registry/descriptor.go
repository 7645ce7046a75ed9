package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/bailinghub/bailinghub-go/internal/huburl"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// Descriptor describes a connection: a client app and a workspace of a Hub. All
// three texts are required; the methods check them and normalize the Hub URL.
type Descriptor struct {
	// HubURL is the Hub, in any spelling that [NormalizeHubURL] takes.
	HubURL string
	// ClientAppID is 2 to 64 characters a-z, 0-9, "-" and "_", the first a
	// letter or a digit.
	ClientAppID string
	// Workspace has the form of ClientAppID and is never "auto".
	Workspace string
	// AllowInsecureHTTP allows http to a Hub that is not on this machine:
	// tokens then travel in the clear. It is not part of the key.
	AllowInsecureHTTP bool
}

// ConnectionKey gives the key of the plain connection to what d describes:
// "conn_" and 32 hexadecimal digits, the same in every registry. The error
// matches feedback.CodeInvalidRequest.
func (d Descriptor) ConnectionKey() (string, error) {
	d, err := d.normal()
	if err != nil {
		return "", err
	}
	return d.key(""), nil
}

// InstanceKey gives the key of a named instance: one of several connections to
// the same Hub, client app and workspace, each with a login of its own. The
// error matches feedback.CodeInvalidRequest.
func (d Descriptor) InstanceKey(instanceID string) (string, error) {
	d, err := d.normal()
	if err != nil {
		return "", err
	}
	if err := checkInstanceID(instanceID); err != nil {
		return "", err
	}
	return d.key(instanceID), nil
}

// NormalizeHubURL gives the normal form of a Hub URL: scheme and host in lower case
// and ASCII, no default port, no trailing slash, and the path prefix unchanged. Keys
// are computed from this form, and bindings are compared in it.
//
// It refuses a URL that two programs could read differently, or that would not be
// sent as it is written: user information, a query or fragment, also an empty one,
// spaces, control characters, backslashes, dot segments, numeric hosts other than
// dotted IPv4, IPv6 zones. Plain http is allowed for localhost, 127.0.0.1 and [::1];
// for other hosts allowInsecureHTTP must be true. The error matches
// feedback.CodeInvalidRequest and names the rule, never the URL.
func NormalizeHubURL(raw string, allowInsecureHTTP bool) (string, error) {
	normal, err := huburl.Normalize(raw, allowInsecureHTTP)
	if err != nil {
		return "", invalid("the Hub URL " + err.Error())
	}
	return normal, nil
}

// normal checks d and gives it with its Hub URL in normal form.
func (d Descriptor) normal() (Descriptor, error) {
	normal, err := NormalizeHubURL(d.HubURL, d.AllowInsecureHTTP)
	if err != nil {
		return Descriptor{}, err
	}
	d.HubURL = normal
	if !identifier.ClientAppID(d.ClientAppID) {
		return Descriptor{}, invalid("the client app ID " + idRule)
	}
	if !identifier.Workspace(d.Workspace) {
		return Descriptor{}, invalid("the workspace " + workspaceRule)
	}
	return d, nil
}

const (
	idRule        = "must be 2 to 64 characters a-z, 0-9, - and _, the first a letter or a digit"
	workspaceRule = idRule + ", and not auto"
)

// key computes the connection key of a descriptor in normal form. instanceID is ""
// for the plain connection.
func (d Descriptor) key(instanceID string) string {
	parts := []string{"bailinghub.agent-connection.v1", d.HubURL, d.ClientAppID, d.Workspace}
	if instanceID != "" {
		parts[0] = "bailinghub.agent-connection.v2"
		parts = append(parts, instanceID)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "conn_" + hex.EncodeToString(sum[:16])
}

func checkInstanceID(instanceID string) error {
	if !identifier.InstanceID(instanceID) {
		return invalid("the instance ID must be instance_ and 32 lower-case hexadecimal digits")
	}
	return nil
}
