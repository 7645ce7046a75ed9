// Package filelock locks a file for one holder at a time, among this process and
// all others of the machine. The system releases the lock when the process of its
// holder ends, however it ends. A process without the lock can still read the
// file.
package filelock

import (
	"errors"
	"os"
)

// ErrLocked says that somebody else has the lock.
var ErrLocked = errors.New("filelock: the file is locked")

// Lock takes the lock of an open file, without waiting. [Unlock] releases it, and
// so does the end of the process. Two opens of one file are two holders, also
// within one process. The error is [ErrLocked], errors.ErrUnsupported where this
// system has no such lock, or the error of the system.
func Lock(file *os.File) error { return lock(file) }

// Unlock releases the lock of a file. Call it before closing the file: closing
// alone would leave the file locked for a moment longer where this process is
// just starting another one, because the new process has a copy of every open
// file until its program begins.
func Unlock(file *os.File) error { return unlock(file) }
