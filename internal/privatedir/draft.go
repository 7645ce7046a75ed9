package privatedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"regexp"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// A Draft is a temporary file in the folder of its target, the file that it will
// replace. It is locked until it is discarded or its process ends, also after it
// has got the name of its target: [Folder.Sweep] tells by the lock which drafts
// are in use and which ones a crash has left. Whoever makes a Draft calls
// [Draft.Discard] at the end, whether it replaced the target or not.
//
// A Draft is for one goroutine at a time. Its folder must stay open.
type Draft struct {
	folder *Folder
	file   fileHandle
	name   string // of the temporary file; "" when that needs no deleting any more
	target string
}

// drafts matches the names of temporary files and gives the name of the target.
var drafts = regexp.MustCompile(`^\.(.+)\.[0-9a-f]{16}\.tmp$`)

// Draft makes an empty draft for the file named target.
func (f *Folder) Draft(target string) (*Draft, error) {
	doing := "making a temporary file in " + f.path
	for {
		if err := f.step.before("create"); err != nil {
			return nil, fault.System(doing, err)
		}
		var bits [8]byte
		_, _ = rand.Read(bits[:]) // never fails
		d := &Draft{folder: f, target: target, name: "." + target + "." + hex.EncodeToString(bits[:]) + ".tmp"}
		var err error
		d.file, err = f.handle.createFile(d.name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fault.System(doing, err)
		}
		// Until it is locked, a sweep may take the file for one that a crash has
		// left, and delete it: then this draft needs another file. Where the file
		// system has no such locks, a sweep deletes nothing.
		if held, err := d.file.tryLock(); err == nil && !held || d.file.unlinked() {
			d.file.close()
			continue
		}
		if err := d.file.makePrivate(); err != nil {
			d.Discard()
			return nil, fault.System(doing, err)
		}
		return d, nil
	}
}

func (d *Draft) path() string { return d.folder.join(d.target) }

// Reserve makes sure that the disk has room for size bytes. Where the file system
// cannot reserve room, it writes size zero bytes.
func (d *Draft) Reserve(size int64) error {
	err := d.folder.step.before("allocate")
	if err == nil {
		err = d.file.allocate(size)
	}
	if err == nil {
		return nil
	}
	if err := d.write(make([]byte, size)); err != nil {
		return fault.System("making room for "+d.path(), err)
	}
	return nil
}

// Fill makes data the content of the draft and syncs it to the disk.
func (d *Draft) Fill(data []byte) error {
	if err := d.write(data); err != nil {
		return fault.System("writing "+d.path(), err)
	}
	return nil
}

func (d *Draft) write(data []byte) error {
	if err := d.folder.step.before("write"); err != nil {
		return err
	}
	if err := d.file.writeAll(data, 0); err != nil {
		return err
	}
	if err := d.file.cut(int64(len(data))); err != nil {
		return err
	}
	if err := d.folder.step.before("sync"); err != nil {
		return err
	}
	return d.file.sync()
}

// writeAll writes data at an offset.
func (h fileHandle) writeAll(data []byte, at int64) error {
	for len(data) > 0 {
		n, err := h.writeAt(data, at)
		if err != nil {
			return err
		}
		data, at = data[n:], at+int64(n)
	}
	return nil
}

// Replace gives the draft the name of its target, in place of the file that has it
// now. After an error that matches [ErrNotSynced] the target is replaced; after
// any other error it is as it was. Where the target is not a plain file of the
// user, Replace leaves it alone and the error matches [ErrDamaged].
func (d *Draft) Replace() error {
	now, err := d.folder.Look(d.target)
	if err != nil {
		return err
	}
	if err := replaceable(now, d.path()); err != nil {
		return err
	}
	err = d.folder.step.before("rename")
	if err == nil {
		err = d.folder.handle.rename(d.name, d.target)
	}
	if err != nil {
		return d.folder.refused("replacing", d.target, err)
	}
	d.name = ""
	return d.syncRename()
}

