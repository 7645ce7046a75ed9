package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
)

var storageNamespace = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}\z`)

// DefaultDir gives the path of the folder that the programs of this user share:
// .config/bailinghub in the home folder, or, with a storage namespace, the
// folder below it that only programs of the same namespace use. A namespace is
// 1 to 64 characters a-z, 0-9, ".", "_" and "-", the first a letter or a
// digit; "" is none.
//
// A program that lets its user choose a namespace reads it from an option of its
// own or from BAILINGHUB_AGENT_CLIENT_STORAGE_NAMESPACE, and refuses to start where
// the two differ. This package does not read that variable: it reads the environment
// for the home folder only.
func DefaultDir(namespace string) (string, error) {
	if namespace != "" && !storageNamespace.MatchString(namespace) {
		return "", invalid("the storage namespace must be 1 to 64 characters a-z, 0-9, ., _ and -, the first a letter or a digit")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", fail("the home folder is not known, or not an absolute path")
	}
	path := filepath.Join(home, ".config", "bailinghub")
	if namespace == "" {
		return path, nil
	}
	sum := sha256.Sum256([]byte("bailinghub.agent-client-storage.v1\x00" + namespace))
	return filepath.Join(path, "hosts", "host-"+hex.EncodeToString(sum[:16])), nil
}
