//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package registry

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

const (
	fileMode   = 0o600
	folderMode = 0o700
	// readTries bounds how often a file is read that changes meanwhile.
	readTries = 5
)

// A folder is an open folder that belongs to the user alone. What is done in it
// happens in this very folder, also when another one has got its name.
type folder struct {
	fd    int
	path  string
	stamp stamp
	step  steps
}

// openFolder opens the folder at path, to which a link may lead. The error
// matches fs.ErrNotExist where there is none.
func openFolder(path string, step steps) (*folder, error) {
	return newFolder(path, step, func() (stamp, error) { return lookFolder(path, followLink) }, func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
}

// open opens a folder in f, which must not be a link.
func (f *folder) open(name string) (*folder, error) {
	return newFolder(filepath.Join(f.path, name), f.step, func() (stamp, error) {
		var st unix.Stat_t
		err := unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		return folderStamp(&st), err
	}, func() (int, error) {
		return unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
}

// newFolder looks before it opens, so that it can say what is wrong with a
// folder that it cannot open, and again afterwards, because only that counts.
func newFolder(path string, step steps, look func() (stamp, error), open func() (int, error)) (*folder, error) {
	before, err := look()
	if err != nil {
		return nil, missingOr("looking at the folder "+path, err)
	}
	if err := privateFolder(before, path); err != nil {
		return nil, err
	}
	f := &folder{path: path, step: step}
	if f.fd, err = again(open); err != nil {
		return nil, missingOr("opening the folder "+path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		f.close()
		return nil, systemError("looking at the folder "+path, err)
	}
	f.stamp = folderStamp(&st)
	if err := privateFolder(f.stamp, path); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// missingOr gives fs.ErrNotExist as it is.
func missingOr(doing string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	return systemError(doing, err)
}

// privateFolder says what of a folder is not as that of the user alone.
func privateFolder(s stamp, path string) error {
	switch {
	case !s.folder():
		return damaged(path + " is not a folder")
	case s.uid != uint32(os.Geteuid()):
		return damaged("the folder " + path + " belongs to another user")
	case s.permissions()&^unix.S_ISGID != folderMode: // which a folder may inherit
		return damaged(fmt.Sprintf("the folder %s has mode %04o, and not 0700", path, s.permissions()))
	}
	return nil
}

func (f *folder) close() { _ = unix.Close(f.fd) }

// makeFolder opens the folder at path and makes it, and those on the way to
// it, where they are missing, for the user alone.
func makeFolder(path string, step steps) (*folder, error) {
	f, err := openFolder(path, step)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := makePath(path, step); err != nil {
		return nil, systemError("making the folder "+path, err)
	}
	return openFolder(path, step)
}

func makePath(path string, step steps) error {
	parent := filepath.Dir(path)
	if _, err := lookFolder(parent, followLink); errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := makePath(parent, step); err != nil {
			return err
		}
	}
	if err := step.before("make folder"); err != nil {
		return err
	}
	if err := unix.Mkdir(path, folderMode); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	// The umask may have taken bits that the owner needs.
	if err := unix.Chmod(path, folderMode); err != nil {
		return err
	}
	if fd, err := unix.Open(parent, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Fsync(fd) // as far as the parent lets us
		_ = unix.Close(fd)
	}
	return nil
}

// make opens a folder in f and makes it where it is missing.
func (f *folder) make(name string) (*folder, error) {
	sub, err := f.open(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return sub, err
	}
	err = f.step.before("make folder")
	if err == nil {
		err = unix.Mkdirat(f.fd, name, folderMode)
	}
	if err == nil {
		err = unix.Fchmodat(f.fd, name, folderMode, 0)
	}
	if err == nil {
		err = f.sync()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, systemError("making the folder "+filepath.Join(f.path, name), err)
	}
	return f.open(name)
}

// replaced reports whether another folder, or none, has the name of f now.
func (f *folder) replaced(links followLinks) bool {
	now, err := lookFolder(f.path, links)
	return err != nil || now != f.stamp
}

// sync makes what happened in the folder last.
func (f *folder) sync() error {
	err := f.step.before("sync folder")
	if err == nil {
		_, err = again(func() (int, error) { return 0, unix.Fsync(f.fd) })
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // a file system whose folders need none
	}
	return err
}

// look gives the stamp of what has a name in f, without following a link; the
// zero stamp where nothing has.
func (f *folder) look(name string) (stamp, error) {
	var st unix.Stat_t
	err := unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, systemError("looking at "+filepath.Join(f.path, name), err)
	}
	return fileStamp(&st), nil
}

// read reads a file of the user's alone and gives its stamp. The error matches
// fs.ErrNotExist where there is none, and ErrDamaged where it is anything else,
// which is not even opened, or longer than limit.
func (f *folder) read(name string, limit int64) ([]byte, stamp, error) {
	path := filepath.Join(f.path, name)
	for range readTries {
		seen, err := f.look(name)
		switch {
		case err != nil:
			return nil, stamp{}, err
		case seen == stamp{}:
			return nil, stamp{}, fs.ErrNotExist
		}
		if err := private(seen, path, limit); err != nil {
			return nil, stamp{}, err
		}
		data, err := f.readSeen(name, path, seen)
		if !errors.Is(err, errAgain) {
			return data, seen, err
		}
	}
	return nil, stamp{}, damaged(path + " changed all the time while it was read")
}

// readSeen reads the file that was seen; errAgain means that it is another one
// by now, or has changed meanwhile.
func (f *folder) readSeen(name, path string, seen stamp) ([]byte, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ELOOP):
		return nil, errAgain
	case err != nil:
		return nil, systemError("opening "+path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	unchanged := func() error {
		now, err := statFile(fd, path)
		if err == nil && now != seen {
			err = errAgain
		}
		return err
	}
	if err := unchanged(); err != nil {
		return nil, err
	}
	data := make([]byte, seen.size)
	for n := 0; n < len(data); {
		got, err := again(func() (int, error) { return unix.Read(fd, data[n:]) })
		switch {
		case err != nil:
			return nil, systemError("reading "+path, err)
		case got == 0:
			return nil, errAgain
		}
		n += got
	}
	return data, unchanged()
}

// private says what of a file is not as that of the user alone.
func private(s stamp, path string, limit int64) error {
	switch {
	case !s.regular():
		return damaged(path + " is a link, a folder or something else that is no plain file")
	case s.uid != uint32(os.Geteuid()):
		return damaged(path + " belongs to another user")
	case s.permissions() != fileMode:
		return damaged(fmt.Sprintf("%s has mode %04o, and not 0600", path, s.permissions()))
	case s.size > limit:
		return damaged(fmt.Sprintf("%s is larger than %d KiB", path, limit>>10))
	}
	return nil
}

// erase takes a file away; it is no error where there is none. What is no plain
// file of the user's is left alone.
func (f *folder) erase(name string) error {
	path := filepath.Join(f.path, name)
	now, err := f.look(name)
	if err != nil || now == (stamp{}) {
		return err
	}
	if err := replaceable(now, path); err != nil {
		return err
	}
	err = f.step.before("erase")
	if err == nil {
		err = unix.Unlinkat(f.fd, name, 0)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return f.refused("deleting", name, err)
	}
	if err := f.sync(); err != nil {
		return systemError(path+" is deleted, but that may not outlast a power failure: syncing its folder", err, ErrNotSynced)
	}
	return nil
}

// refused is the error of a file that could not be replaced or deleted. Where
// its attributes tell why, they are told.
func (f *folder) refused(doing, name string, err error) error {
	if known := f.canReplace(name); known != nil {
		return known
	}
	return systemError(doing+" "+filepath.Join(f.path, name), err)
}

// canReplace says why the system would let nobody replace or delete a file, as
// far as the attributes of file and folder tell: everything but the last step of
// replacing it would go well. No error means that nothing is known against it.
func (f *folder) canReplace(name string) error {
	path := filepath.Join(f.path, name)
	switch fixed(f.fd, name) {
	case mounted:
		return fail(path+" cannot be replaced, because it is mounted by itself: mount the whole folder "+f.path+", and not single files of it", unix.EBUSY)
	case immutable:
		return fail(path+" cannot be replaced, because it, or its folder, is marked as immutable or append-only: take the mark away (chattr -i -a)", unix.EPERM)
	}
	return nil
}

// What keeps a file from being replaced.
type fixture int

const (
	movable   fixture = iota // nothing that is known
	mounted                  // it is a mount point
	immutable                // it, or its folder, is marked
)

// replaceable says why what is at path is not to be replaced or deleted.
func replaceable(now stamp, path string) error {
	switch {
	case now == stamp{}:
		return nil
	case !now.regular():
		return damaged(path + " is a link, a folder or something else that is no plain file; it was left alone")
	case now.uid != uint32(os.Geteuid()):
		return damaged(path + " belongs to another user; it was left alone")
	}
	return nil
}

// A draft is a file in the making: a temporary file in the folder of the file
// that it is to become. It is locked (flock) as long as its process lives, also
// when it has got the name of its target, which tells it from what a crash has
// left.
type draft struct {
	folder *folder
	fd     int
	name   string // "" once there is nothing to clean up
	target string
}

// drafts are the names of temporary files, with the name of the target in them.
var drafts = regexp.MustCompile(`^\.((?:agent-connections|conn_[0-9a-f]{32})\.json)\.[0-9a-f]{16}\.tmp$`)

// draft begins a file that is to become target.
func (f *folder) draft(target string) (*draft, error) {
	doing := "making a temporary file in " + f.path
	for {
		if err := f.step.before("create"); err != nil {
			return nil, systemError(doing, err)
		}
		var bits [8]byte
		_, _ = rand.Read(bits[:]) // It never fails.
		d := &draft{folder: f, target: target, name: "." + target + "." + hex.EncodeToString(bits[:]) + ".tmp"}
		var err error
		d.fd, err = again(func() (int, error) {
			return unix.Openat(f.fd, d.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
		})
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, systemError(doing, err)
		}
		// Until here a sweep takes it for abandoned. Where the file system has no
		// such locks, nothing is ever swept.
		err = unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB)
		var st unix.Stat_t
		if errors.Is(err, unix.EWOULDBLOCK) || unix.Fstat(d.fd, &st) == nil && st.Nlink == 0 {
			_ = unix.Close(d.fd)
			continue
		}
		if err := unix.Fchmod(d.fd, fileMode); err != nil {
			d.discard()
			return nil, systemError(doing, err)
		}
		return d, nil
	}
}

// reserve makes sure that there is room for size bytes. Where the file system
// gives none away, it is written full.
func (d *draft) reserve(size int64) error {
	err := d.folder.step.before("allocate")
	if err == nil {
		err = allocate(d.fd, size)
	}
	if err == nil {
		return nil
	}
	err = d.folder.step.before("write")
	if err == nil {
		err = d.write(make([]byte, size))
	}
	if err != nil {
		return systemError("making room for "+filepath.Join(d.folder.path, d.target), err)
	}
	return nil
}

// fill makes data the content, on the disk.
func (d *draft) fill(data []byte) error {
	err := d.folder.step.before("write")
	if err == nil {
		err = d.write(data)
	}
	if err != nil {
		return systemError("writing "+filepath.Join(d.folder.path, d.target), err)
	}
	return nil
}

func (d *draft) write(data []byte) error {
	for at := 0; at < len(data); {
		n, err := again(func() (int, error) { return unix.Pwrite(d.fd, data[at:], int64(at)) })
		if err != nil {
			return err
		}
		at += n
	}
	if err := unix.Ftruncate(d.fd, int64(len(data))); err != nil {
		return err
	}
	if err := d.folder.step.before("sync"); err != nil {
		return err
	}
	_, err := again(func() (int, error) { return 0, unix.Fsync(d.fd) })
	return err
}

// replace gives the draft the name of its target, in place of what has it.
func (d *draft) replace() error {
	path := filepath.Join(d.folder.path, d.target)
	now, err := d.folder.look(d.target)
	if err != nil {
		return err
	}
	if err := replaceable(now, path); err != nil {
		return err
	}
	err = d.folder.step.before("rename")
	if err == nil {
		err = unix.Renameat(d.folder.fd, d.name, d.folder.fd, d.target)
	}
	if err != nil {
		return d.folder.refused("replacing", d.target, err)
	}
	d.name = ""
	return d.settle()
}

// settle makes a rename last.
func (d *draft) settle() error {
	if err := d.folder.sync(); err != nil {
		return systemError(filepath.Join(d.folder.path, d.target)+" is saved, but may not outlast a power failure: syncing its folder", err, ErrNotSynced)
	}
	return nil
}

// replaceIf does what replace does, but only while the target is the file of
// the stamp that was; else it gives ErrChanged.
//
// To compare and to rename are two steps, and a process can be stopped between
// them for any time. So the two files change places, which is one step, and
// what came out is looked at: when it is another one, it goes back in. Where
// the system cannot do that, the time between the steps is as short as can be.
func (d *draft) replaceIf(was stamp) error {
	path := filepath.Join(d.folder.path, d.target)
	in, err := statFile(d.fd, path)
	if err != nil {
		return err
	}
	err = d.folder.step.before("exchange")
	if err == nil {
		err = exchange(d.folder.fd, d.name, d.target)
	}
	if err != nil {
		switch now, err := d.folder.look(d.target); {
		case err != nil:
			return err
		case now != was:
			return ErrChanged
		}
		return d.replace()
	}
	out, err := d.folder.look(d.name)
	switch {
	case err != nil:
		return fail(path+" is saved, but what it replaced cannot be looked at", ErrNotSynced, err)
	case out.sameFile(was):
		return d.settle()
	}
	// Somebody saved between the two steps. In goes what came out, until
	// nothing comes out but what went in last.
	for {
		err := d.folder.step.before("put back")
		if err == nil {
			err = exchange(d.folder.fd, d.name, d.target)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return ErrChanged // a removal came, or one more that is newer still
		case err != nil:
			return d.giveBack(err)
		}
		next, err := d.folder.look(d.name)
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
func (d *draft) giveBack(why error) error {
	path, kept := filepath.Join(d.folder.path, d.target), d.name
	d.name = "" // it is not to be deleted
	err := d.folder.step.before("rename")
	if err == nil {
		err = unix.Renameat(d.folder.fd, kept, d.folder.fd, d.target)
	}
	if err != nil {
		return systemError("putting back the newer "+path+", which is in "+kept, why)
	}
	_ = d.settle()
	return ErrChanged
}

// discard ends a draft. What has no name of its own yet is deleted.
func (d *draft) discard() {
	if d.name != "" {
		_ = unix.Unlinkat(d.folder.fd, d.name, 0)
	}
	_ = unix.Close(d.fd)
}

// sweep deletes what crashed processes have left in the folder, as far as it
// can. It costs nothing but a look at the names when there is nothing.
func (f *folder) sweep() {
	fd, err := unix.Openat(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	list := os.NewFile(uintptr(fd), f.path)
	defer func() { _ = list.Close() }()
	names, _ := list.Readdirnames(-1)
	for _, name := range names {
		if parts := drafts.FindStringSubmatch(name); parts != nil {
			f.sweepOne(name, parts[1])
		}
	}
}

// sweepOne deletes a draft when nobody works on it. A draft that changed places
// with its target has the older file under its name; the target is locked then.
func (f *folder) sweepOne(name, target string) {
	for _, name := range [...]string{name, target} {
		now, err := f.look(name)
		if err != nil || replaceable(now, name) != nil {
			return
		}
		fd, err := unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return
		}
		defer func() { _ = unix.Close(fd) }()
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
			return
		}
	}
	// No name is given twice, so this is what was looked at.
	_ = unix.Unlinkat(f.fd, name, 0)
}

// again repeats a call that a signal interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func statFile(fd int, path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return stamp{}, systemError("looking at "+path, err)
	}
	return fileStamp(&st), nil
}

// lookFolder gives the stamp of a folder by its path; the error is that of the
// system.
func lookFolder(path string, links followLinks) (stamp, error) {
	var st unix.Stat_t
	var err error
	if links == followLink {
		err = unix.Stat(path, &st)
	} else {
		err = unix.Lstat(path, &st)
	}
	return folderStamp(&st), err
}

// lookFile does what lookFolder does for a file, and follows no link.
func lookFile(path string) (stamp, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return fileStamp(&st), err
}

func fileStamp(st *unix.Stat_t) stamp {
	s := folderStamp(st)
	s.size, s.modified, s.changed = st.Size, st.Mtim.Nano(), st.Ctim.Nano()
	return s
}

// folderStamp leaves out what changes with every file in the folder.
func folderStamp(st *unix.Stat_t) stamp {
	return stamp{device: uint64(st.Dev), inode: st.Ino, mode: uint32(st.Mode), uid: st.Uid}
}
