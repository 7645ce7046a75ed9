// Package inspection is the one engine beneath every client: one question to one
// server, from the caller's context to an answer or a [*feedback.Error].
//
// A [Server] begins an [Inspection] under a [Guard], which authorizes each of its
// requests. The inspection keeps the time limit, counts the repeats, has a
// refused token replaced once, and says what a failure means. [Hub] has the two
// questions of a BailingHub: the negotiation and the receipt.
//
// There are two kinds of guard. [TokenSource] asks a token source of the caller:
// package agentclient and package hermesx use it. That of package host checks
// the binding of the original invocation and takes the token from the same read
// of the store.
package inspection
