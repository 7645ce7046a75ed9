package privatedir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// readTries is how often a file is read that changes while it is read.
const readTries = 5

// A Folder is an open folder that belongs to the user alone. [Open] and [Make] open
// one, and [Folder.Close] closes it. It is safe for concurrent use.
type Folder struct {
	handle folderHandle
	path   string
	stamp  Stamp
	step   Steps
}

// Open opens the folder at path, which may be a link to it. The error matches
// fs.ErrNotExist where there is none, and [ErrDamaged] where it is not a folder
// that belongs to the user alone, which means mode 0700 where the system has modes.
// step may be nil.
func Open(path string, step Steps) (*Folder, error) {
	return newFolder(&Folder{path: path, step: step}, func() (Stamp, error) { return lookFolder(path, FollowLink) }, func() (folderHandle, error) {
		return openFolder(path)
	})
}

// Make opens the folder at path. Where it or a folder above it is missing, it makes
// that for the user alone.
func Make(path string, step Steps) (*Folder, error) {
	f, err := Open(path, step)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := makePath(path, step); err != nil {
		return nil, fault.System("making the folder "+path, err)
	}
	return Open(path, step)
}

func makePath(path string, step Steps) error {
	parent := filepath.Dir(path)
	if _, err := lookFolder(parent, FollowLink); errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := makePath(parent, step); err != nil {
			return err
		}
	}
	if err := step.before("make folder"); err != nil {
		return err
	}
	return makeFolder(path)
}

// newFolder checks a folder twice. The check before opening lets the error say what
// is wrong with a folder that cannot be opened. Only the check of the open folder
// is reliable, because another folder may have got the path in between.
func newFolder(f *Folder, look func() (Stamp, error), open func() (folderHandle, error)) (*Folder, error) {
	before, err := look()
	if err != nil {
		return nil, missingOr("looking at the folder "+f.path, err)
	}
	if err := privateFolder(before, f.path); err != nil {
		return nil, err
	}
	if f.handle, err = open(); err != nil {
		return nil, missingOr("opening the folder "+f.path, err)
	}
	if f.stamp, err = f.handle.stamp(); err != nil {
		f.Close()
		return nil, fault.System("looking at the folder "+f.path, err)
	}
	if err := privateFolder(f.stamp, f.path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the folder.
func (f *Folder) Close() { f.handle.close() }

// Path is the path that the folder was opened by.
func (f *Folder) Path() string { return f.path }

// join gives the path of a name in f.
func (f *Folder) join(name string) string { return filepath.Join(f.path, name) }

// Open opens a folder in f, which must not be a link. Its errors are those of
// the function Open.
func (f *Folder) Open(name string) (*Folder, error) {
	return newFolder(&Folder{path: f.join(name), step: f.step}, func() (Stamp, error) {
		now, err := f.handle.look(name)
		return now.ofFolder(), err
	}, func() (folderHandle, error) { return f.handle.openFolder(name) })
}

// Make opens a folder in f and makes it where it is missing.
func (f *Folder) Make(name string) (*Folder, error) {
	sub, err := f.Open(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return sub, err
	}
	err = f.step.before("make folder")
	if err == nil {
		err = f.handle.makeFolder(name)
	}
	if err == nil {
		err = f.sync()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fault.System("making the folder "+f.join(name), err)
	}
	return f.Open(name)
}

// Replaced reports whether the path of f now leads to another folder, or to none.
func (f *Folder) Replaced(links Links) bool {
	now, err := lookFolder(f.path, links)
	return err != nil || now != f.stamp
}

// sync syncs the names in the folder to the disk.
func (f *Folder) sync() error {
	err := f.step.before("sync folder")
	if err == nil {
		err = f.handle.sync()
	}
	if unsyncable(err) {
		return nil // the file system does not sync folders
	}
	return err
}

// Look gives the stamp of the file or folder with a name in f, without following a
// link. It gives the zero Stamp where there is none.
func (f *Folder) Look(name string) (Stamp, error) {
	now, err := f.handle.look(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, nil
	}
	if err != nil {
		return Stamp{}, fault.System("looking at "+f.join(name), err)
	}
	return now, nil
}

// Read reads a file that belongs to the user alone, and gives its stamp. The error
// matches fs.ErrNotExist where there is none. It matches [ErrDamaged] where the
// name is that of anything else, which Read does not even open, or where the file
// is longer than limit bytes.
func (f *Folder) Read(name string, limit int64) ([]byte, Stamp, error) {
	path := f.join(name)
	for range readTries {
		seen, err := f.Look(name)
		switch {
		case err != nil:
			return nil, Stamp{}, err
		case seen == Stamp{}:
			return nil, Stamp{}, fs.ErrNotExist
		}
		if err := privateFile(seen, path); err != nil {
			return nil, Stamp{}, err
		}
		if seen.size > limit {
			return nil, Stamp{}, damaged(fmt.Sprintf("%s is larger than %d KiB", path, limit>>10))
		}
		data, err := f.readSeen(name, path, seen)
		if !errors.Is(err, errAgain) {
			return data, seen, err
		}
	}
	return nil, Stamp{}, damaged(path + " changed all the time while it was read")
}

// readSeen reads the file with the stamp seen. It returns errAgain where another
// file has got the name, or the file has changed.
func (f *Folder) readSeen(name, path string, seen Stamp) ([]byte, error) {
	file, err := f.openSeen(name, path)
	if err != nil {
		return nil, err
	}
	defer file.close()
	unchanged := func() error {
		now, err := file.stampOf(path)
		if err == nil && now != seen {
			err = errAgain
		}
		return err
	}
	if err := unchanged(); err != nil {
		return nil, err
	}
	data := make([]byte, seen.size)
	for n := 0; n < len(data); {
		got, err := file.readAt(data[n:], int64(n))
		switch {
		case err != nil:
			return nil, fault.System("reading "+path, err)
		case got == 0:
			return nil, errAgain
		}
		n += got
	}
	return data, unchanged()
}

// openSeen opens a file that was there a moment ago. It returns errAgain where it
// is gone, or has become a link.
func (f *Folder) openSeen(name, path string) (fileHandle, error) {
	file, err := f.handle.openFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), isLink(err):
		return file, errAgain
	case err != nil:
		return file, fault.System("opening "+path, err)
	}
	return file, nil
}

