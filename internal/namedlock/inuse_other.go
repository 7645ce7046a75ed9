//go:build !windows

package namedlock

import (
	"errors"
	"syscall"
)

// inUse reports whether a port is another's.
func inUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
