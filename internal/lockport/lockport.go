// Package lockport knows what is in a registry folder by name, and its locks by
// name and by port (contract, section 5).
package lockport

import (
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/internal/namedlock"
)

// The names of what is in a folder.
const (
	Book   = "agent-connections.json"
	Logins = "agent-connections"
)

// Registry gives the name of the lock for every change of the registry in a
// folder, whose path is absolute and clean.
func Registry(folder string) string { return "registry:" + filepath.Join(folder, Book) }

// Login gives the name of the lock for every refresh of the login of a key.
func Login(folder, key string) string { return "file:" + filepath.Join(folder, Logins, key+".json") }

// firstEphemeral is the first port that a system gives to connections of its
// own accord; lower ones it gives to nobody.
const firstEphemeral = 32768

// Quiet gives, for a test, the path of a folder within base, or base with
// something added to it, whose locks nobody disturbs: they have ports of their
// own, and none that the system gives to connections.
func Quiet(base, folder string, keys ...string) (path string) {
	for ; ; base += "x" {
		if path = filepath.Join(base, folder); IsQuiet(path, keys...) {
			return path
		}
	}
}

// IsQuiet reports, for a test, whether the folder at path is one that [Quiet]
// gives.
func IsQuiet(path string, keys ...string) bool {
	ports := map[int]bool{namedlock.Port(Registry(path)): true}
	for _, key := range keys {
		ports[namedlock.Port(Login(path, key))] = true
	}
	for port := range ports {
		if port >= firstEphemeral {
			return false
		}
	}
	return len(ports) == 1+len(keys)
}
