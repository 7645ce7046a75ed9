package main

import (
	"path/filepath"
	"testing"

	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
)

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	exampletest.Unwritable(t, []string{"--help"}, []string{"--registry", filepath.Join(t.TempDir(), "registry")})
}
