// Package hubtest is a BailingHub in memory, for tests of programs that talk to one.
package hubtest
