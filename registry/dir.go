package registry

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/namedlock"
	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// Dir is a registry on disk: a folder with a file of connections and a
// credential file for each login, shared with every other process that opens
// it, those of the TypeScript SDK of the Hub too. Either side reads and writes
// what the other wrote, and takes the same locks.
//
// # Files
//
// The folder and its subfolder have mode 0700, the files 0600, and all of them
// belong to the user who runs the program. A link may lead to the folder;
// inside of it there is none. A file that is anything else, or whose content is
// not what a registry writes, is refused with an error that names it and
// matches [ErrDamaged]. It is never repaired and never written over; only a new
// login or its deletion replaces a credential file of the user's own that is
// damaged. A folder that is not there is an empty registry and is made with the
// first write.
//
// Reading costs a look at the files: from two seconds after a change on they
// are not read again while they are unchanged. Any change, by whomever, shows
// in the next call.
//
// # Locks
//
// Processes exclude each other by listening on a port of 127.0.0.1 that is
// computed from the path: for every change of the registry, and for every
// update of a login. It is waited for up to 20 seconds or until the context
// ends; the error matches [ErrLocked] and names the lock and its port, because
// another program may have the port. [Dir.UpdateLock] names them for a host
// that gives up before the folder does. The locks of a process are free when it ends, however it ends.
//
// So every process must open the folder by the same path, links in it included,
// and containers that share a folder must share the loopback interface too:
// else the lock does not hold, and two of them can refresh one session at once,
// which ends it.
//
// # Saving
//
// A file is written under a temporary name, synced and renamed, and the folder
// is synced: it is whole after a crash at any moment. What a crash leaves of
// temporary files is deleted with a later change. For an update, file and
// room are there before it is run, so that a full disk shows before a refresh
// token is used up; so does a credential file that the system does not let
// anybody replace, because it is mounted by itself or immutable. A save that
// failed all the same changed nothing, and can be tried again with another
// update that gives back the same credentials. Where only the sync of the folder
// fails, the save has been made, and the error matches [ErrNotSynced].
//
// A Dir keeps nothing open. It is safe for concurrent use and must not be
// copied. Errors of its methods match feedback.CodeInvalidRequest where an
// argument is wrong, the error of the context where that has ended, and that of
// the operating system where it had one.
type Dir struct {
	path  string
	file  privatedir.Watched[*book]
	vault vault
	locks namedlock.Machine
	now   func() time.Time
	step  privatedir.Steps
}

var (
	_ LoginReader  = (*Dir)(nil)
	_ LockReporter = (*Dir)(nil)
)

// DirOption says more about a folder that is opened.
type DirOption func(*dirSettings) error

type dirSettings struct{ consent bool }

// AllowPlainCredentials is the consent of the host, and of the person it works
// for, to logins in files that whoever becomes this user can read. Without it
// the connections of a folder can be read and changed, and logins deleted, but
// not read or saved.
func AllowPlainCredentials() DirOption {
	return func(s *dirSettings) error {
		s.consent = true
		return nil
	}
}

// OpenDir gives the registry in a folder; see [DefaultDir] for where it mostly
// is. A relative path is taken from the working directory of this moment. The
// folder is not looked at before it is used.
//
// On macOS, where logins are kept in Keychain, those are refused, with or
// without [AllowPlainCredentials]. On Windows OpenDir is an error.
func OpenDir(path string, options ...DirOption) (*Dir, error) {
	var settings dirSettings
	for _, option := range options {
		if option == nil {
			return nil, invalid("an option must not be nil")
		}
		if err := option(&settings); err != nil {
			return nil, err
		}
	}
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, invalid("the path of the folder must not be empty or contain a zero byte")
	}
	d := &Dir{now: time.Now}
	var err error
	if d.path, err = privatedir.Absolute(path); err != nil {
		return nil, translated(err)
	}
	d.file.Folder, d.file.Path, d.file.Limit = d.path, filepath.Join(d.path, lockport.Book), maxBookSize
	d.file.Open, d.file.Links = d.open, privatedir.FollowLink
	d.file.Parse, d.file.Now = decodeBook, d.clock
	if d.vault, err = newVault(d, settings); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Dir) clock() time.Time { return d.now() }

func (d *Dir) open() (*privatedir.Folder, error) { return privatedir.Open(d.path, d.before) }

// before asks the steps of a test, which may come at any time.
func (d *Dir) before(step string) error {
	if d.step == nil {
		return nil
	}
	return d.step(step)
}

// Register does what [Memory.Register] does. The registry must also fit in
// 256 KiB.
func (d *Dir) Register(ctx context.Context, descriptor Descriptor, options ...RegisterOption) (entry Connection, err error) {
	const doing = "registering a connection"
	if err := ready(ctx, doing); err != nil {
		return Connection{}, err
	}
	r, err := NewRegistration(descriptor, options...)
	if err != nil {
		return Connection{}, err
	}
	err = d.change(ctx, func(b *book) (changed bool, err error) {
		entry, changed, err = b.register(r, d.now())
		return changed, err
	}, nothing)
	if err != nil {
		return Connection{}, err
	}
	return entry, nil
}

