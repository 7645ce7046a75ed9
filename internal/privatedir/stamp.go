package privatedir

import (
	"fmt"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// A Stamp identifies a file or folder and the state of its content: two equal
// stamps of a name mean that it still is the same file with the same content. The
// zero Stamp stands for a name that does not exist. Stamps can be compared with ==.
type Stamp struct {
	device, inode uint64
	// mode has the bits of a POSIX mode, including the kind of file.
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
	// groupBit is the setgid bit, which a folder may inherit. It gives nobody
	// access.
	groupBit = 0o2000
)

// The modes of files and folders that belong to the user alone.
const (
	fileMode   = 0o600
	folderMode = 0o700
)

func (s Stamp) regular() bool       { return s.mode&kindMask == kindRegular }
func (s Stamp) folder() bool        { return s.mode&kindMask == kindFolder }
func (s Stamp) permissions() uint32 { return s.mode &^ kindMask }

// sameFile reports whether both are stamps of one file that nobody has written to
// in between. A rename does not make it another file.
func (s Stamp) sameFile(other Stamp) bool {
	return s.sameInode(other) && s.size == other.size && s.modified == other.modified
}

func (s Stamp) sameInode(other Stamp) bool { return s.device == other.device && s.inode == other.inode }

// timeResolution is how long after a change a file can change again and keep its
// times, because the file system counts them in seconds (contract and design: 2 s).
const timeResolution = 2 * time.Second

// recentlyChanged reports whether the file may change again and keep its stamp, so
// that an equal stamp does not yet prove equal content. It is also true where the
// times are in the future, because a clock was set.
func (s Stamp) recentlyChanged(now time.Time) bool {
	return now.Sub(time.Unix(0, max(s.modified, s.changed))) < timeResolution
}

// privateFolder returns an error unless s is of a folder that belongs to the user
// alone.
func privateFolder(s Stamp, path string) error {
	switch {
	case !s.folder():
		return damaged(path + " is not a folder")
	case !s.ownedByUser():
		return damaged("the folder " + path + " belongs to another user")
	case s.permissions()&^groupBit != folderMode:
		return damaged(fmt.Sprintf("the folder %s has mode %04o, and not 0700", path, s.permissions()))
	}
	return nil
}

// privateFile returns an error unless s is of a plain file that belongs to the user
// alone.
func privateFile(s Stamp, path string) error {
	switch {
	case !s.regular():
		return damaged(path + " is a link, a folder or something else that is no plain file")
	case !s.ownedByUser():
		return damaged(path + " belongs to another user")
	case s.permissions() != fileMode:
		return damaged(fmt.Sprintf("%s has mode %04o, and not 0600", path, s.permissions()))
	}
	return nil
}

// replaceable returns an error where now is of something that must not be replaced
// or deleted.
func replaceable(now Stamp, path string) error {
	switch {
	case now == Stamp{}:
		return nil
	case !now.regular():
		return fault.New(path+" is a link, a folder or something else that is no plain file; it was left alone", ErrDamaged)
	case !now.ownedByUser():
		return fault.New(path+" belongs to another user; it was left alone", ErrDamaged)
	}
	return nil
}

// Links says whether the path of a folder may be a link to it.
type Links bool

const (
	FollowLink Links = true
	RefuseLink Links = false
)
