package screen_test

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

func TestColumnsOfATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Logf("there are no terminals here: %v", err)
		return
	}
	defer terminal.Close()
	// One whose size nobody has set has none.
	if got := screen.ColumnsOf(terminal); got != screen.Plain {
		t.Errorf("without a size: %d columns", got)
	}
	size := struct{ rows, columns, width, height uint16 }{rows: 24, columns: 73}
	if _, _, failed := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); failed != 0 {
		t.Fatal(failed)
	}
	if got := screen.ColumnsOf(terminal); got != 73 {
		t.Errorf("%d columns, want 73", got)
	}
	t.Setenv("COLUMNS", "90")
	if got := screen.ColumnsOf(terminal); got != 90 {
		t.Errorf("with COLUMNS: %d columns, want 90", got)
	}
}
