package childtest_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
)

func TestMain(m *testing.M) {
	childtest.RunOnly("one", func([]string) error { fmt.Println("the one"); return nil })
	childtest.Run(map[string]func([]string) error{
		"work": func(args []string) error { return childtest.Proceed(strings.Join(args, "+")) },
		"fail": func([]string) error { return errors.New("it did not work") },
	})
	os.Exit(m.Run())
}

func TestChild(t *testing.T) {
	t.Parallel()
	c := childtest.Start(t, "work", "a", "b")
	c.Says("a+b")
	c.GoOn()
	if said := c.Done(); said != "" {
		t.Errorf("the child says %q at its end", said)
	}
	if said := childtest.Start(t, "one").Done(); said != "the one" {
		t.Errorf("the child says %q", said)
	}
	for name, want := range map[string]string{"fail": "error: it did not work", "other": `there is nothing called "other"`} {
		if said, err := childtest.Start(t, name).End(); err == nil || said != want {
			t.Errorf("a child that fails says %q, %v; want %q", said, err, want)
		}
	}
}
