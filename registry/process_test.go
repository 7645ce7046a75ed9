//go:build linux

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

func TestMain(m *testing.M) {
	registrytest.Child(func(path string) (registry.Store, error) {
		return registry.OpenDir(path, registry.AllowPlainCredentials())
	})
	childtest.Run(children)
	goleak.VerifyTestMain(m, goleak.Cleanup(childtest.Descriptors()))
}

// children are what other processes do. They speak through their output; an
// error is a failure.
var children = map[string]func(args []string) error{
	"operate":               childThatOperates,
	"hold":                  childThatHolds,
	"count":                 childThatCounts,
	"umask":                 childWithUmask,
	"read-only":             childWithoutLeave,
	"full disk":             childOnFullDisk,
	"read-only file system": childOnReadOnly,
	"single mounts":         childWithSingleMounts,
	"file size":             childWithFileLimit,
	"descriptors":           childWithoutDescriptors,
}

// childThatOperates PATH OPERATION [kill|stop STEP] makes one change, in which
// the process ends or stops before the step of that number.
func childThatOperates(args []string) error {
	d, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	if len(args) > 2 {
		signal := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[args[2]]
		d.SetStep(atStep(args[3], func(string) error { return childtest.Raise(signal) }))
	}
	err = operations[args[1]](d)
	fmt.Println("changed:", errors.Is(err, registry.ErrChanged))
	if errors.Is(err, registry.ErrChanged) {
		return nil
	}
	return err
}

// childThatHolds PATH makes an update that does not end by itself.
func childThatHolds(args []string) error {
	d, err := registry.OpenDir(args[0], registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	return d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
		return rotated(c), childtest.Proceed("holding")
	})
}

// atStep gives a function for SetStep that calls do at the step of a number,
// from 1, or of a name.
func atStep(which string, do func(step string) error) func(step string) error {
	n := 0
	return func(step string) error {
		n++
		if fmt.Sprint(n) == which || step == which {
			which = ""
			return do(step)
		}
		return nil
	}
}

// operations are the changes of a folder in which shop is registered and logged
// in.
var operations = map[string]func(*registry.Dir) error{
	"register": func(d *registry.Dir) error {
		_, err := d.Register(context.Background(), other("orders"), registry.WithAlias("orders"))
		return err
	},
	"set current": func(d *registry.Dir) error { return d.SetCurrent(context.Background(), key) },
	"log in": func(d *registry.Dir) error {
		return d.SaveCredentials(context.Background(), key, newer(credentials()))
	},
	"log out": func(d *registry.Dir) error { return d.DeleteCredentials(context.Background(), key) },
	"rotate": func(d *registry.Dir) error {
		return d.UpdateCredentials(context.Background(), key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
			return rotated(c), nil
		})
	},
	"remove": func(d *registry.Dir) error { return d.Remove(context.Background(), key) },
}
