//go:build (linux || darwin || freebsd || netbsd || openbsd || dragonfly) && !privatedir_root

package privatedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	errBusy         = unix.EBUSY
	errNotPermitted = unix.EPERM
)

// A folderHandle is an open folder, a fileHandle an open file.
type (
	folderHandle struct{ fd int }
	fileHandle   struct{ fd int }
)

const openFolderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC

func workingFolder() (string, error) { return unix.Getwd() }

func (s Stamp) ownedByUser() bool { return s.uid == uint32(os.Geteuid()) }

// again makes a system call, and repeats it while a signal interrupts it.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func isLink(err error) bool { return errors.Is(err, unix.ELOOP) }

// unsyncable reports whether an error says that a folder cannot be synced.
func unsyncable(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// lookFolder gives the stamp of a folder by its path; the error is that of the
// system.
func lookFolder(path string, links Links) (Stamp, error) {
	var st unix.Stat_t
	var err error
	if links == FollowLink {
		err = unix.Stat(path, &st)
	} else {
		err = unix.Lstat(path, &st)
	}
	return stampOf(&st).ofFolder(), err
}

// lookFile does what lookFolder does for a file, and follows no link.
func lookFile(path string) (Stamp, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return stampOf(&st), err
}

func stampOf(st *unix.Stat_t) Stamp {
	return Stamp{
		device: uint64(st.Dev), inode: st.Ino, mode: uint32(st.Mode), uid: st.Uid,
		size: st.Size, modified: st.Mtim.Nano(), changed: st.Ctim.Nano(),
	}
}

// ofFolder gives the stamp without what changes with every file in the folder.
func (s Stamp) ofFolder() Stamp {
	s.size, s.modified, s.changed = 0, 0, 0
	return s
}

func openFolder(path string) (folderHandle, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, openFolderFlags, 0) })
	return folderHandle{fd}, err
}

// makeFolder makes a folder for the user alone, at a path where nothing is.
func makeFolder(path string) error {
	if err := unix.Mkdir(path, folderMode); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	// The umask may have removed bits that the owner needs.
	if err := unix.Chmod(path, folderMode); err != nil {
		return err
	}
	if parent, err := openFolder(filepath.Dir(path)); err == nil {
		_ = parent.sync() // the parent may belong to somebody else, so this may fail
		parent.close()
	}
	return nil
}

func (h folderHandle) close() { _ = unix.Close(h.fd) }

func (h folderHandle) stamp() (Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstat(h.fd, &st)
	return stampOf(&st).ofFolder(), err
}

func (h folderHandle) sync() error {
	_, err := again(func() (int, error) { return 0, unix.Fsync(h.fd) })
	return err
}

// look gives the stamp of a name in the folder, without following a link.
func (h folderHandle) look(name string) (Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstatat(h.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return stampOf(&st), err
}

func (h folderHandle) openFolder(name string) (folderHandle, error) {
	fd, err := again(func() (int, error) { return unix.Openat(h.fd, name, openFolderFlags|unix.O_NOFOLLOW, 0) })
	return folderHandle{fd}, err
}

func (h folderHandle) makeFolder(name string) error {
	if err := unix.Mkdirat(h.fd, name, folderMode); err != nil {
		return err
	}
	return unix.Fchmodat(h.fd, name, folderMode, 0)
}

// openFile opens a file for reading, and fails where its name is a link.
func (h folderHandle) openFile(name string) (fileHandle, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(h.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	return fileHandle{fd}, err
}

// createFile makes a file with a name that nothing has.
func (h folderHandle) createFile(name string) (fileHandle, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(h.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
	})
	return fileHandle{fd}, err
}

func (h folderHandle) rename(from, to string) error { return unix.Renameat(h.fd, from, h.fd, to) }

func (h folderHandle) erase(name string) error { return unix.Unlinkat(h.fd, name, 0) }

// names gives all names in the folder, as far as they can be read.
func (h folderHandle) names() []string {
	fd, err := unix.Openat(h.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	list := os.NewFile(uintptr(fd), ".")
	defer func() { _ = list.Close() }()
	names, _ := list.Readdirnames(-1)
	return names
}

func (h fileHandle) close() { _ = unix.Close(h.fd) }

func (h fileHandle) stamp() (Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstat(h.fd, &st)
	return stampOf(&st), err
}

// unlinked reports whether the open file was deleted.
func (h fileHandle) unlinked() bool {
	var st unix.Stat_t
	return unix.Fstat(h.fd, &st) == nil && st.Nlink == 0
}

// makePrivate undoes what the umask did to the mode of a new file.
func (h fileHandle) makePrivate() error { return unix.Fchmod(h.fd, fileMode) }

// tryLock locks the file for as long as it is open. held is false where somebody
// else has locked it. The error says that the system has no such locks.
func (h fileHandle) tryLock() (held bool, err error) {
	_, err = again(func() (int, error) { return 0, unix.Flock(h.fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func (h fileHandle) readAt(data []byte, at int64) (int, error) {
	return again(func() (int, error) { return unix.Pread(h.fd, data, at) })
}

func (h fileHandle) writeAt(data []byte, at int64) (int, error) {
	return again(func() (int, error) { return unix.Pwrite(h.fd, data, at) })
}

func (h fileHandle) cut(size int64) error {
	_, err := again(func() (int, error) { return 0, unix.Ftruncate(h.fd, size) })
	return err
}
