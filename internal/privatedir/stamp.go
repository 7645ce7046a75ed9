package privatedir

import (
	"fmt"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// A Stamp tells whether what has a name is still the same file or folder, with
// the same content. The zero Stamp is that of nothing. Stamps can be compared
// with ==.
type Stamp struct {
	device, inode uint64
	// mode is as POSIX systems have it, with the kind of file.
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
	// groupBit is one that a folder may inherit, and that lets nobody in.
	groupBit = 0o2000
)

// The modes of what belongs to the user alone.
const (
	fileMode   = 0o600
	folderMode = 0o700
)

func (s Stamp) regular() bool       { return s.mode&kindMask == kindRegular }
func (s Stamp) folder() bool        { return s.mode&kindMask == kindFolder }
func (s Stamp) permissions() uint32 { return s.mode &^ kindMask }

// sameFile reports whether both are one file that nobody has written to. A
// rename in between does not count.
func (s Stamp) sameFile(other Stamp) bool {
	return s.sameInode(other) && s.size == other.size && s.modified == other.modified
}

func (s Stamp) sameInode(other Stamp) bool { return s.device == other.device && s.inode == other.inode }

// youth is how long a file can change once more without a sign of it in its
// times, on a file system that counts in seconds (contract and design: 2 s).
const youth = 2 * time.Second

// young reports whether the file may still change without a sign. So it may when
// its times are in the future: a clock was set.
func (s Stamp) young(now time.Time) bool {
	return now.Sub(time.Unix(0, max(s.modified, s.changed))) < youth
}

// privateFolder says what of a folder is not as that of the user alone.
func privateFolder(s Stamp, path string) error {
	switch {
	case !s.folder():
		return damaged(path + " is not a folder")
	case !s.mine():
		return damaged("the folder " + path + " belongs to another user")
	case s.permissions()&^groupBit != folderMode:
		return damaged(fmt.Sprintf("the folder %s has mode %04o, and not 0700", path, s.permissions()))
	}
	return nil
}

// privateFile says what of a file is not as that of the user alone.
func privateFile(s Stamp, path string) error {
	switch {
	case !s.regular():
		return damaged(path + " is a link, a folder or something else that is no plain file")
	case !s.mine():
		return damaged(path + " belongs to another user")
	case s.permissions() != fileMode:
		return damaged(fmt.Sprintf("%s has mode %04o, and not 0600", path, s.permissions()))
	}
	return nil
}

// replaceable says why what is at path is not to be replaced or deleted.
func replaceable(now Stamp, path string) error {
	switch {
	case now == Stamp{}:
		return nil
	case !now.regular():
		return fault.New(path+" is a link, a folder or something else that is no plain file; it was left alone", ErrDamaged)
	case !now.mine():
		return fault.New(path+" belongs to another user; it was left alone", ErrDamaged)
	}
	return nil
}

// Links says whether a link may lead to a folder.
type Links bool

const (
	FollowLink Links = true
	RefuseLink Links = false
)
