// Package boundary is the one place where a request leaves this SDK.
//
// A [Client] speaks to one server. Beneath everything that could send, its
// round tripper refuses what is not on the server's list of requests (allow.go),
// puts the credential on for that origin alone, reads the answer within its
// limits and hands up a status and bytes. Redirects end there, because no
// header of an answer gets above it.
package boundary
