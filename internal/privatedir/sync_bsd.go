//go:build (freebsd || netbsd || openbsd || dragonfly) && !privatedir_root

package privatedir

import "golang.org/x/sys/unix"

// sync puts a file on the disk.
func (h fileHandle) sync() error {
	_, err := again(func() (int, error) { return 0, unix.Fsync(h.fd) })
	return err
}
