//go:build !privatedir_root

package privatedir

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a file room on the disk, where the file system can.
func (h fileHandle) allocate(size int64) error {
	_, err := again(func() (int, error) { return 0, unix.Fallocate(h.fd, 0, 0, size) })
	return err
}

// sync puts a file on the disk.
func (h fileHandle) sync() error {
	_, err := again(func() (int, error) { return 0, unix.Fsync(h.fd) })
	return err
}

// exchange exchanges two names in a folder in one step, where the file system can.
func (h folderHandle) exchange(one, other string) error {
	return unix.Renameat2(h.fd, one, h.fd, other, unix.RENAME_EXCHANGE)
}

// obstacleTo gives what keeps a file from being replaced. A file that is mounted by
// itself can have the same device as its folder, so comparing the two would not
// show it: the system has to be asked.
func (h folderHandle) obstacleTo(name string) obstacle {
	const marks = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	file, err := h.attributes(name)
	if err != nil {
		return noObstacle
	}
	around, err := h.attributes("")
	if err != nil {
		return noObstacle
	}
	switch {
	case file.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return mounted
	case file.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 && h.otherMount(name):
		return mounted
	case (file.Attributes|around.Attributes)&marks != 0:
		return immutable
	}
	return noObstacle
}

// attributes gives the attributes of a file in the folder, or of the folder itself
// for the name "".
func (h folderHandle) attributes(name string) (unix.Statx_t, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	err := unix.Statx(h.fd, name, flags, unix.STATX_BASIC_STATS, &st)
	return st, err
}

// otherMount reports whether a file belongs to another mount than its folder. It is
// for kernels before 5.8, which do not report whether a file is a mount point.
func (h folderHandle) otherMount(name string) bool {
	fd, err := unix.Openat(h.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	file, around := mountOf(fd), mountOf(h.fd)
	return file != "" && around != "" && file != around
}

// mountOf gives the number of the mount that a descriptor belongs to, as text; ""
// where it is not known.
func mountOf(fd int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return ""
	}
	_, after, _ := bytes.Cut(text, []byte("mnt_id:"))
	number, _, _ := bytes.Cut(after, []byte("\n"))
	return string(bytes.TrimSpace(number))
}
