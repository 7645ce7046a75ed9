//go:build !linux

package host_test

// children are what other processes do for these tests: nothing here.
var children map[string]func(args []string) error
