package registrytest

import (
	"sync"
	"testing"
)

// Names are the names of the checks.
func Names() (names []string) {
	for _, check := range checks {
		names = append(names, check.name)
	}
	return names
}

// Paragraphs are those of the contract that failures name.
func Paragraphs() []string {
	var names []string
	for _, p := range []paragraph{reads, errs, exclusion, once, saving, failing} {
		names = append(names, string(p))
	}
	return names
}

// Run runs the check of a name.
func Run(tb testing.TB, name string, open func(testing.TB) Fixture) {
	mustOpen(tb, open)
	for _, check := range checks {
		if check.name == name {
			check.run(newScene(tb, open, new(sync.Mutex)))
		}
	}
}
