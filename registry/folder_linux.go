package registry

import "golang.org/x/sys/unix"

// allocate gives a file room on the disk, where the file system can.
func allocate(fd int, size int64) error {
	_, err := again(func() (int, error) { return 0, unix.Fallocate(fd, 0, 0, size) })
	return err
}

// exchange lets two names in a folder change places, where the file system can.
func exchange(folder int, one, other string) error {
	return unix.Renameat2(folder, one, folder, other, unix.RENAME_EXCHANGE)
}
