// Package hermestest is a HermesX server in memory, as package net/http/httptest
// is a server for net/http: for tests of programs that read execution receipts
// and audit logs.
//
//	server := hermestest.NewServer(t)
//	key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
//	server.Chat(hermestest.Chat{
//		RequestID: "chat-001",
//		SessionID: "sess_1",
//		Calls:     []hermestest.Call{{Tool: "read_file", Input: map[string]any{"path": "a.md"}, Output: `{"bytes":512}`}},
//	})
//	// Here the program reads at server.URL with key.Secret.
//
// Its answers equal those recorded from a real server, to wrong requests too.
// Like that server it
//
//   - knows a tenant by its key alone, and wants the role auditor or admin;
//   - answers an empty list with null, replaces a bad limit without a word, and
//     says errors in one line of plain text;
//   - sorts by time alone: rows of the same time change places from request to
//     request;
//   - counts the rows of a list and then selects them, in two statements
//     ([HermesX.BetweenStatements]);
//   - logs every request whose key is good and whose client waited for the
//     answer, reading the log too, and never a session;
//   - cuts inputs and outputs at [TextLimit] bytes without a mark, and loses a
//     receipt whose text was cut within a character or has a NUL;
//   - runs a tool once for an idempotency key, and gives the first receipt's
//     output to whoever comes with the same key again;
//   - says 401 to a good key and 404 to a known id while its database is down
//     ([HermesX.SetDatabaseDown]), while tools run and leave no receipt;
//   - shows empty lists where its database role may not see the rows
//     ([HermesX.SetRowsHidden]);
//   - takes [DefaultRateLimit] requests a minute from all keys of a tenant, and
//     says in headers how many are left ([HermesX.SetRateLimit]).
//
// A [HermesX] is an [http.Handler], so whatever else can go wrong on the way
// can be put around it; [HermesX.Before] lets something happen just before a
// request is looked at.
package hermestest
