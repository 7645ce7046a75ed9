package privatedir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// The sentinels that the errors of this package match, besides the errno of a
// system's error.
var (
	// ErrDamaged: what has the name is not a plain file or a folder that belongs
	// to the user alone, or its content is not valid. It was left alone.
	ErrDamaged = errors.New("it is damaged, or not private")
	// ErrChanged: another process has replaced the file. It was left alone.
	ErrChanged = errors.New("another file has the name")
	// ErrNotSynced: the change was made and may not outlast a power failure.
	ErrNotSynced = errors.New("the change was made, but not synced")
)

// errAgain says that a file changed while it was read, so that reading it again
// may succeed. It never leaves this package.
var errAgain = errors.New("a file has changed meanwhile")

func damaged(text string) error { return fault.New(text, ErrDamaged) }

// missingOr gives fs.ErrNotExist for an error that matches it, and the error of a
// system that refused what doing describes for any other.
func missingOr(doing string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	return fault.System(doing, err)
}

// Steps is called before each step that changes something on the disk. An error
// that it returns is treated like an error of the system. It is nil except in
// tests, which let a step fail, or the process die before it. The steps are "make
// folder", "create", "allocate", "write", "sync", "exchange", "put back",
// "rename", "sync folder" and "erase".
type Steps func(step string) error

func (s Steps) before(step string) error {
	if s == nil {
		return nil
	}
	return s(step)
}

// Absolute makes path absolute and clean. It asks the system for the working
// directory and does not use $PWD, in which the shell may have followed links.
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
