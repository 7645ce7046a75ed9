package privatedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"regexp"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// A Draft is a file in the making: a temporary file in the folder of the file
// that it is to become. It is locked as long as its process lives, also when it
// has got the name of its target, which tells it from what a crash has left.
// Whoever began it calls [Draft.Discard] at the end, whatever became of it.
//
// A Draft is for one goroutine at a time. Its folder must stay open.
type Draft struct {
	folder *Folder
	file   fileHandle
	name   string // "" once there is nothing to clean up
	target string
}

// drafts are the names of temporary files, with the name of the target in them.
var drafts = regexp.MustCompile(`^\.(.+)\.[0-9a-f]{16}\.tmp$`)

// Draft begins a file that is to become target.
func (f *Folder) Draft(target string) (*Draft, error) {
	doing := "making a temporary file in " + f.path
	for {
		if err := f.step.before("create"); err != nil {
			return nil, fault.System(doing, err)
		}
		var bits [8]byte
		_, _ = rand.Read(bits[:]) // It never fails.
		d := &Draft{folder: f, target: target, name: "." + target + "." + hex.EncodeToString(bits[:]) + ".tmp"}
		var err error
		d.file, err = f.handle.createFile(d.name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fault.System(doing, err)
		}
		// Until here a sweep takes it for abandoned. Where the file system has no
		// such locks, nothing is ever swept.
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

// Reserve makes sure that there is room for size bytes. Where the file system
// gives none away, it is written full.
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

// Fill makes data the content, on the disk.
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

// Replace gives the draft the name of its target, in place of what has it. Where
// the error matches [ErrNotSynced] that is done; after any other one the target
// is as it was. What is no plain file of the user's is left alone: [ErrDamaged].
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
	return d.settle()
}

// settle makes a rename last.
func (d *Draft) settle() error {
	if err := d.folder.sync(); err != nil {
		return fault.System(d.path()+" is saved, but may not outlast a power failure: syncing its folder", err, ErrNotSynced)
	}
	return nil
}

// ReplaceIf does what Replace does, but only while the target is the file of
// the stamp that was; else it gives [ErrChanged].
//
// To compare and to rename are two steps, and a process can be stopped between
// them for any time. So the two files change places, which is one step, and
// what came out is looked at: when it is another one, it goes back in. Where
// the system cannot do that, the time between the steps is as short as can be.
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
		return d.settle()
	}
	// Somebody saved between the two steps. In goes what came out, until
	// nothing comes out but what went in last.
	for {
		err := d.folder.step.before("put back")
		if err == nil {
			err = d.folder.handle.exchange(d.name, d.target)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return ErrChanged // a removal came, or one more that is newer still
		case err != nil:
			return d.giveBack(err)
		}
		next, err := d.folder.Look(d.name)
		if err != nil {
			return err
		}
		if next.sameFile(in) {
			_ = d.settle()
			return ErrChanged
		}
		in, out = out, next
	}
}

// giveBack makes what came out, which is newer, the target once more, where it
// could not change places again.
func (d *Draft) giveBack(why error) error {
	kept := d.name
	d.name = "" // it is not to be deleted
	err := d.folder.step.before("rename")
	if err == nil {
		err = d.folder.handle.rename(kept, d.target)
	}
	if err != nil {
		return fault.System("putting back the newer "+d.path()+", which is in "+kept, why)
	}
	_ = d.settle()
	return ErrChanged
}

// Discard ends a draft. What has no name of its own yet is deleted.
func (d *Draft) Discard() {
	d.file.close()
	if d.name != "" {
		_ = d.folder.handle.erase(d.name)
		d.name = ""
	}
}

// Sweep deletes what crashed processes have left of drafts in the folder, as far
// as it can. Ours tells which names of targets are of the caller; drafts of
// others are left alone. It costs nothing but a look at the names when there is
// nothing.
func (f *Folder) Sweep(ours func(target string) bool) {
	for _, name := range f.handle.names() {
		if parts := drafts.FindStringSubmatch(name); parts != nil && ours(parts[1]) {
			f.sweepOne(name, parts[1])
		}
	}
}

// sweepOne deletes a draft when nobody works on it. A draft that changed places
// with its target has the older file under its name; the target is locked then.
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
	// No name is given twice, so this is what was looked at.
	_ = f.handle.erase(name)
}
