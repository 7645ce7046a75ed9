package privatedir

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	errBusy         = windows.ERROR_BUSY
	errNotPermitted = windows.ERROR_ACCESS_DENIED
)

// identity gives a stamp with the identity and the times of an open file.
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
