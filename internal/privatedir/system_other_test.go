//go:build !linux || privatedir_root

package privatedir_test

import "errors"

var errNotHere = errors.New("this is for Linux")

func childWithSingleMounts([]string) error { return errNotHere }
