// Package inspection is the one engine beneath every client: one question to one
// server, from the caller's context to an answer or a [*feedback.Error].
//
// A [Server] begins an [Inspection] with a [Guard], which gives the token for each of
// its requests. The inspection keeps the time limit, counts the repeats, lets the guard
// replace a refused token, and decides what a failure means. [Hub] has the two
// questions for a BailingHub: the negotiation and the receipt.
//
// There are two kinds of guard. The guards of [TokenSource] ask a token source of the
// caller; packages agentclient and hermesx use them. The guard of package host checks
// the binding of the original invocation, and takes the token from the read of the
// store that it checked.
package inspection
