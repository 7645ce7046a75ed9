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

// Dir is a registry on disk: a folder with a file of connections and a credential
// file for each login. It is shared with every other process that opens the folder,
// including those that use the TypeScript SDK of the Hub. Both SDKs read and write
// the same files and take the same locks.
//
// # Files
//
// The folder and its subfolder have mode 0700 and the files 0600, and all of them
// belong to the user who runs the program. The path of the folder may be a link to
// it, but nothing inside it may be a link. A Dir refuses anything else, and a file
// with content that no registry writes, with an error that names the file and
// matches [ErrDamaged]. It never repairs or overwrites such a file, with one
// exception: a new login replaces, and a deletion deletes, a damaged credential file
// that belongs to the user. A folder that does not exist is an empty registry; the
// first write makes it.
//
// Every read checks the stamps of the files (size, times and so on). A file is read
// again only where its stamp has changed, or its last change was less than two
// seconds ago. Every change, by any process, is seen by the next call.
//
// # Locks
//
// For every change of the registry, and for every update of a login, a process takes
// a lock by listening on a port of 127.0.0.1 that is computed from the path of the
// folder. It waits for the port for up to 20 seconds, or until the context ends. The
// error then matches [ErrLocked] and names the lock and its port, because another
// program may have the port. [Dir.UpdateLock] names them for a host that stops
// waiting earlier. The system releases the locks of a process when it ends, however
// it ends.
//
// So every process must open the folder by the same path, links in it included, and
// containers that share a folder must share the loopback interface too. Otherwise
// they do not exclude each other: two of them can refresh one session at once, and
// the Hub then ends the session.
//
// # Saving
//
// A file is written under a temporary name, synced and renamed, and then the folder
// is synced. So a crash at any moment leaves the old or the new file, and never a
// part of one. A later change deletes temporary files that a crash has left.
//
// Before an update runs, its temporary file exists and has room on the disk. A full
// disk is therefore an error before the refresh token is used, and not after it.
// The same holds for a credential file that nobody can replace, because it is
// mounted by itself or immutable. Where a save fails nevertheless, nothing has
// changed, and another update that returns the same credentials can try it again.
// Where only the sync of the folder fails, the file is saved, and the error matches
// [ErrNotSynced].
//
// A Dir keeps nothing open. It is safe for concurrent use and must not be
// copied. Errors of its methods match feedback.CodeInvalidRequest where an argument
// is wrong, the error of the context where that has ended, and the error of the
// operating system where that failed.
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

// DirOption is an option of [OpenDir].
type DirOption func(*dirSettings) error

type dirSettings struct{ consent bool }

// AllowPlainCredentials says that the host, and the person it works for, agree to
// keep logins in unencrypted files, which every program of this user can read.
// Without this option a Dir reads and changes connections and deletes logins, but
// refuses to read or save a login.
func AllowPlainCredentials() DirOption {
	return func(s *dirSettings) error {
		s.consent = true
		return nil
	}
}

// OpenDir gives the registry in a folder; [DefaultDir] gives the usual one. A
// relative path begins at the working directory of the moment of the call. OpenDir
// does not access the folder; the first use of the Dir does.
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

// before calls the function that a test may set in step, at any time.
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
	}, noLastStep)
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

// Remove does what [Memory.Remove] does. It deletes the login before the connection:
// should the process end in between, the connection remains without a login. The
// other way round, a login would remain that nobody finds any more.
func (d *Dir) Remove(ctx context.Context, key string) error {
	if err := d.check(ctx, "removing a connection", key); err != nil {
		return err
	}
	return d.change(ctx, func(b *book) (bool, error) {
		return true, b.remove(key)
	}, func() error { return d.vault.erase(key) })
}

// SaveCredentials does what [Memory.SaveCredentials] does. It replaces a damaged
// credential file, but leaves alone what is not a plain file of the user.
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

// DeleteCredentials does what [Memory.DeleteCredentials] does. It leaves alone what
// is not a plain file of the user.
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
	}, noLastStep)
}

// Rename does what [Memory.Rename] does.
func (d *Dir) Rename(ctx context.Context, key, alias string) error {
	if err := d.check(ctx, renaming, key); err != nil {
		return err
	}
	return d.change(ctx, func(b *book) (bool, error) { return b.rename(key, alias, d.now()) }, noLastStep)
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

// UpdateCredentials implements [Store]. update runs in the goroutine of the caller,
// after everything has been prepared for saving what it returns. A change of the
// registry inside update takes the lock of the registry, which is another one.
func (d *Dir) UpdateCredentials(ctx context.Context, key string, update func(context.Context, Credentials) (Credentials, error)) error {
	if err := d.check(ctx, "updating credentials", key); err != nil {
		return err
	}
	if update == nil {
		return invalid("the update must not be nil")
	}
	// This check comes before the lock, so that a call without a login to update
	// does not wait for another one.
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
	// Where the registry cannot be read at this moment, the new tokens are saved
	// nevertheless: the Hub no longer accepts the old ones.
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

// check returns an error for a context that is nil or has ended, and for a key that
// is not valid.
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

// entry gives the entry of a key. It is shared and must not be changed.
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

// change changes the registry under its lock. edit gets a copy of the book, changes
// it and reports whether it has to be saved; edit may be called more than once. last
// is called when the new file is written and only has to be renamed.
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

// changeTries is how often a change is tried where somebody who does not take the
// lock keeps changing the registry in between, which is errAgain.
const changeTries = 5

var errAgain = errors.New("the registry has changed meanwhile")

// noLastStep is the last of a change that has nothing to do before the rename.
func noLastStep() error { return nil }

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
