//go:build windows || privatedir_root

package privatedir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/internal/filelock"
)

// This file does what system_posix.go does with package os alone, for Windows. With
// the build tag privatedir_root its tests run on Linux too.

// A folderHandle is an open folder, a fileHandle an open file.
type (
	folderHandle struct{ *os.Root }
	fileHandle   struct{ *os.File }
)

func workingFolder() (string, error) { return os.Getwd() }

// ownedByUser is true for every file: its access list decides who may open it, and
// this package does not check that.
func (s Stamp) ownedByUser() bool { return true }

// isLink is false for every error: opening a link does not fail here, but the stamp
// of what was opened is not that of the name, which was checked before.
func isLink(error) bool { return false }

func unsyncable(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// kindOf gives the mode for a stamp. It has the kind of the file, and the
// permissions that the checks demand, because a file has no others here.
func kindOf(info fs.FileInfo) uint32 {
	switch {
	case info.Mode().IsRegular():
		return kindRegular | fileMode
	case info.IsDir():
		return kindFolder | folderMode
	}
	return fileMode // a link, or something else
}

// lookFolder gives the stamp of a folder by its path; the error is that of the
// system.
func lookFolder(path string, links Links) (Stamp, error) {
	look := os.Stat
	if links == RefuseLink {
		look = os.Lstat
	}
	info, err := look(path)
	if err != nil {
		return Stamp{}, err
	}
	if !info.IsDir() {
		return Stamp{mode: kindOf(info)}, nil
	}
	h, err := openFolder(path)
	if err != nil {
		return Stamp{}, err
	}
	defer h.close()
	return h.stamp()
}

// lookFile does what lookFolder does for a file, and follows no link.
func lookFile(path string) (Stamp, error) {
	h, err := openFolder(filepath.Dir(path))
	if err != nil {
		return Stamp{}, err
	}
	defer h.close()
	return h.look(filepath.Base(path))
}

// ofFolder gives the stamp without what changes with every file in the folder.
func (s Stamp) ofFolder() Stamp {
	s.size, s.modified, s.changed = 0, 0, 0
	return s
}

func openFolder(path string) (folderHandle, error) {
	root, err := os.OpenRoot(path)
	return folderHandle{root}, err
}

// makeFolder makes a folder for the user alone, at a path where nothing is.
func makeFolder(path string) error {
	if err := os.Mkdir(path, folderMode); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (h folderHandle) close() { _ = h.Root.Close() }

func (h folderHandle) stamp() (Stamp, error) {
	s, err := h.look(".")
	return s.ofFolder(), err
}

func (h folderHandle) sync() error { return errors.ErrUnsupported }

// look gives the stamp of a name in the folder, without following a link.
func (h folderHandle) look(name string) (Stamp, error) {
	info, err := h.Lstat(name)
	if err != nil {
		return Stamp{}, err
	}
	if kind := kindOf(info); kind == fileMode {
		return Stamp{mode: kind}, nil // it is never opened, so that its kind is enough
	}
	file, err := h.Root.Open(name)
	if err != nil {
		return Stamp{}, err
	}
	defer func() { _ = file.Close() }()
	return fileHandle{file}.stamp()
}

func (h folderHandle) openFolder(name string) (folderHandle, error) {
	root, err := h.OpenRoot(name)
	return folderHandle{root}, err
}

func (h folderHandle) makeFolder(name string) error { return h.Mkdir(name, folderMode) }

// openFile opens a file for reading. Where its name is a link, the stamp of the open
// file shows that.
func (h folderHandle) openFile(name string) (fileHandle, error) {
	file, err := h.Root.Open(name)
	return fileHandle{file}, err
}

// createFile makes a file with a name that nothing has.
func (h folderHandle) createFile(name string) (fileHandle, error) {
	file, err := h.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	return fileHandle{file}, err
}

func (h folderHandle) rename(from, to string) error { return h.Rename(from, to) }

func (h folderHandle) exchange(string, string) error { return errors.ErrUnsupported }

func (h folderHandle) erase(name string) error { return h.Remove(name) }

func (h folderHandle) obstacleTo(string) obstacle { return noObstacle }

// names gives all names in the folder, as far as they can be read.
func (h folderHandle) names() []string {
	list, err := h.Root.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = list.Close() }()
	names, _ := list.Readdirnames(-1)
	return names
}

func (h fileHandle) close() { _ = h.File.Close() }

// stamp gives the stamp of the open file: its identity, kind and times.
func (h fileHandle) stamp() (Stamp, error) {
	info, err := h.Stat()
	if err != nil {
		return Stamp{}, err
	}
	s, err := identity(h.File)
	s.mode, s.size, s.modified = kindOf(info), info.Size(), info.ModTime().UnixNano()
	return s, err
}

func (h fileHandle) unlinked() bool { return false }

func (h fileHandle) makePrivate() error { return nil }

// tryLock locks the file for as long as it is open. held is false where somebody
// else has locked it. The error says that the system has no such locks.
func (h fileHandle) tryLock() (held bool, err error) {
	err = filelock.Lock(h.File)
	if errors.Is(err, filelock.ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

func (h fileHandle) readAt(data []byte, at int64) (int, error) {
	n, err := h.ReadAt(data, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (h fileHandle) writeAt(data []byte, at int64) (int, error) { return h.WriteAt(data, at) }

func (h fileHandle) allocate(int64) error { return errors.ErrUnsupported }

func (h fileHandle) cut(size int64) error { return h.Truncate(size) }

func (h fileHandle) sync() error { return h.Sync() }
