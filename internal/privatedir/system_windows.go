package privatedir

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	errBusy         = windows.ERROR_BUSY
	errNotPermitted = windows.ERROR_ACCESS_DENIED
)

// identity gives what tells a file from others, and when it was changed last.
func identity(file *os.File) (s Stamp, err error) {
	err = control(file, func(handle windows.Handle) error {
		var known windows.ByHandleFileInformation
		if err := windows.GetFileInformationByHandle(handle, &known); err != nil {
			return err
		}
		s.device = uint64(known.VolumeSerialNumber)
		s.inode = uint64(known.FileIndexHigh)<<32 | uint64(known.FileIndexLow)
		// FILE_BASIC_INFO: four times and the attributes.
		var basic struct {
			created, accessed, written, changed int64 // in 100 ns since 1601
			attributes                          uint32
		}
		if err := windows.GetFileInformationByHandleEx(handle, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic))); err != nil {
			return err
		}
		changed := windows.Filetime{LowDateTime: uint32(basic.changed), HighDateTime: uint32(basic.changed >> 32)}
		s.changed = changed.Nanoseconds()
		return nil
	})
	return s, err
}

func control(file *os.File, do func(windows.Handle) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(windows.Handle(fd)) }); err != nil {
		return err
	}
	return failed
}

// theLock is one byte far behind the end of any file: what is locked cannot be
// read or written by others here.
func theLock() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// tryLock locks the file for as long as it is open, unless another one has it
// locked. The error says that the system has no such locks.
func (h fileHandle) tryLock() (held bool, err error) {
	err = control(h.File, func(handle windows.Handle) error {
		return windows.LockFileEx(handle, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, theLock())
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func (h fileHandle) unlock() {
	_ = control(h.File, func(handle windows.Handle) error { return windows.UnlockFileEx(handle, 0, 1, 0, theLock()) })
}
