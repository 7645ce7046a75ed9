package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// The locked range is one byte far behind the end of any file. Windows lets
// nobody else read a locked range, so a lock of the content would keep others
// from reading the file.
const (
	lockedByteLow  = 0xfffffffe
	lockedByteHigh = 0x7fffffff
)

func lock(file *os.File) error {
	err := control(file, func(handle windows.Handle, at *windows.Overlapped) error {
		return windows.LockFileEx(handle, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

func unlock(file *os.File) error {
	return control(file, func(handle windows.Handle, at *windows.Overlapped) error {
		return windows.UnlockFileEx(handle, 0, 1, 0, at)
	})
}

func control(file *os.File, do func(windows.Handle, *windows.Overlapped) error) error {
	connection, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	err = connection.Control(func(handle uintptr) {
		done = do(windows.Handle(handle), &windows.Overlapped{Offset: lockedByteLow, OffsetHigh: lockedByteHigh})
	})
	return errors.Join(err, done)
}
