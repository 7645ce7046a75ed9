package registry

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
)

func loginFile(key string) string { return key + ".json" }

// loginFiles are a vault of plain files. Without consent they can be deleted,
// and neither read nor written.
type loginFiles struct {
	root    string
	consent bool
	now     func() time.Time
	step    steps

	mu    sync.Mutex
	files map[string]*watched[*Credentials]

	// saving orders the renames of this process.
	saving sync.Mutex
}

// file gives the watched file of a key.
func (v *loginFiles) file(key string) *watched[*Credentials] {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.files[key]
	if w == nil {
		if v.files == nil || len(v.files) >= MaxConnections {
			v.files = map[string]*watched[*Credentials]{} // some are of connections that are gone
		}
		w = &watched[*Credentials]{
			dir:   filepath.Join(v.root, lockport.Logins),
			path:  filepath.Join(v.root, lockport.Logins, loginFile(key)),
			limit: MaxCredentialsSize,
			open:  v.open,
			links: refuseLink,
			parse: func(data []byte) (*Credentials, string) {
				credentials, flaw := decodeCredentials(data)
				return &credentials, flaw
			},
			now: v.now,
		}
		v.files[key] = w
	}
	return w
}

// open opens the folder of the credential files.
func (v *loginFiles) open() (*folder, error) {
	root, err := openFolder(v.root, v.step)
	if err != nil {
		return nil, err
	}
	defer root.close()
	return root.open(lockport.Logins)
}

// openToChange does what open does, and sweeps both folders.
func (v *loginFiles) openToChange(open func(root *folder, name string) (*folder, error)) (*folder, error) {
	root, err := openFolder(v.root, v.step)
	if err != nil {
		return nil, err
	}
	defer root.close()
	root.sweep()
	logins, err := open(root, lockport.Logins)
	if err == nil {
		logins.sweep()
	}
	return logins, err
}

func (v *loginFiles) read(connection *Connection) (*Credentials, error) {
	if !v.consent {
		return nil, fail(noConsent)
	}
	file := v.file(connection.Key)
	credentials, err := file.get()
	if err := ofConnection(connection, file.path, credentials, err); err != nil {
		return nil, err
	}
	return credentials, nil
}

// ofConnection says why what was read from a file, if anything was, is no login
// of the connection.
func ofConnection(connection *Connection, path string, credentials *Credentials, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotLoggedIn
	case err != nil:
		return err
	case !connection.owns(credentials):
		return damaged(path + " holds the login of another Hub, client app or workspace")
	}
	return nil
}

func (v *loginFiles) write(connection *Connection, credentials Credentials) error {
	if !v.consent {
		return fail(noConsent)
	}
	data, err := EncodeCredentials(credentials)
	if err != nil {
		return err
	}
	logins, err := v.openToChange((*folder).make)
	if err != nil {
		return missing(err, v.root)
	}
	defer logins.close()
	d, err := logins.draft(loginFile(connection.Key))
	if err != nil {
		return err
	}
	defer d.discard()
	if err := d.fill(data); err != nil {
		return err
	}
	v.saving.Lock()
	defer v.saving.Unlock()
	return d.replace()
}

func (v *loginFiles) erase(key string) error {
	logins, err := v.openToChange((*folder).open)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	defer logins.close()
	v.saving.Lock()
	defer v.saving.Unlock()
	return logins.erase(loginFile(key))
}

func (v *loginFiles) begin(connection *Connection) (*Credentials, rotation, error) {
	if !v.consent {
		return nil, nil, fail(noConsent)
	}
	r := &fileRotation{vault: v, file: v.file(connection.Key), connection: connection}
	if err := r.begin(); err != nil {
		r.end()
		return nil, nil, err
	}
	return r.before, r, nil
}

// fileRotation is a rotation whose file is there already, with room for all
// that it may have to hold.
type fileRotation struct {
	vault      *loginFiles
	file       *watched[*Credentials]
	connection *Connection

	before *Credentials
	logins *folder
	draft  *draft
	// spare is a descriptor kept back: comparing must not fail for want of one
	// when the old refresh token is used up.
	spare *folder
}

func (r *fileRotation) begin() (err error) {
	r.logins, err = r.vault.openToChange((*folder).open)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotLoggedIn
	}
	if err != nil {
		return err
	}
	now, err := r.file.read(r.logins)
	if err == nil {
		r.before = now.value
	}
	if err := ofConnection(r.connection, r.file.path, r.before, err); err != nil {
		return err
	}
	if err := r.logins.canReplace(loginFile(r.connection.Key)); err != nil {
		return err
	}
	data, err := EncodeCredentials(*r.before)
	if err != nil {
		return err
	}
	if r.draft, err = r.logins.draft(loginFile(r.connection.Key)); err != nil {
		return err
	}
	// Only the two tokens can get longer, and all of a token may be escaped.
	if err := r.draft.reserve(int64(len(data) + 2*2*identifier.MaxToken)); err != nil {
		return err
	}
	r.spare, err = r.vault.open()
	return missing(err, r.vault.root)
}

func (r *fileRotation) save(after Credentials) error {
	data, err := EncodeCredentials(after)
	if err != nil {
		return err
	}
	if err := r.draft.fill(data); err != nil {
		return err
	}
	r.vault.saving.Lock()
	defer r.vault.saving.Unlock()
	r.spare.close()
	r.spare = nil
	if r.logins.replaced(refuseLink) {
		return ErrChanged
	}
	now, err := r.file.read(r.logins)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrChanged
	case err != nil:
		return err
	case !now.value.Equal(*r.before):
		return ErrChanged
	}
	return r.draft.replaceIf(now.file)
}

func (r *fileRotation) end() {
	if r.spare != nil {
		r.spare.close()
	}
	if r.draft != nil {
		r.draft.discard()
	}
	if r.logins != nil {
		r.logins.close()
	}
}
