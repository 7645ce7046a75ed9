package screen_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		environment string
		terminal    int
		want        int
	}{
		{"", 0, 80},
		{"", 72, 72},
		{"", 211, 211},
		{"", 3, 40},
		{"132", 72, 132},
		{"132", 0, 132},
		{"10", 72, 40},
		{"0", 72, 72},
		{"-5", 72, 72},
		{"wide", 72, 72},
		{"99999999999999999999", 72, 72},
		{" 60", 72, 72},
	} {
		if got := screen.ColumnsFor(test.environment, test.terminal); got != test.want {
			t.Errorf("COLUMNS=%q in a terminal of %d: %d, want %d", test.environment, test.terminal, got, test.want)
		}
	}
}

// Whatever the environment says, what goes elsewhere than to a terminal has one
// width.
func TestColumnsOfNoTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "132")
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, got := range map[string]int{
		"a buffer":      screen.ColumnsOf(new(bytes.Buffer)),
		"a file":        screen.ColumnsOf(file),
		"a pipe":        screen.ColumnsOf(writer),
		"a closed file": screen.ColumnsOf(closed),
		"nothing":       screen.ColumnsOf(nil),
	} {
		if got != screen.Plain {
			t.Errorf("%s: %d columns, want %d", name, got, screen.Plain)
		}
	}
}
