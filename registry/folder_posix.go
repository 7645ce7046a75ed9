//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package registry

import (
	"errors"

	"golang.org/x/sys/unix"
)

func allocate(int, int64) error { return errors.ErrUnsupported }

func exchange(int, string, string) error { return errors.ErrUnsupported }

// fixed says what keeps a file in an open folder from being replaced.
func fixed(folder int, name string) fixture {
	// The flags that chflags sets, the same on all of these systems: for the
	// user and for root, immutable and append-only.
	const marks = 0x2 | 0x4 | 0x20000 | 0x40000
	var file, around unix.Stat_t
	if unix.Fstatat(folder, name, &file, unix.AT_SYMLINK_NOFOLLOW) != nil || unix.Fstat(folder, &around) != nil {
		return movable
	}
	switch {
	case file.Dev != around.Dev:
		return mounted
	case (uint32(file.Flags)|uint32(around.Flags))&marks != 0:
		return immutable
	}
	return movable
}
