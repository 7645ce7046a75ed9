package boundary

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

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

// Allow reports whether a request may be sent. The path is the part of the path
// on the wire that follows the server's base; the query is raw.
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

// The endpoints of a Hub for a login, relative to its URL. A code is exchanged
// where a session is refreshed, at [RefreshPath].
const (
	AuthorizationsPath = "/agent-auth/v1/authorizations"
	SessionPath        = "/agent-auth/v1/session"
	RevokePath         = "/agent-auth/v1/revoke"
)

// LoginRequests allows the requests of a login: to start an authorization, to
// exchange its code, to read the session and to revoke it. The only request that
// [HubRequests] allows as well is the one at [RefreshPath], where an inspection
// and a login both get their tokens.
func LoginRequests(method, path, query string) bool {
	switch {
	case query != "":
		return false
	case method == http.MethodGet:
		return path == SessionPath
	case method == http.MethodPost:
		return path == AuthorizationsPath || path == RefreshPath || path == RevokePath
	}
	return false
}

// The endpoints of a HermesX server, relative to its URL.
const (
	ExecutionReceiptsPath = "/v1/execution-receipts"
	AuditLogsPath         = "/v1/audit-logs"
)

// The parameters of the two lists of a HermesX server.
var (
	executionReceiptsQuery = []string{"session_id", "tool_name", "status", "limit", "offset"}
	auditLogsQuery         = []string{"action", "from", "to", "limit", "offset"}
)

// maxSegment is how many bytes an id in a path may have. Servers accept paths of
// about 8 KiB, and an escaped byte takes three.
const maxSegment = 2048

// ExecutionReceiptPath gives the endpoint of one execution receipt. The id is
// escaped and makes exactly one segment of the path. ok is false for an id that
// cannot be such a segment: one that is empty, too long or not UTF-8, has a NUL,
// consists of slashes, or has "." or ".." between its slashes, which servers and
// proxies resolve even when they are escaped.
func ExecutionReceiptPath(id string) (path string, ok bool) {
	if strings.Trim(id, `/\`) == "" || len(id) > maxSegment || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return "", false
	}
	for part := range strings.FieldsFuncSeq(id, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return "", false
		}
	}
	return ExecutionReceiptsPath + "/" + url.PathEscape(id), true
}

// HermesXRequests allows the three reads of a HermesX server.
func HermesXRequests(method, path, query string) bool {
	if method != http.MethodGet {
		return false
	}
	switch path {
	case ExecutionReceiptsPath:
		return hasOnly(query, executionReceiptsQuery)
	case AuditLogsPath:
		return hasOnly(query, auditLogsQuery)
	}
	segment, ok := strings.CutPrefix(path, ExecutionReceiptsPath+"/")
	if !ok || query != "" {
		return false
	}
	id, err := url.PathUnescape(segment)
	if err != nil {
		return false
	}
	again, ok := ExecutionReceiptPath(id)
	return ok && again == path
}

// hasOnly reports whether a query is in its canonical form and has no parameters
// but the known ones, and each at most once.
func hasOnly(query string, known []string) bool {
	values, err := url.ParseQuery(query)
	if err != nil || values.Encode() != query {
		return false
	}
	for name, value := range values {
		if len(value) != 1 || !slices.Contains(known, name) {
			return false
		}
	}
	return true
}

// allowed reports whether the request goes to the base server and is on its list.
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
