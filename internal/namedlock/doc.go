// Package namedlock has locks with names: [Local] ones between the goroutines
// of a process, and [Machine] ones between all processes of a machine, those of
// the TypeScript SDK of the Hub too.
//
// Both are waited for in order and until a context ends, and both are free when
// the process ends, however it ends.
package namedlock
