// Package hubtest is a BailingHub in memory, for tests of programs that use one, as package
// net/http/httptest is for programs that use HTTP.
//
// It computes its answers and does not replay fixed ones. Logins make sessions whose tokens
// expire and are refreshed. Operations are submitted, wait for approvals, are resumed and
// dispatched, hang, get lost and are damaged. Every receipt is computed from what the Hub has
// stored at that moment. Its answers, also to wrong requests, equal those recorded from a real
// Hub 0.8, except for the wording: a text of the Hub itself reads "Synthetic text.", and no
// token can be mistaken for a real secret.
//
// A test of a host makes a Hub, logs in, lets something happen, and inspects:
//
//	hub := hubtest.NewServer(t)
//	session := hub.Login(hubtest.Grant{})
//	hub.Plan(hubtest.AnswerLost())
//	id, err := hub.Submit(session.ID, hubtest.Submission{
//		Route: hubtest.DefaultRoute,
//		Tool:  hubtest.WriteTool,
//	})
//	...
//	before := hub.Snapshot()
//	// Here the host inspects id at hub.URL with session.AccessToken.
//	if hub.Snapshot() != before {
//		t.Error("inspecting changed something")
//	}
//
// # Reaching the Hub
//
// A [Hub] is an [http.Handler]. [Hub.Start] and [Hub.StartTLS] serve it on
// 127.0.0.1; [Hub.Transport] reaches it within the process and works in a
// bubble of testing/synctest, where an hour of latency takes no time.
//
// # Operations
//
// [Hub.Submit], [Hub.Approve], [Hub.Deny] and [Hub.Resume] move an invocation
// along; [Hub.Plan] and [Tool.Run] decide what the business system does, and
// [Hub.Finish] ends what hangs. The same can be done over HTTP:
//
//	POST /agent-api/v1/tool-invocations              the members of [Submission]
//	POST /agent-api/v1/tool-invocations/{id}/resume  no body
//
// Both wait while an operation is in flight, and answer with the result as a receipt would show
// it. [Hub.Damage], [Hub.EditRecord] and [Hub.Store] make records that no normal course of an
// invocation produces.
//
// # Logging in
//
// [Hub.Login] gives a test a session at once. The mock also has the whole login of the real
// Hub: a client app asks for an authorization, a person approves it on the page of a business
// system, and the client app exchanges the code of the authorization for a session, which it
// can read, refresh and end:
//
//	POST /agent-auth/v1/authorizations                        a client app asks
//	POST /agent-auth/v1/token                                 exchange a code, refresh a session
//	GET  /agent-auth/v1/session                               read the session of an access token
//	POST /agent-auth/v1/revoke                                log out
//	GET  /agent-auth/v1/authorizations/{id}                   with the token of the client,
//	POST /agent-auth/v1/authorizations/{id}/approve           [Hub.ClientToken]: the calls
//	POST /agent-auth/v1/authorizations/{id}/deny              of the business system
//	POST /agent-auth/v1/authorizations/{id}/revoke
//	POST /agent-auth/v1/sessions/{id}/revoke
//	PUT  /agent-auth/v1/sessions/{id}/subject-display
//
// A [Consent] is the page of a business system for a person with a browser. Its methods press
// the buttons for a test without one.
//
// Requests, codes, access tokens and sessions have the lifetimes of the real Hub
// on the clock of the mock; [Hub.ExpireAuthorization] and [Hub.ExpireSession]
// end one early. [Hub.Authorizations] and [Hub.Sessions] show them as they are.
//
// # What a session may use
//
// [Hub.EditClient], [Hub.EditRoute], [Hub.EditSession] and [Hub.Revoke] remove access and
// restore it. [Hub.ExpireAccess] and [WithLifetimes] make a host refresh its tokens.
// [Hub.Break], [Hub.SetPaused] and [Hub.SetInspection] make the Hub broken, paused, older or
// newer.
//
// # Faults
//
// [Hub.Inject] queues a [Fault] for a kind of request: latency, a lost
// connection, another answer, a slow or endless body. [Hub.Hold] stops a request at a point
// until the test lets it continue, so that the test can do something exactly then.
//
// # Evidence
//
// [Hub.Requests] counts requests by kind, [Hub.Log] lists them, and [Hub.BusinessOperations]
// counts the operations that reached a business system. A [Snapshot] before and one after an
// inspection are equal when the inspection has changed nothing that it must not change.
// [Hub.Peek] reads receipts without changing any of these.
package hubtest
