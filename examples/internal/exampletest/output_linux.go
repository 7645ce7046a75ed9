package exampletest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Unwritable runs the program once for each list of arguments, with a disk
// without room and then with a closed pipe for its output. Each time it has to
// fail, to say why in one line, and to leave no file in the folder for temporary
// ones.
func Unwritable(t *testing.T, runs ...[]string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	reader, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	reader.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range runs {
		for _, stdout := range []*os.File{full, unread} {
			temporary := t.TempDir()
			var stderr bytes.Buffer
			command := exec.CommandContext(t.Context(), program, args...)
			command.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+temporary, "HOME="+temporary)
			command.Stdout, command.Stderr = stdout, &stderr
			_ = command.Run() // the status says it
			left, err := os.ReadDir(temporary)
			if err != nil {
				t.Fatal(err)
			}
			status, lines := command.ProcessState.ExitCode(), strings.Count(stderr.String(), "\n")
			why := "no space left on device"
			if stdout == unread {
				why = "broken pipe"
			}
			if status != 1 || lines != 1 || !strings.HasSuffix(stderr.String(), why+"\n") || len(left) > 0 {
				t.Errorf("%q into %s: %v, stderr %q, left behind: %v", args, stdout.Name(), command.ProcessState, &stderr, left)
			}
		}
	}
}
