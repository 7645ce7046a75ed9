//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package registry

import "errors"

func allocate(int, int64) error { return errors.ErrUnsupported }

func exchange(int, string, string) error { return errors.ErrUnsupported }
