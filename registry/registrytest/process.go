package registrytest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/registry"
)

// childName is what this package's children are called.
const childName = "registrytest"

// Child lets the suite start this test program as another process that has the
// store open: call it first in TestMain, and give fixtures an Address. Open opens a
// store by such an address. In a process that the suite has started Child does not
// return; in every other one it does nothing.
//
//	func TestMain(m *testing.M) {
//		registrytest.Child(func(address string) (registry.Store, error) { return mystore.Open(address) })
//		os.Exit(m.Run())
//	}
func Child(open func(address string) (registry.Store, error)) {
	childtest.RunOnly(childName, func(args []string) error {
		fmt.Println(childName)
		if len(args) < 4 {
			return errors.New("too few arguments")
		}
		// The first keeps a program that does not call Child from running its tests.
		address, key, does := args[1], args[2], args[3]
		store, err := open(address)
		if err != nil {
			return fmt.Errorf("opening the store: %w", err)
		}
		work := works[does]
		if work == nil {
			return fmt.Errorf("there is no work %q", does)
		}
		return work(store, key)
	})
}

// works are what another process does to a store.
var works = map[string]func(store registry.Store, key string) error{
	"hold":  holdInChild,
	"try":   tryInChild,
	"count": countInChild,
}

// holdInChild makes an update that ends when it is told to go on.
func holdInChild(store registry.Store, key string) error {
	return store.UpdateCredentials(context.Background(), key, func(ctx context.Context, c registry.Credentials) (registry.Credentials, error) {
		if err := childtest.Proceed("holding"); err != nil {
			return c, err
		}
		return rotate(ctx, c)
	})
}

// tryInChild tries an update for as long as it is patient, and says what became
// of it.
func tryInChild(store registry.Store, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var runs atomic.Int64
	err := store.UpdateCredentials(ctx, key, counted(&runs, same))
	switch {
	case runs.Load() > 0:
		fmt.Println("ran")
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("waited")
	default:
		fmt.Println("returned", describe(err))
	}
	return nil
}

// The work of counting: each process counts the access token up so often, by so
// many goroutines.
const (
	countingProcesses = 2
	countingWorkers   = 3
	countingTimes     = 4
)

func countInChild(store registry.Store, key string) error {
	if err := childtest.Proceed("ready"); err != nil {
		return err
	}
	return countUp(store, key)
}

// countUp counts the access token of a key up. An error is what went wrong.
func countUp(store registry.Store, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 6*Limit)
	defer cancel()
	problems := make([]error, countingWorkers)
	var group sync.WaitGroup
	for i := range countingWorkers {
		group.Go(func() {
			for range countingTimes {
				err := store.UpdateCredentials(ctx, key, func(_ context.Context, c registry.Credentials) (registry.Credentials, error) {
					n, err := strconv.Atoi(c.AccessToken.Reveal())
					if err != nil {
						return c, errors.New("update was given credentials that nobody saved under this key")
					}
					c.AccessToken = registry.NewSecret(strconv.Itoa(n + 1))
					return c, nil
				})
				if err != nil {
					problems[i] = err
					return
				}
			}
		})
	}
	group.Wait()
	for _, err := range problems {
		if err != nil {
			return errors.New(describe(err))
		}
	}
	return nil
}

// startChild starts another process that does a work on a key.
func (s *scene) startChild(does, key string) *childtest.Child {
	s.Helper()
	child := childtest.Start(s, childName, "-test.run=^$", s.Address, key, does)
	if line, _ := child.Line(); line != childName {
		s.Fatal("registrytest: Fixture.Address is set, and the test program opens no store in another process: call registrytest.Child first in TestMain")
	}
	return child
}

// says waits for a line of a child, and reports whether it is this one.
func (s *scene) says(child *childtest.Child, want string) bool {
	s.Helper()
	line, _ := child.Line()
	if line == want {
		return true
	}
	said, _ := child.End()
	s.Errorf("registrytest: another process says %q; want %q", strings.TrimSpace(line+"\n"+said), want)
	return false
}

// excludesOtherProcesses holds an update here while another process wants one of
// the same key, and the other way round. Then all of them count up.
func excludesOtherProcesses(s *scene) {
	if s.Address == "" {
		s.Log("registrytest: Fixture.Address is empty, so this is not checked")
		return
	}
	here := s.handles[0]
	release := s.hold(here, s.a.Key, rotate)
	child := s.startChild("try", s.a.Key)
	line, _ := child.Line()
	s.childEnds(child)
	switch line {
	case "waited":
	case "ran":
		s.breaks(exclusion, "update ran in another process while one was running through %s: the exclusion does not reach across processes", here.name)
	default:
		s.breaks(exclusion, "UpdateCredentials in another process whose context ended while it waited %s; want context.DeadlineExceeded", line)
	}
	if err := release(); err != nil {
		s.breaks(saving, "UpdateCredentials through %s that another process waited for: %s; want no error", here.name, describe(err))
	}
	want := rotated(s.loginA)
	s.stored(saving, "after an update that another process waited for", s.a, want)

	child = s.startChild("hold", s.a.Key)
	if !s.says(child, "holding") {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch ran, err := s.tryUpdate(ctx, exclusion, here, "whose context ended while it waited for another process", s.a.Key); {
	case ran:
		s.breaks(exclusion, "update ran through %s while one was running in another process: the exclusion does not reach across processes", here.name)
	case !errors.Is(err, context.DeadlineExceeded):
		s.breaks(exclusion, "UpdateCredentials through %s whose context ended while it waited for another process: %s; want context.DeadlineExceeded", here.name, describe(err))
	}
	s.stored(reads, "while another process has an update running", s.a, want)
	child.GoOn()
	s.childEnds(child)
	want = rotated(want)
	s.stored(saving, "after an update in another process", s.a, want)

	first := login(s.a, 4)
	first.AccessToken = registry.NewSecret("0")
	s.login(first, s.a)
	var children []*childtest.Child
	for range countingProcesses {
		children = append(children, s.startChild("count", s.a.Key))
	}
	for _, child := range children {
		if !s.says(child, "ready") {
			return
		}
	}
	for _, child := range children {
		child.GoOn()
	}
	if err := countUp(here, s.a.Key); err != nil {
		s.breaks(exclusion, "UpdateCredentials through %s, among many in other processes: %v; want no error", here.name, err)
	}
	for _, child := range children {
		s.childEnds(child)
	}
	first.AccessToken = registry.NewSecret(strconv.Itoa((countingProcesses + 1) * countingWorkers * countingTimes))
	s.stored(exclusion, "after many rotations in several processes, each of which counts the access token up by one", s.a, first)
}

// childEnds waits for the end of a child that must have done its work.
func (s *scene) childEnds(child *childtest.Child) {
	s.Helper()
	if said, err := child.End(); err != nil {
		s.breaks(exclusion, "UpdateCredentials in another process: %s; want no error", strings.TrimPrefix(said, "error: "))
	}
}
