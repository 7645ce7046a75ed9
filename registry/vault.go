package registry

import "runtime"

// A vault keeps the logins of a folder's connections. Today that is a file for
// each; a keyring of the system would be another.
//
// Its methods are safe for concurrent use. Exclusion between updates is not
// theirs. What read and begin give is shared and must not be changed.
type vault interface {
	// read gives the login of a connection. Without one the error matches
	// ErrNotLoggedIn.
	read(*Connection) (*Credentials, error)
	// write makes valid credentials of a connection its login, in place of one
	// that is there.
	write(*Connection, Credentials) error
	// erase takes the login of a key away, where there is one.
	erase(key string) error
	// begin does what read does, past everything remembered, and makes ready
	// what can be made ready of saving another login in its place. After it,
	// end must be called.
	begin(*Connection) (*Credentials, rotation, error)
}

// newVault gives the vault of this system.
func newVault(d *Dir, settings dirSettings) (vault, error) {
	switch runtime.GOOS {
	case "linux", "freebsd", "netbsd", "openbsd", "dragonfly":
		return &loginFiles{root: d.path, consent: settings.consent, now: d.clock, step: d.before}, nil
	case "darwin":
		return sealed{keychain}, nil
	}
	return nil, fail(dpapi)
}

// A rotation is a save that was made ready.
type rotation interface {
	// save saves credentials in place of those that begin gave. Where others
	// or none are stored by now, they win: ErrChanged.
	save(Credentials) error
	end()
}

// sealed is a vault that this package cannot open.
type sealed struct{ reason string }

func (v sealed) read(*Connection) (*Credentials, error)            { return nil, fail(v.reason) }
func (v sealed) write(*Connection, Credentials) error              { return fail(v.reason) }
func (v sealed) erase(string) error                                { return fail(v.reason) }
func (v sealed) begin(*Connection) (*Credentials, rotation, error) { return nil, nil, fail(v.reason) }

const (
	noConsent = "logins are kept in plain files here, which the host has not allowed: open the folder with registry.AllowPlainCredentials"
	keychain  = "logins are kept in Keychain on macOS, which this package cannot open yet"
	dpapi     = "a registry on disk is not supported on this system yet: its logins are kept elsewhere (DPAPI on Windows), which this package cannot open"
)
