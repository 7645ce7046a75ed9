//go:build !windows

package namedlock

import (
	"errors"
	"syscall"
)

// inUse reports whether err says that somebody else has the port.
func inUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
