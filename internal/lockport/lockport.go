// Package lockport has the names of the files in a registry folder and of the
// locks on it (contract, section 5). Package namedlock derives the port of a lock
// from its name.
package lockport

import (
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/internal/namedlock"
)

// The names in a registry folder: the file of the connections, and the folder of
// the logins.
const (
	Book   = "agent-connections.json"
	Logins = "agent-connections"
)

// Registry gives the name of the lock that every change of the registry in a
// folder takes. The path of the folder is absolute and clean.
func Registry(folder string) string { return "registry:" + filepath.Join(folder, Book) }

// Login gives the name of the lock that every refresh of the login of a
// connection key takes.
func Login(folder, key string) string { return "file:" + filepath.Join(folder, Logins, key+".json") }

// firstEphemeral is the first port that Linux may choose for an outgoing
// connection. A connection of any program on the machine could therefore hold a
// lock whose port is this one or a higher one.
const firstEphemeral = 32768

// Quiet gives, for a test, the path of a folder whose locks no other program
// disturbs: no two of them have the same port, and the system gives none of their
// ports to outgoing connections. The folder is within base, or within base with
// something added to its name.
func Quiet(base, folder string, keys ...string) (path string) {
	for ; ; base += "x" {
		if path = filepath.Join(base, folder); IsQuiet(path, keys...) {
			return path
		}
	}
}

// IsQuiet reports, for a test, whether the locks of the folder at path have such
// ports as [Quiet] chooses.
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
