package registry

import "runtime"

// A vault keeps the logins of the connections of a folder. The one there is keeps a
// file for each; another one could use a keyring of the system.
//
// Its methods are safe for concurrent use. The caller, not the vault, excludes other
// updates. What read and begin give is shared and must not be changed.
type vault interface {
	// read gives the login of a connection. Without one the error matches
	// ErrNotLoggedIn.
	read(*Connection) (*Credentials, error)
	// write makes valid credentials of a connection its login, in place of the one
	// that it may have.
	write(*Connection, Credentials) error
	// erase deletes the login of a key, where there is one.
	erase(key string) error
	// begin reads the login from the storage, without using what the vault has
	// remembered of it, and prepares saving another login in its place. The caller
	// must call end of the rotation afterwards.
	begin(*Connection) (*Credentials, rotation, error)
}

// newVault gives the vault of this system.
func newVault(d *Dir, settings dirSettings) (vault, error) {
	switch runtime.GOOS {
	case "linux", "freebsd", "netbsd", "openbsd", "dragonfly":
		return &loginFiles{root: d.path, consent: settings.consent, now: d.clock, step: d.before}, nil
	case "darwin":
		return closedVault{keychain}, nil
	}
	return nil, fail(dpapi)
}

// A rotation is a save that was prepared.
type rotation interface {
	// save saves credentials in place of those that begin gave. It returns
	// ErrChanged where these are no longer what is stored.
	save(Credentials) error
	end()
}

// closedVault is the vault of a system where this package keeps no logins. Every
// method returns an error with the reason.
type closedVault struct{ reason string }

func (v closedVault) read(*Connection) (*Credentials, error) { return nil, fail(v.reason) }
func (v closedVault) write(*Connection, Credentials) error   { return fail(v.reason) }
func (v closedVault) erase(string) error                     { return fail(v.reason) }
func (v closedVault) begin(*Connection) (*Credentials, rotation, error) {
	return nil, nil, fail(v.reason)
}

const (
	noConsent = "logins are kept in plain files here, which the host has not allowed: open the folder with registry.AllowPlainCredentials"
	keychain  = "logins are kept in Keychain on macOS, which this package cannot open yet"
	dpapi     = "a registry on disk is not supported on this system yet: its logins are kept elsewhere (DPAPI on Windows), which this package cannot open"
)
