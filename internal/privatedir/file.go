package privatedir

import (
	"errors"
	"io"
	"io/fs"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// A File is an open file of the user's alone that grows at its end. Nobody else
// may write to it meanwhile: see [Folder.Lock]. [File.Close] gives it back.
//
// A File is for one goroutine at a time; ReadAt alone may be called by many. Its
// folder must stay open.
type File struct {
	folder *Folder
	name   string
	handle fileHandle
	size   int64
	// broken: what a write has left could not be cut off again.
	broken bool
}

// OpenFile opens a file for reading and appending, and makes it where it is
// missing: made tells. The error matches [ErrDamaged] where it is not a plain
// file of the user's alone.
func (f *Folder) OpenFile(name string) (file *File, made bool, err error) {
	handle, now, made, err := f.openOrMake(name)
	if err != nil {
		return nil, false, err
	}
	if made {
		if err := f.sync(); err != nil {
			handle.close()
			return nil, false, fault.System("making "+f.join(name), err)
		}
	}
	return &File{folder: f, name: name, handle: handle, size: now.size}, made, nil
}

// openOrMake opens a file of the user's alone to write to.
func (f *Folder) openOrMake(name string) (file fileHandle, now Stamp, made bool, err error) {
	path := f.join(name)
	for range readTries {
		seen, err := f.Look(name)
		if err != nil {
			return file, Stamp{}, false, err
		}
		made = seen == (Stamp{})
		if made {
			file, err = f.makeFile(name, path)
		} else if err = privateFile(seen, path); err == nil {
			file, err = f.openSeen(name, path, true)
		}
		if errors.Is(err, errAgain) {
			continue
		}
		if err != nil {
			return file, Stamp{}, false, err
		}
		if now, err = file.stampOf(path); err == nil && (made || now.sameInode(seen)) {
			err = privateFile(now, path)
		} else if err == nil {
			file.close()
			continue
		}
		if err != nil {
			file.close()
			return file, Stamp{}, false, err
		}
		return file, now, made, nil
	}
	return file, Stamp{}, false, damaged(path + " changed all the time while it was opened")
}

// makeFile makes a file; errAgain means that somebody else was first.
func (f *Folder) makeFile(name, path string) (file fileHandle, err error) {
	if err = f.step.before("create"); err == nil {
		file, err = f.handle.createFile(name)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return file, errAgain
	case err != nil:
		return file, fault.System("making "+path, err)
	}
	if err := file.makePrivate(); err != nil {
		file.close()
		return file, fault.System("making "+path, err)
	}
	return file, nil
}

func (f *File) path() string { return f.folder.join(f.name) }

// Size is how many bytes the file has.
func (f *File) Size() int64 { return f.size }

// ReadAt implements [io.ReaderAt].
func (f *File) ReadAt(data []byte, at int64) (n int, err error) {
	for n < len(data) {
		got, err := f.handle.readAt(data[n:], at+int64(n))
		n += got
		switch {
		case errors.Is(err, io.EOF), err == nil && got == 0:
			return n, io.EOF
		case err != nil:
			return n, fault.System("reading "+f.path(), err)
		}
	}
	return n, nil
}

// Append writes data at the end. When it returns nil, data is on the disk. After
// an error the file ends where it did before, with nothing of data in it; where
// not even that could be had, the file takes nothing more until it is opened
// again, and what was written of data is still at its end.
func (f *File) Append(data []byte) error {
	if f.broken {
		return fault.New(f.path() + " has to be opened again: what an earlier write left could not be cut off")
	}
	err := f.folder.step.before("append")
	if err == nil {
		err = f.handle.writeAll(data, f.size)
	}
	if err == nil {
		err = f.sync()
	}
	if err == nil {
		f.size += int64(len(data))
		return nil
	}
	f.broken = f.cut(f.size) != nil
	return fault.System("writing "+f.path(), err)
}

// Cut ends the file at size bytes, on the disk.
func (f *File) Cut(size int64) error {
	if err := f.cut(size); err != nil {
		return fault.System("cutting off the end of "+f.path(), err)
	}
	f.size, f.broken = size, false
	return nil
}

func (f *File) cut(size int64) error {
	err := f.folder.step.before("cut")
	if err == nil {
		err = f.handle.cut(size)
	}
	if err == nil {
		err = f.sync()
	}
	return err
}

func (f *File) sync() error {
	if err := f.folder.step.before("sync"); err != nil {
		return err
	}
	return f.handle.sync()
}

// Rewrite replaces the whole content by what write writes, in one step: after a
// crash at any moment the file is the old one or the new one. An error of write
// is returned as it is. After an error the file is what it was, unless it
// matches [ErrNotSynced]; [ErrChanged] means that another file has the name.
func (f *File) Rewrite(write func(io.Writer) error) error {
	mine, err := f.handle.stampOf(f.path())
	if err != nil {
		return err
	}
	d, err := f.folder.Draft(f.name)
	if err != nil {
		return err
	}
	defer func() { d.Discard() }()
	if err := d.FillFrom(write); err != nil {
		return err
	}
	next, err := d.file.stampOf(f.path())
	if err != nil {
		return err
	}
	switch now, err := f.folder.Look(f.name); {
	case err != nil:
		return err
	case !now.sameInode(mine):
		return ErrChanged
	}
	if !replacesOpenFiles {
		f.handle.close()
	}
	err = d.Replace()
	if err != nil && !errors.Is(err, ErrNotSynced) {
		if !replacesOpenFiles {
			f.reopen(mine)
		}
		return err
	}
	d.file.unlock()
	d.file, f.handle = f.handle, d.file // Discard closes the old one
	f.size, f.broken = next.size, false
	return err
}

// reopen opens the file again that was closed to be replaced. Where that cannot
// be, every later use of it fails.
func (f *File) reopen(mine Stamp) {
	handle, err := f.folder.openSeen(f.name, f.path(), true)
	if err != nil {
		f.broken = true
		return
	}
	now, err := handle.stampOf(f.path())
	f.handle, f.broken = handle, f.broken || err != nil || !now.sameInode(mine)
}

// Replaced reports whether another file, or none, has the name of f now.
func (f *File) Replaced() bool {
	mine, err := f.handle.stampOf(f.path())
	if err != nil {
		return true
	}
	now, err := f.folder.Look(f.name)
	return err != nil || !now.sameInode(mine)
}

// Close gives the file back.
func (f *File) Close() { f.handle.close() }
