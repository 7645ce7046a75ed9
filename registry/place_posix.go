//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package registry

import (
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// newVault gives the vault of this system.
func newVault(d *Dir, settings dirSettings) (vault, error) {
	if runtime.GOOS == "darwin" {
		return sealed{keychain}, nil
	}
	return &loginFiles{root: d.path, consent: settings.consent, now: d.clock, step: d.before}, nil
}

// absolute gives the path that locks are named after. The working directory is
// what the system says, and not what the shell calls it, as in the other SDK.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	working, err := unix.Getwd()
	if err != nil {
		return "", systemError("finding the working directory", err)
	}
	return filepath.Join(working, path), nil
}
