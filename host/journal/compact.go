package journal

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
)

// draftSuffix is the suffix of the new file that will replace the journal.
const draftSuffix = ".new"

// isDue reports whether the file has grown so much that compact should check it. The
// caller holds mu.
func (f *File) isDue() bool { return f.unusable == nil && f.written.size >= f.compactAt }

// isKept reports whether the entry at a place is still needed.
func (f *File) isKept(p *place) bool {
	switch p.state {
	case StatePrepared:
		return true
	case stateWithdrawn:
		return false
	}
	return f.now().Sub(p.updatedAt) < f.retention
}

// compact replaces the file by one that has only the latest line of each entry, where less
// than half of the file is still needed. After a failure the file is as it was, and a later
// call tries again.
func (f *File) compact() {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isDue() {
		return
	}
	var useful int64
	for _, p := range f.order {
		if f.isKept(p) {
			useful += int64(p.length)
		}
	}
	size := f.written.size
	f.compactAt = max(f.slack, size+size/4)
	if size < f.slack || useful > size/2 {
		return
	}
	draft, x, err := f.draft()
	if err != nil {
		_ = f.disk.folder.Remove(f.disk.name + draftSuffix)
		return
	}
	f.replace(draft, x)
	f.compactAt = max(f.slack, 2*f.written.size)
}

// draft writes the new file.
func (f *File) draft() (draft *os.File, x index, err error) {
	name := f.disk.name + draftSuffix
	if err := f.disk.folder.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, index{}, err
	}
	if err := f.disk.step("make draft"); err != nil {
		return nil, index{}, err
	}
	draft, _, err = f.disk.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, index{}, err
	}
	defer func() {
		if err != nil {
			_ = draft.Close()
		}
	}()
	out := bufio.NewWriterSize(draft, 1<<20)
	x = newIndex()
	line, sum := headerLine()
	x.next(len(line), sum)
	if _, err := out.Write(line); err != nil {
		return nil, index{}, err
	}
	for _, p := range f.order {
		if !f.isKept(p) {
			continue
		}
		old, err := f.readLine(p)
		if err != nil {
			return nil, index{}, err
		}
		// The content lacks the opening brace of its object: put it back.
		old[sumLength-1] = '{'
		line, sum := sealed(x.sum, old[sumLength-1:len(old)-1])
		at := x.next(len(line), sum)
		copied := *p
		copied.location = at
		x.byCall[p.callID], x.byInvocation[p.invocation] = &copied, &copied
		x.order = append(x.order, &copied)
		if err := f.disk.step("write draft"); err != nil {
			return nil, index{}, err
		}
		if _, err := out.Write(line); err != nil {
			return nil, index{}, err
		}
	}
	err = out.Flush()
	if err == nil {
		err = f.disk.step("sync draft")
	}
	if err == nil {
		err = draft.Sync()
	}
	return draft, x, err
}

// replace gives the draft the name of the journal, and uses it from then on. The caller
// holds syncing and mu.
func (f *File) replace(draft *os.File, x index) {
	info, err := draft.Stat()
	if err == nil {
		err = f.disk.step("rename")
	}
	if err == nil {
		err = f.disk.folder.Rename(f.disk.name+draftSuffix, f.disk.name)
	}
	if err != nil {
		_ = draft.Close()
		_ = f.disk.folder.Remove(f.disk.name + draftSuffix)
		return
	}
	_ = f.file.Close()
	x.written.losses, x.written.number = f.written.losses, f.written.number
	f.file, f.info, f.index = draft, info, x
	f.durable = f.written
	if err := f.disk.sync(); err != nil {
		// After a crash of the machine the name may be that of the old file again, and
		// lines that were added to the new one would be lost.
		f.unusable = fail("the folder of "+f.disk.path+" could not be synced: "+err.Error(), ErrUnusable, err)
	}
}
