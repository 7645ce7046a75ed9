package main

import (
	"testing"

	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	exampletest.Unwritable(t, []string{"--help"}, nil)
}
