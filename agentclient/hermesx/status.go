package hermesx

import "github.com/bailinghub/bailinghub-go/receipt"

// Status is how the call of a tool ended. A value that is none of the constants
// is kept as the server has it.
//
// It is a hint, because a server goes by the look of the output: one that told of
// a failure in plain words was seen as success, and one with "error": null in it
// as error. Read the output.
type Status string

const (
	// StatusSuccess: the output did not look like an error.
	StatusSuccess Status = "success"
	// StatusError: the output looked like an error. The side effect may have
	// happened all the same.
	StatusError Status = "error"
	// StatusTimeout: the tool did not end in time. The side effect may have
	// happened, or be happening. The agent of today never says it.
	StatusTimeout Status = "timeout"
)

// String is what a server said, made safe for a terminal and a log by
// [receipt.Printable]. string(s) is the word itself.
func (s Status) String() string { return receipt.Printable(string(s)) }

// Known reports whether s is one of the constants.
func (s Status) Known() bool {
	return s == StatusSuccess || s == StatusError || s == StatusTimeout
}
