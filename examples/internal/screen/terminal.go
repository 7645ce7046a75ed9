package screen

import (
	"io"
	"os"
	"strconv"
)

// ColumnsOf gives how wide to write to w: as wide as it is where it is a
// terminal, and otherwise Plain, so that a file reads the same whatever
// window it comes from.
func ColumnsOf(w io.Writer) int {
	if !IsTerminal(w) {
		return Plain
	}
	return columns(os.Getenv("COLUMNS"), windowColumns(w.(*os.File)))
}

// IsTerminal tells whether w is one. What changes in place, such as a count of
// what is done, goes nowhere else.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// columns gives the width of a terminal: what the environment says, else what
// the terminal says, which is 0 where it says nothing.
func columns(environment string, terminal int) int {
	width, err := strconv.Atoi(environment)
	switch {
	case err == nil && width > 0:
	case terminal > 0:
		width = terminal
	default:
		width = Plain
	}
	return max(narrowest, width)
}
