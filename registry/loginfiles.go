package registry

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

func loginFile(key string) string { return key + ".json" }

// loginFiles is a vault of unencrypted files. Without consent it only deletes them,
// and neither reads nor writes one.
type loginFiles struct {
	root    string
	consent bool
	now     func() time.Time
	step    privatedir.Steps

	mu    sync.Mutex
	files map[string]*privatedir.Watched[*Credentials]

	// saving is held while a credential file is replaced or deleted, so that two
	// goroutines of this process never do that at once.
	saving sync.Mutex
}

// file gives the watched file of a key.
func (v *loginFiles) file(key string) *privatedir.Watched[*Credentials] {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.files[key]
	if w == nil {
		if v.files == nil || len(v.files) >= MaxConnections {
			v.files = map[string]*privatedir.Watched[*Credentials]{} // drops the files of removed connections
		}
		w = &privatedir.Watched[*Credentials]{
			Folder: filepath.Join(v.root, lockport.Logins),
			Path:   filepath.Join(v.root, lockport.Logins, loginFile(key)),
			Limit:  MaxCredentialsSize,
			Open:   v.open,
			Links:  privatedir.RefuseLink,
			Parse: func(data []byte) (*Credentials, string) {
				credentials, flaw := decodeCredentials(data)
				return &credentials, flaw
			},
			Now: v.now,
		}
		v.files[key] = w
	}
	return w
}

// open opens the folder of the credential files.
func (v *loginFiles) open() (*privatedir.Folder, error) {
	root, err := privatedir.Open(v.root, v.step)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(lockport.Logins)
}

// openToChange does what open does, and deletes what crashes have left in both
// folders.
func (v *loginFiles) openToChange(open func(root *privatedir.Folder, name string) (*privatedir.Folder, error)) (*privatedir.Folder, error) {
	root, err := privatedir.Open(v.root, v.step)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	root.Sweep(isTarget)
	logins, err := open(root, lockport.Logins)
	if err == nil {
		logins.Sweep(isTarget)
	}
	return logins, err
}

// isTarget reports whether a registry has files of this name.
func isTarget(name string) bool {
	key, _ := strings.CutSuffix(name, ".json")
	return name == lockport.Book || name == loginFile(key) && identifier.ConnectionKey(key)
}

func (v *loginFiles) read(connection *Connection) (*Credentials, error) {
	if !v.consent {
		return nil, fail(noConsent)
	}
	file := v.file(connection.Key)
	credentials, err := file.Get()
	if err := ofConnection(connection, file.Path, credentials, err); err != nil {
		return nil, err
	}
	return credentials, nil
}

// ofConnection returns an error unless credentials, which were read from the file at
// path with the error err, are a login of the connection.
func ofConnection(connection *Connection, path string, credentials *Credentials, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotLoggedIn
	case err != nil:
		return translated(err)
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
	logins, err := v.openToChange((*privatedir.Folder).Make)
	if err != nil {
		return missing(translated(err), v.root)
	}
	defer logins.Close()
	d, err := logins.Draft(loginFile(connection.Key))
	if err != nil {
		return translated(err)
	}
	defer d.Discard()
	if err := d.Fill(data); err != nil {
		return translated(err)
	}
	v.saving.Lock()
	defer v.saving.Unlock()
	return translated(d.Replace())
}

func (v *loginFiles) erase(key string) error {
	logins, err := v.openToChange((*privatedir.Folder).Open)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return translated(err)
	}
	defer logins.Close()
	v.saving.Lock()
	defer v.saving.Unlock()
	return translated(logins.Erase(loginFile(key)))
}

func (v *loginFiles) begin(connection *Connection) (*Credentials, rotation, error) {
	if !v.consent {
		return nil, nil, fail(noConsent)
	}
	r := &fileRotation{vault: v, file: v.file(connection.Key), connection: connection}
	if err := r.begin(); err != nil {
		r.end()
		return nil, nil, translated(err)
	}
	return r.before, r, nil
}

// fileRotation is a rotation whose temporary file exists and has room on the disk
// for the longest credentials that it may have to save.
type fileRotation struct {
	vault      *loginFiles
	file       *privatedir.Watched[*Credentials]
	connection *Connection

	before *Credentials
	logins *privatedir.Folder
	draft  *privatedir.Draft
	// spare is an open folder that save closes before it reads the file again. So
	// save has a free file descriptor, even where the process has no other: without
	// it, it could not save the new tokens, and the old refresh token is used.
	spare *privatedir.Folder
}

func (r *fileRotation) begin() (err error) {
	r.logins, err = r.vault.openToChange((*privatedir.Folder).Open)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotLoggedIn
	}
	if err != nil {
		return err
	}
	now, err := r.file.Read(r.logins)
	if err == nil {
		r.before = now.Value
	}
	if err := ofConnection(r.connection, r.file.Path, r.before, err); err != nil {
		return err
	}
	if err := r.logins.CanReplace(loginFile(r.connection.Key)); err != nil {
		return err
	}
	data, err := EncodeCredentials(*r.before)
	if err != nil {
		return err
	}
	if r.draft, err = r.logins.Draft(loginFile(r.connection.Key)); err != nil {
		return err
	}
	// Only the two tokens can become longer, and every character of a token may
	// need an escape.
	if err := r.draft.Reserve(int64(len(data) + 2*2*identifier.MaxToken)); err != nil {
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
	if err := r.draft.Fill(data); err != nil {
		return translated(err)
	}
	r.vault.saving.Lock()
	defer r.vault.saving.Unlock()
	r.spare.Close()
	r.spare = nil
	if r.logins.Replaced(privatedir.RefuseLink) {
		return ErrChanged
	}
	now, err := r.file.Read(r.logins)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrChanged
	case err != nil:
		return translated(err)
	case !now.Value.Equal(*r.before):
		return ErrChanged
	}
	return translated(r.draft.ReplaceIf(now.File))
}

func (r *fileRotation) end() {
	if r.spare != nil {
		r.spare.Close()
	}
	if r.draft != nil {
		r.draft.Discard()
	}
	if r.logins != nil {
		r.logins.Close()
	}
}
