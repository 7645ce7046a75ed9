// Package namedlock has locks with names: [Local] locks between the goroutines of
// a process, and [Machine] locks between all processes of a machine, including
// those that use the TypeScript SDK of the Hub.
//
// Goroutines of one process get a lock in the order in which they asked for it,
// and wait until their context ends. Every lock is free when the process ends,
// however it ends.
package namedlock
