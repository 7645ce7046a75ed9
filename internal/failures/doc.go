// Package failures makes the errors of package feedback: a [Failure] is what the
// code that met it saw, and the table of the contract, in table.go, says what
// that means for a host.
package failures
