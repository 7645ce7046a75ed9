// Mcp serves what is known of an agent's operations to a model, over the Model
// Context Protocol: over a folder of logins and a journal of operations.
//
//	go run . --journal FILE [--registry DIR] [--http 127.0.0.1:8080]
//
// It has two tools, and both only read. A model names an operation by its
// invocation id or by the id of the tool call that asked for it, and never a
// connection: what an operation was sent under stands in the journal.
package main
