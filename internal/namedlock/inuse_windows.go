package namedlock

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// inUse reports whether a port is another's. Windows has a number of its own for
// that; the one of package syscall is what tests give.
func inUse(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, syscall.EADDRINUSE)
}
