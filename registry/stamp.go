package registry

import (
	"errors"
	"time"
)

// A stamp tells whether what has a name is still the same file or folder, with
// the same content. The zero stamp is that of nothing.
type stamp struct {
	device, inode uint64
	// mode is as the system has it, with the kind of file.
	mode, uid uint32
	// The rest is zero for folders.
	size int64
	// modified and changed (mtime and ctime) are in nanoseconds.
	modified, changed int64
}

// The kinds of file in a mode, the same on every POSIX system.
const (
	kindMask    = 0o170000
	kindRegular = 0o100000
	kindFolder  = 0o040000
)

func (s stamp) regular() bool       { return s.mode&kindMask == kindRegular }
func (s stamp) folder() bool        { return s.mode&kindMask == kindFolder }
func (s stamp) permissions() uint32 { return s.mode &^ kindMask }

// sameFile reports whether both are one file that nobody has written to. A
// rename in between does not count.
func (s stamp) sameFile(other stamp) bool {
	return s.device == other.device && s.inode == other.inode && s.size == other.size && s.modified == other.modified
}

// errAgain says that a file changed in the middle of something, which may go
// well the next time. Nobody outside gets to see it.
var errAgain = errors.New("a file has changed meanwhile")

// youth is how long a file can change once more without a sign of it in its
// times, on a file system that counts in seconds (contract and design: 2 s).
const youth = 2 * time.Second

// young reports whether the file may still change without a sign. So it may when
// its times are in the future: a clock was set.
func (s stamp) young(now time.Time) bool {
	return now.Sub(time.Unix(0, max(s.modified, s.changed))) < youth
}

// followLinks says whether a link may lead to a folder.
type followLinks bool

const (
	followLink followLinks = true
	refuseLink followLinks = false
)

// steps is asked before each step that changes something on the disk, and an
// error of it counts as one of the system. In use it is nil; a test lets a step
// fail, or the process die there.
type steps func(step string) error

func (s steps) before(step string) error {
	if s == nil {
		return nil
	}
	return s(step)
}
