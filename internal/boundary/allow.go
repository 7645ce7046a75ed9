package boundary

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// The endpoints of a Hub, relative to its URL.
const (
	CapabilitiesPath = "/agent-api/v1/tool-invocations/inspection-capabilities"
	RefreshPath      = "/agent-auth/v1/token"

	receiptPrefix = "/agent-api/v1/tool-invocations/"
	receiptSuffix = "/receipt"
)

// ReceiptPath is the endpoint of the receipt of a valid invocation id.
func ReceiptPath(invocationID string) string {
	return receiptPrefix + invocationID + receiptSuffix
}

// Allow tells whether a request may leave. The path is what goes on the wire
// after the server's base, the query is raw.
type Allow func(method, path, query string) bool

// HubRequests allows the two reads of a Hub and its token refresh.
func HubRequests(method, path, query string) bool {
	switch {
	case query != "":
		return false
	case method == http.MethodPost:
		return path == RefreshPath
	case method != http.MethodGet:
		return false
	case path == CapabilitiesPath:
		return true
	}
	id, ok := strings.CutPrefix(path, receiptPrefix)
	if !ok {
		return false
	}
	id, ok = strings.CutSuffix(id, receiptSuffix)
	return ok && identifier.InvocationID(id)
}

// allowed reports whether the request goes to the base server and may leave.
func (c *Client) allowed(r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), c.path)
	return ok &&
		sameOrigin(r.URL, c.base) &&
		(r.Host == "" || r.Host == c.base.Host) &&
		!r.URL.ForceQuery && r.URL.Fragment == "" && r.URL.User == nil && r.URL.Opaque == "" &&
		(r.Method == http.MethodPost || r.Body == nil || r.Body == http.NoBody) &&
		c.allow(r.Method, path, r.URL.RawQuery)
}

// sameOrigin compares two URLs in normal form.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Host == b.Host
}
