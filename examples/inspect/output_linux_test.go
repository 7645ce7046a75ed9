package main

import (
	"testing"

	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
)

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	exampletest.Unwritable(t, []string{"--help"}, nil)
}
