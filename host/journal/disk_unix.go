//go:build unix

package journal

import (
	"errors"
	"syscall"
)

// nonBlocking keeps the opening of a FIFO, which somebody may put in the place of
// a file, from waiting for its other end.
const nonBlocking = syscall.O_NONBLOCK

// isInvalid reports a file system whose folders need no sync.
func isInvalid(err error) bool { return errors.Is(err, syscall.EINVAL) }
