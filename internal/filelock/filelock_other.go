//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package filelock

import (
	"errors"
	"os"
)

func lock(*os.File) error   { return errors.ErrUnsupported }
func unlock(*os.File) error { return errors.ErrUnsupported }
