// Package filelock locks a file for one holder at a time, in this process and
// all others of the machine. The lock ends with the process that has it, however
// that ends. Whoever does not get it can still read the file.
package filelock

import (
	"errors"
	"os"
)

// ErrLocked says that somebody else has the lock.
var ErrLocked = errors.New("filelock: the file is locked")

// Lock takes the lock of an open file, without waiting. [Unlock] gives it back,
// and so does the end of the process. Opening the same file twice gives two
// holders, also within one process. The error is [ErrLocked], errors.ErrUnsupported where this system has
// no such lock, or what the system says.
func Lock(file *os.File) error { return lock(file) }

// Unlock gives the lock of a file back, before the file is closed. To close it
// alone is not enough at once: a process that is just being started has a copy
// of every open file until its program begins.
func Unlock(file *os.File) error { return unlock(file) }
