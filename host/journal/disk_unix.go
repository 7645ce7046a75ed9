//go:build unix

package journal

import (
	"errors"
	"syscall"
)

// nonBlocking is a flag for opening a file. Somebody may replace a file with a FIFO, and
// without this flag opening that would wait for its other end.
const nonBlocking = syscall.O_NONBLOCK

// isInvalid reports whether err comes from a file system that does not sync folders.
func isInvalid(err error) bool { return errors.Is(err, syscall.EINVAL) }
