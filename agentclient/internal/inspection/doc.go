// Package inspection is what the low-level clients have in common: one question
// to one server, from the caller's context to an answer or a
// [*feedback.Error].
//
// It asks the token source and renews a refused token once, keeps the time
// limit and counts the repeats of the whole inspection, and says what a failure
// means. Which requests there are, and what a good answer is, its users know.
package inspection
