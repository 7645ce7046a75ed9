package journaltest

import "testing"

// Names are the names of the checks.
func Names() (names []string) {
	for _, check := range checks {
		names = append(names, check.name)
	}
	return names
}

// Run runs the check of a name.
func Run(tb testing.TB, name string, open func(testing.TB) Fixture) {
	for _, check := range checks {
		if check.name == name {
			runCheck(tb, check.run, open)
		}
	}
}
