//go:build unix

package journal_test

import (
	"path/filepath"
	"syscall"
	"testing"
)

func noPlainFiles(t *testing.T, folder string) []string {
	t.Helper()
	fifo := filepath.Join(folder, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	return []string{fifo, "/dev/null", "/dev/zero"}
}
