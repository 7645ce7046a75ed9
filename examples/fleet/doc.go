// Fleet is many replicas of an agent host that share logins and open operations
// in PostgreSQL, on the job queue that such hosts already run: one River job for
// each open operation.
//
//	go run .
//
// It starts a private PostgreSQL and a mock Hub on 127.0.0.1, lets three replicas
// ask about what is open, kills them in turn while they work, and ends with the
// proof: each operation was reported once, and asking performed no business
// operation.
package main
