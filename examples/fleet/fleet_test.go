package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		os.Exit(m.Run())
	}
	if err := runReplica(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A small fleet whose replicas are killed: each operation is told once, and
// nothing is sent.
func TestFleet(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), options{operations: 60, replicas: 2, kills: 2, every: 2 * time.Second, limit: 4 * time.Minute}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"60, each once: true", "over the network   0", "60 jobs, and 0 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "synthetic-") {
		t.Error("a token is in the output")
	}
}
