package registry

import (
	"errors"

	"golang.org/x/sys/unix"
)

// allocate gives a file room on the disk. The error matches
// errors.ErrUnsupported where the file system cannot.
func allocate(fd int, size int64) error {
	_, err := again(func() (int, error) { return 0, unix.Fallocate(fd, 0, 0, size) })
	return err
}

// exchange lets two names in a folder change places. The error matches
// errors.ErrUnsupported where the file system cannot.
func exchange(folder int, one, other string) error {
	err := unix.Renameat2(folder, one, folder, other, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) {
		return errors.ErrUnsupported
	}
	return err
}
