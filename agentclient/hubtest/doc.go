// Package hubtest is a BailingHub in memory, for tests of programs that talk
// to one: what net/http/httptest is to net/http.
//
// It behaves and is not canned. Logins make sessions whose tokens expire and
// rotate. Operations are submitted, wait for approvals, are resumed and
// dispatched, hang, get lost and are damaged, and every receipt is computed
// from what the Hub then has stored. Its answers equal those recorded from a
// real Hub 0.8, wrong requests included, but for the wording: a text of the
// Hub itself reads "Synthetic text." and no token can be mistaken for a secret.
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
// Both answer with the result as a receipt would show it, and wait while an
// operation is in flight. [Hub.Damage], [Hub.EditRecord] and [Hub.Store] put
// what no orderly life of an invocation leads to.
//
// # Logging in
//
// [Hub.Login] gives a test a session at once. The whole login is there too, as
// the real Hub has it: a client app asks for an authorization, a person decides
// about it on the page of a business system, and the code of an authorization
// becomes a session, which can be looked at, renewed and ended:
//
//	POST /agent-auth/v1/authorizations                        a client app asks
//	POST /agent-auth/v1/token                                 exchange a code, renew a session
//	GET  /agent-auth/v1/session                               whose an access token is
//	POST /agent-auth/v1/revoke                                log out
//	GET  /agent-auth/v1/authorizations/{id}                   with the token of the client,
//	POST /agent-auth/v1/authorizations/{id}/approve           [Hub.ClientToken]: the calls
//	POST /agent-auth/v1/authorizations/{id}/deny              of the business system
//	POST /agent-auth/v1/authorizations/{id}/revoke
//	POST /agent-auth/v1/sessions/{id}/revoke
//	PUT  /agent-auth/v1/sessions/{id}/subject-display
//
// A [Consent] is the page of a business system, for a person with a browser, and
// its methods press the buttons for a test that has none.
//
// Requests, codes, access tokens and sessions have the lifetimes of the real Hub
// on the clock of the mock; [Hub.ExpireAuthorization] and [Hub.ExpireSession]
// end one early. [Hub.Authorizations] and [Hub.Sessions] show them as they are.
//
// # What a session may use
//
// [Hub.EditClient], [Hub.EditRoute], [Hub.EditSession] and [Hub.Revoke] take
// authorizations away and give them back; [Hub.ExpireAccess] and
// [WithLifetimes] make a host refresh; [Hub.Break], [Hub.SetPaused] and
// [Hub.SetInspection] are for a Hub that is broken, paused, older or newer.
//
// # Faults
//
// [Hub.Inject] queues a [Fault] for a kind of request: latency, a lost
// connection, another answer, a slow or endless body. [Hub.Hold] stops a
// request at a point, so that a test can do something just then and needs no
// luck with time.
//
// # Evidence
//
// [Hub.Requests] counts by kind, [Hub.Log] lists, [Hub.BusinessOperations]
// counts what reached a business system, and a [Snapshot] before and after is
// equal when nothing happened that inspecting must not do. [Hub.Peek] looks at
// receipts without leaving a trace in any of these.
package hubtest
