//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lock(file *os.File) error {
	err := flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func unlock(file *os.File) error { return flock(file, unix.LOCK_UN) }

func flock(file *os.File, how int) error {
	connection, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var flocked error
	err = connection.Control(func(fd uintptr) {
		for {
			flocked = unix.Flock(int(fd), how)
			if !errors.Is(flocked, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, flocked)
}
