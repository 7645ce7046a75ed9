// Package failures makes the errors of package feedback. The code that meets a
// failure describes what it saw as a [Failure]. The failure table of the
// contract, in table.go, decides what that means for a host.
package failures
