//go:build privatedir_root

package privatedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	errBusy         = unix.EBUSY
	errNotPermitted = unix.EPERM
)

func identity(file *os.File) (Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(file.Fd()), &st)
	return Stamp{device: uint64(st.Dev), inode: st.Ino, changed: st.Ctim.Nano()}, err
}

func (h fileHandle) tryLock() (held bool, err error) {
	err = unix.Flock(int(h.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func (h fileHandle) unlock() { _ = unix.Flock(int(h.Fd()), unix.LOCK_UN) }
