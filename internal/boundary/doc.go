// Package boundary is the one place where a request leaves this SDK.
//
// A [Client] sends requests to one server. The lowest layer, a round tripper
// beneath the HTTP client and the retries, refuses every request that is not on
// the server's list (allow.go), sets the credential for the origin of that server
// only, reads the answer within its limits and passes up the status and the body.
// No layer above it sees a header of an answer, so none can follow a redirect.
package boundary
