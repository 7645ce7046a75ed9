package namedlock

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// inUse reports whether err says that somebody else has the port. Windows has an
// error number of its own for that; tests use the one of package syscall.
func inUse(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, syscall.EADDRINUSE)
}
