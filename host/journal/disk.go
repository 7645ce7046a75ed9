package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/filelock"
)

// fileMode is the mode of a new file: for the user alone.
const fileMode = 0o600

// disk is the folder of a journal. This process holds the lock of the journal.
type disk struct {
	path   string // of the journal, for messages
	name   string // of the journal in its folder
	folder *os.Root
	lock   *os.File
	// before is for tests. It is called before each step that changes something, and
	// where it returns an error, that is the outcome of the step.
	before func(step string) error
}

// openDisk opens the folder of a journal and locks the journal.
func openDisk(path string, before func(string) error) (*disk, error) {
	if path == "" {
		return nil, invalid("the path is empty")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fail("finding "+path+": "+err.Error(), err)
	}
	folder, err := os.OpenRoot(filepath.Dir(absolute))
	if err != nil {
		return nil, fail("opening the folder of "+absolute+": "+err.Error(), err)
	}
	d := &disk{path: absolute, name: filepath.Base(absolute), folder: folder, before: before}
	if err := d.takeLock(); err != nil {
		_ = folder.Close()
		return nil, err
	}
	return d, nil
}

func (d *disk) close() error {
	return errors.Join(filelock.Unlock(d.lock), d.lock.Close(), d.folder.Close())
}

// open opens a plain file of the folder. It does not even open a link, a FIFO, a device or a
// folder. The error matches fs.ErrNotExist where there is no such file and flags do not
// create one.
func (d *disk) open(name string, flags int) (*os.File, fs.FileInfo, error) {
	path := filepath.Join(filepath.Dir(d.path), name)
	seen, err := d.folder.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if flags&os.O_CREATE == 0 {
			return nil, nil, err
		}
	case err != nil:
		return nil, nil, fail("looking at "+path+": "+err.Error(), err)
	case !seen.Mode().IsRegular():
		return nil, nil, fail(path+" is a link, a folder, a device or something else that is no plain file", ErrDamaged)
	}
	file, err := d.folder.OpenFile(name, flags|nonBlocking, fileMode)
	if err != nil {
		return nil, nil, fail("opening "+path+": "+err.Error(), err)
	}
	is, err := file.Stat()
	if err == nil && (!is.Mode().IsRegular() || seen != nil && !os.SameFile(seen, is)) {
		err = fail(path+" was replaced while it was opened", ErrDamaged)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, is, nil
}

// sync syncs the names in the folder to the disk, where the system can.
func (d *disk) sync() error {
	if err := d.step("sync folder"); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // the system or the file system does not sync folders
	}
	folder, err := d.folder.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if err := folder.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !isInvalid(err) {
		return err
	}
	return nil
}

func (d *disk) step(name string) error {
	if d.before == nil {
		return nil
	}
	return d.before(name)
}

// holder names the process that has a journal open, for a person to read.
type holder struct {
	Process int       `json:"process"`
	Program string    `json:"program"`
	Machine string    `json:"machine"`
	Since   time.Time `json:"since"`
}

const (
	lockSuffix = ".lock"
	lockTries  = 5
	// maxHolder is how many bytes of a lock file are read.
	maxHolder = 4 << 10
)

// takeLock takes the lock of the journal. The lock is on a file beside it, because compact
// replaces the journal itself. That file stays; the lock ends with the process.
func (d *disk) takeLock() error {
	for range lockTries {
		file, is, err := d.open(d.name+lockSuffix, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return err
		}
		switch err := filelock.Lock(file); {
		case errors.Is(err, filelock.ErrLocked):
			text := d.inUse(file)
			_ = file.Close()
			return fail(text, ErrInUse)
		case errors.Is(err, errors.ErrUnsupported):
			_ = file.Close()
			return fail("this system has no lock for files, so a journal cannot be kept in one", err)
		case err != nil:
			_ = file.Close()
			return fail("locking "+d.path+lockSuffix+": "+err.Error(), err)
		}
		// Somebody may have deleted the file before it was locked. Another process
		// could then lock a new file of that name.
		if now, err := d.folder.Lstat(d.name + lockSuffix); err != nil || !os.SameFile(is, now) {
			_ = file.Close()
			continue
		}
		d.lock = file
		d.signLock()
		return nil
	}
	return fail("the file "+d.path+lockSuffix+" is replaced again and again", ErrInUse)
}

// signLock writes into the lock file who has the lock. The lock is valid even where that
// fails.
func (d *disk) signLock() {
	h := holder{Process: os.Getpid(), Program: filepath.Base(os.Args[0]), Since: time.Now().UTC().Truncate(time.Second)}
	h.Machine, _ = os.Hostname()
	text, err := json.Marshal(h)
	if err != nil || d.lock.Truncate(0) != nil {
		return
	}
	_, _ = d.lock.WriteAt(append(text, '\n'), 0)
}

// inUse makes the text that says who has the lock.
func (d *disk) inUse(lock *os.File) string {
	var h holder
	text, err := io.ReadAll(io.LimitReader(lock, maxHolder))
	if err != nil || json.Unmarshal(text, &h) != nil || h.Process == 0 {
		return d.path + " is in use by another process"
	}
	return fmt.Sprintf("%s is in use by process %d (%q on %q, since %s): one process at a time keeps a journal",
		d.path, h.Process, h.Program, h.Machine, h.Since.UTC().Format(time.RFC3339))
}
