//go:build (darwin || freebsd || netbsd || openbsd || dragonfly) && !privatedir_root

package privatedir

import (
	"errors"

	"golang.org/x/sys/unix"
)

func (h fileHandle) allocate(int64) error { return errors.ErrUnsupported }

func (h folderHandle) exchange(string, string) error { return errors.ErrUnsupported }

// obstacleTo gives what keeps a file from being replaced.
func (h folderHandle) obstacleTo(name string) obstacle {
	// The flags that chflags sets, the same on all of these systems: for the
	// user and for root, immutable and append-only.
	const marks = 0x2 | 0x4 | 0x20000 | 0x40000
	var file, around unix.Stat_t
	if unix.Fstatat(h.fd, name, &file, unix.AT_SYMLINK_NOFOLLOW) != nil || unix.Fstat(h.fd, &around) != nil {
		return noObstacle
	}
	switch {
	case file.Dev != around.Dev:
		return mounted
	case (uint32(file.Flags)|uint32(around.Flags))&marks != 0:
		return immutable
	}
	return noObstacle
}