// syncRename syncs the folder, so that a rename outlasts a power failure.
func (d *Draft) syncRename() error {
	if err := d.folder.sync(); err != nil {
		return fault.System(d.path()+" is saved, but may not outlast a power failure: syncing its folder", err, ErrNotSynced)
	}
	return nil
}

// ReplaceIf does what Replace does, but only while the target is the file with the
// stamp was; otherwise it returns [ErrChanged].
//
// Comparing and renaming are two steps, and a process can be stopped between them
// for any time. If it renamed then, it would overwrite what another process has
// saved meanwhile. So ReplaceIf exchanges the names of draft and target, which is
// one step, and then compares the stamp of the file that had the target's name.
// When that is another file, ReplaceIf exchanges the names again. Where the system
// cannot exchange names, ReplaceIf compares and renames right after each other.
func (d *Draft) ReplaceIf(was Stamp) error {
	in, err := d.file.stampOf(d.path())
	if err != nil {
		return err
	}
	err = d.folder.step.before("exchange")
	if err == nil {
		err = d.folder.handle.exchange(d.name, d.target)
	}
	if err != nil {
		switch now, err := d.folder.Look(d.target); {
		case err != nil:
			return err
		case now != was:
			return ErrChanged
		}
		return d.Replace()
	}
	out, err := d.folder.Look(d.name)
	switch {
	case err != nil:
		return fault.New(d.path()+" is saved, but what it replaced cannot be looked at", ErrNotSynced, err)
	case out.sameFile(was):
		return d.syncRename()
	}
	// Another process had saved a newer file, which now has the name of the
	// draft. Exchange the names again, and once more for every process that saves
	// in between, until the file that comes back is the one put in last: then the
	// newest file has the name of the target.
	for {
		err := d.folder.step.before("put back")
		if err == nil {
			err = d.folder.handle.exchange(d.name, d.target)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return ErrChanged // another process deleted one of the two, so nothing older must be put back
		case err != nil:
			return d.giveBack(err)
		}
		next, err := d.folder.Look(d.name)
		if err != nil {
			return err
		}
		if next.sameFile(in) {
			_ = d.syncRename()
			return ErrChanged
		}
		in, out = out, next
	}
}

// giveBack renames the newer file, which has the name of the draft, back to the
// target where the names could not be exchanged again. why is the reason for that.
func (d *Draft) giveBack(why error) error {
	kept := d.name
	d.name = "" // Discard must not delete the newer file
	err := d.folder.step.before("rename")
	if err == nil {
		err = d.folder.handle.rename(kept, d.target)
	}
	if err != nil {
		return fault.System("putting back the newer "+d.path()+", which is in "+kept, why)
	}
	_ = d.syncRename()
	return ErrChanged
}

// Discard closes the draft, and deletes its file unless that has become the target.
func (d *Draft) Discard() {
	d.file.close()
	if d.name != "" {
		_ = d.folder.handle.erase(d.name)
		d.name = ""
	}
}

// Sweep deletes the drafts that crashed processes have left in the folder, as far
// as it can. ours reports whether a name is that of a target of the caller; Sweep
// leaves drafts of other targets alone. Where there are no drafts, it only reads
// the names in the folder.
func (f *Folder) Sweep(ours func(target string) bool) {
	for _, name := range f.handle.names() {
		if parts := drafts.FindStringSubmatch(name); parts != nil && ours(parts[1]) {
			f.sweepOne(name, parts[1])
		}
	}
}

// sweepOne deletes a draft that nobody uses. After ReplaceIf has exchanged the
// names, the older file has the name of the draft and is not locked, but the target
// is: so neither of the two may be locked.
func (f *Folder) sweepOne(name, target string) {
	for _, name := range [...]string{name, target} {
		now, err := f.Look(name)
		if err != nil || replaceable(now, name) != nil {
			return
		}
		file, err := f.handle.openFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return
		}
		defer file.close()
		if held, err := file.tryLock(); err != nil || !held {
			return
		}
	}
	// No draft gets a name that another one had, so this deletes the file that was
	// checked.
	_ = f.handle.erase(name)
}