// List does what [Memory.List] does.
func (d *Dir) List(ctx context.Context) ([]Connection, error) {
	if err := ready(ctx, "listing connections"); err != nil {
		return nil, err
	}
	b, err := d.book()
	if err != nil {
		return nil, err
	}
	return slices.Clone(b.connections), nil
}

// Remove does what [Memory.Remove] does. The login goes first: should the
// process end in between, the connection is there without one.
func (d *Dir) Remove(ctx context.Context, key string) error {
	if err := d.check(ctx, "removing a connection", key); err != nil {
		return err
	}
	return d.change(ctx, func(b *book) (bool, error) {
		return true, b.remove(key)
	}, func() error { return d.vault.erase(key) })
}

// SaveCredentials does what [Memory.SaveCredentials] does. A credential file
// that is damaged is replaced; what is no plain file of the user's is left
// alone.
func (d *Dir) SaveCredentials(ctx context.Context, key string, credentials Credentials) error {
	if err := d.check(ctx, "saving credentials", key); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		entry, err := d.entry(key)
		if err != nil {
			return err
		}
		normal, err := entry.accept(credentials)
		if err != nil {
			return err
		}
		return d.vault.write(entry, normal)
	})
}

// DeleteCredentials does what [Memory.DeleteCredentials] does. What is no plain
// file of the user's is left alone.
func (d *Dir) DeleteCredentials(ctx context.Context, key string) error {
	if err := d.check(ctx, "deleting credentials", key); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		if _, err := d.entry(key); err != nil {
			return err
		}
		return d.vault.erase(key)
	})
}

// SetCurrent does what [Memory.SetCurrent] does.
func (d *Dir) SetCurrent(ctx context.Context, key string) error {
	const doing = "changing the current connection"
	if key == "" {
		if err := ready(ctx, doing); err != nil {
			return err
		}
	} else if err := d.check(ctx, doing, key); err != nil {
		return err
	}
	return d.change(ctx, func(b *book) (bool, error) {
		before := b.current
		err := b.setCurrent(key)
		return b.current != before, err
	}, nothing)
}

// Rename does what [Memory.Rename] does.
func (d *Dir) Rename(ctx context.Context, key, alias string) error {
	if err := d.check(ctx, renaming, key); err != nil {
		return err
	}
	return d.change(ctx, func(b *book) (bool, error) { return b.rename(key, alias, d.now()) }, nothing)
}

// Current does what [Memory.Current] does.
func (d *Dir) Current(ctx context.Context) (Connection, error) {
	if err := ready(ctx, "reading the current connection"); err != nil {
		return Connection{}, err
	}
	b, err := d.book()
	if err != nil {
		return Connection{}, err
	}
	return b.find(b.current)
}

// ByAlias does what [Memory.ByAlias] does.
func (d *Dir) ByAlias(ctx context.Context, alias string) (Connection, error) {
	if err := ready(ctx, "reading a connection"); err != nil {
		return Connection{}, err
	}
	b, err := d.book()
	if err != nil {
		return Connection{}, err
	}
	return b.byAlias(alias)
}

// Connection implements [Store].
func (d *Dir) Connection(ctx context.Context, key string) (Connection, error) {
	if err := d.check(ctx, "reading a connection", key); err != nil {
		return Connection{}, err
	}
	entry, err := d.entry(key)
	if err != nil {
		return Connection{}, err
	}
	return *entry, nil
}

// Credentials implements [Store].
func (d *Dir) Credentials(ctx context.Context, key string) (Credentials, error) {
	if err := d.check(ctx, "reading credentials", key); err != nil {
		return Credentials{}, err
	}
	entry, err := d.entry(key)
	if err != nil {
		return Credentials{}, err
	}
	credentials, err := d.vault.read(entry)
	if err != nil {
		return Credentials{}, err
	}
	return *credentials, nil
}

// ConnectionCredentials implements [LoginReader].
func (d *Dir) ConnectionCredentials(ctx context.Context, key string) (Connection, Credentials, error) {
	if err := d.check(ctx, "reading a login", key); err != nil {
		return Connection{}, Credentials{}, err
	}
	entry, err := d.entry(key)
	if err != nil {
		return Connection{}, Credentials{}, err
	}
	credentials, err := d.vault.read(entry)
	if err != nil {
		return Connection{}, Credentials{}, err
	}
	return *entry, *credentials, nil
}

