package privatedir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// What errors match besides the number of a system's error.
var (
	// ErrDamaged: what has the name is not a plain file, or a folder, of the
	// user alone, or its content is not what it should be. It was left alone.
	ErrDamaged = errors.New("it is damaged, or not private")
	// ErrChanged: another file has the name by now. It was left alone.
	ErrChanged = errors.New("another file has the name")
	// ErrNotSynced: the change was made and may not outlast a power failure.
	ErrNotSynced = errors.New("the change was made, but not synced")
)

// errAgain says that a file changed in the middle of something, which may go
// well the next time. Nobody outside gets to see it.
var errAgain = errors.New("a file has changed meanwhile")

func damaged(text string) error { return fault.New(text, ErrDamaged) }

// missingOr gives fs.ErrNotExist as it is.
func missingOr(doing string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	return fault.System(doing, err)
}

// Steps is asked before each step that changes something on the disk, and an
// error of it counts as one of the system. In use it is nil; a test lets a step
// fail, or the process die there. The steps are "make folder", "create",
// "allocate", "write", "sync", "exchange", "put back", "rename", "sync folder"
// and "erase".
type Steps func(step string) error

func (s Steps) before(step string) error {
	if s == nil {
		return nil
	}
	return s(step)
}

// Absolute gives path as an absolute and clean one. The working directory is
// what the system says, and not what the shell calls it.
func Absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	working, err := workingFolder()
	if err != nil {
		return "", fault.System("finding the working directory", err)
	}
	return filepath.Join(working, path), nil
}
