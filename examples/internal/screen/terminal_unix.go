//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package screen

import (
	"os"
	"syscall"
	"unsafe"
)

// windowColumns gives how many columns a terminal has; 0 for what is none.
func windowColumns(terminal *os.File) int {
	control, err := terminal.SyscallConn()
	if err != nil {
		return 0
	}
	var size struct{ rows, columns, width, height uint16 }
	var failed syscall.Errno
	err = control.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	})
	if err != nil || failed != 0 {
		return 0
	}
	return int(size.columns)
}