// UpdateCredentials implements [Store]. Update runs in the goroutine of the
// caller, and not before everything is ready to save what it returns. A change
// of the registry inside update waits for the lock of its own.
func (d *Dir) UpdateCredentials(ctx context.Context, key string, update func(context.Context, Credentials) (Credentials, error)) error {
	if err := d.check(ctx, "updating credentials", key); err != nil {
		return err
	}
	if update == nil {
		return invalid("the update must not be nil")
	}
	// Where there is nothing to update, nobody waits.
	entry, err := d.entry(key)
	if err != nil {
		return err
	}
	if _, err := d.vault.read(entry); err != nil {
		return err
	}
	unlock, err := d.locks.Lock(ctx, lockport.Login(d.path, key))
	if err != nil {
		return translated(err)
	}
	defer unlock()

	if entry, err = d.entry(key); err != nil {
		return err
	}
	before, rotation, err := d.vault.begin(entry)
	if err != nil {
		return err
	}
	defer rotation.end()
	after, err := update(ctx, *before)
	if err != nil {
		return err
	}
	if after.Equal(*before) {
		return nil
	}
	// Where the registry cannot be read just now, the rotation is saved all the
	// same: it is all that is left of the session.
	if _, err := d.entry(key); errors.Is(err, ErrNotFound) {
		return ErrChanged
	}
	normal, err := entry.accept(after)
	if err != nil {
		return err
	}
	return rotation.save(normal)
}

// UpdateLock implements [LockReporter].
func (d *Dir) UpdateLock(key string) string { return namedlock.Describe(lockport.Login(d.path, key)) }

// check refuses a context and a key that cannot be used.
func (d *Dir) check(ctx context.Context, doing, key string) error {
	if err := ready(ctx, doing); err != nil {
		return err
	}
	return checkKey(key)
}

// book gives the registry as it is now. It is shared and must not be changed.
func (d *Dir) book() (*book, error) {
	b, err := d.file.Get()
	if errors.Is(err, fs.ErrNotExist) {
		return &book{}, nil
	}
	return b, translated(err)
}

// entry gives what is shared, too.
func (d *Dir) entry(key string) (*Connection, error) {
	b, err := d.book()
	if err != nil {
		return nil, err
	}
	return b.entry(key)
}

// locked calls do under the lock of the registry.
func (d *Dir) locked(ctx context.Context, do func() error) error {
	unlock, err := d.locks.Lock(ctx, lockport.Registry(d.path))
	if err != nil {
		return translated(err)
	}
	defer unlock()
	return do()
}

// change changes the registry: edit is given a copy to change and says whether
// there is anything to save; it may be called again. Last is called when
// nothing is left to do but the rename.
func (d *Dir) change(ctx context.Context, edit func(*book) (changed bool, err error), last func() error) error {
	return d.locked(ctx, func() error {
		for range changeTries {
			if err := d.tryChange(edit, last); err != errAgain {
				return translated(err)
			}
		}
		return fail("saving the registry: somebody without the lock changed " + d.file.Path + " all the time")
	})
}

// changeTries bounds how often a change is made anew because somebody who does
// not keep to the lock changed the registry meanwhile: errAgain.
const changeTries = 5

var errAgain = errors.New("the registry has changed meanwhile")

func nothing() error { return nil }

func (d *Dir) tryChange(edit func(*book) (changed bool, err error), last func() error) error {
	b, was, err := d.read()
	if err != nil {
		return err
	}
	if changed, err := edit(b); err != nil || !changed {
		return err
	}
	data, err := b.encode()
	if err != nil {
		return err
	}
	root, err := privatedir.Make(d.path, d.before)
	if err != nil {
		return missing(err, d.path)
	}
	defer root.Close()
	root.Sweep(isTarget)
	draft, err := root.Draft(lockport.Book)
	if err != nil {
		return err
	}
	defer draft.Discard()
	if err := draft.Fill(data); err != nil {
		return err
	}
	unsynced := last()
	if unsynced != nil && !errors.Is(unsynced, ErrNotSynced) {
		return unsynced
	}
	now, err := root.Look(lockport.Book)
	switch {
	case err != nil:
		return err
	case now != was || root.Replaced(privatedir.FollowLink):
		return errAgain
	}
	if err := draft.Replace(); err != nil {
		return err
	}
	return unsynced
}

// read gives a copy of the registry and the stamp of its file.
func (d *Dir) read() (*book, privatedir.Stamp, error) {
	var none privatedir.Stamp
	root, err := d.open()
	if errors.Is(err, fs.ErrNotExist) {
		return &book{}, none, nil
	}
	if err != nil {
		return nil, none, err
	}
	defer root.Close()
	now, err := d.file.Read(root)
	if errors.Is(err, fs.ErrNotExist) {
		return &book{}, none, nil
	}
	if err != nil {
		return nil, none, err
	}
	return &book{connections: slices.Clone(now.Value.connections), current: now.Value.current}, now.File, nil
}
