//go:build !privatedir_root

package privatedir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// sync puts a file on the disk. On macOS fsync alone may leave it in the cache of
// the drive.
func (h fileHandle) sync() error {
	_, err := again(func() (int, error) { return unix.FcntlInt(uintptr(h.fd), unix.F_FULLFSYNC, 0) })
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		_, err = again(func() (int, error) { return 0, unix.Fsync(h.fd) })
	}
	return err
}