// stampOf gives the stamp of an open file.
func (h fileHandle) stampOf(path string) (Stamp, error) {
	now, err := h.stamp()
	if err != nil {
		return Stamp{}, fault.System("looking at "+path, err)
	}
	return now, nil
}

// Erase deletes a file. It returns nil where there is none. Where the name is not
// that of a plain file of the user, Erase leaves it alone and the error matches
// [ErrDamaged].
func (f *Folder) Erase(name string) error {
	path := f.join(name)
	now, err := f.Look(name)
	if err != nil || now == (Stamp{}) {
		return err
	}
	if err := replaceable(now, path); err != nil {
		return err
	}
	err = f.step.before("erase")
	if err == nil {
		err = f.handle.erase(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return f.refused("deleting", name, err)
	}
	if err := f.sync(); err != nil {
		return fault.System(path+" is deleted, but that may not outlast a power failure: syncing its folder", err, ErrNotSynced)
	}
	return nil
}

// refused makes the error of a file that could not be replaced or deleted. It names
// the reason where the attributes of file and folder give one.
func (f *Folder) refused(doing, name string, err error) error {
	if known := f.CanReplace(name); known != nil {
		return known
	}
	return fault.System(doing+" "+f.join(name), err)
}

// CanReplace returns an error where the attributes of the file or its folder show
// that the system lets nobody replace or delete the file. Without this check, only
// the last step of replacing it would fail. A nil error means that no such reason
// is known.
func (f *Folder) CanReplace(name string) error {
	path := f.join(name)
	switch f.handle.obstacleTo(name) {
	case mounted:
		return fault.New(path+" cannot be replaced, because it is mounted by itself: mount the whole folder "+f.path+", and not single files of it", errBusy)
	case immutable:
		return fault.New(path+" cannot be replaced, because it, or its folder, is marked as immutable or append-only: take the mark away (chattr -i -a)", errNotPermitted)
	}
	return nil
}

// obstacle is what keeps a file from being replaced.
type obstacle int

const (
	noObstacle obstacle = iota // none is known
	mounted                    // the file is a mount point
	immutable                  // the file or its folder is marked as immutable or append-only
)
