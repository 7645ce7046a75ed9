package privatedir

import (
	"strings"
	"unicode"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

// maxHolder is how many bytes of a lock file are read and written.
const maxHolder = 512

// A Lock is a lock file that is held. [Lock.Release] gives it back; so does the
// end of the process, however it ends.
type Lock struct {
	file fileHandle
}

// Lock takes the lock file of a name in f, which is made where it is missing and
// never deleted, and writes into it who holds it: one line of at most 512 bytes,
// such as a process number. It does not wait. Where another one has it, in this
// process or in another, the error matches [ErrLocked] and says what that one
// wrote, characters that are not printable replaced.
//
// It excludes whoever takes it by the same name in the same folder, through
// whatever path, on one machine. Whether it does so between machines that share
// a file system is up to that.
func (f *Folder) Lock(name, holder string) (*Lock, error) {
	path := f.join(name)
	for range readTries {
		file, now, _, err := f.openOrMake(name)
		if err != nil {
			return nil, err
		}
		held, err := file.tryLock()
		if err != nil {
			file.close()
			return nil, fault.System("locking "+path, err)
		}
		if !held {
			text := make([]byte, maxHolder)
			n, _ := file.readAt(text, 0)
			file.close()
			return nil, fault.New("the lock file "+path+" is held by "+holderOf(text[:n]), ErrLocked)
		}
		// Somebody may have taken the file away in the meantime.
		if again, err := f.Look(name); err != nil || !again.sameInode(now) {
			file.close()
			continue
		}
		text := []byte(printable(holder))
		if err := file.cut(0); err == nil {
			// What is not written is only missing from a message.
			_ = file.writeAll(text[:min(len(text), maxHolder)], 0)
		}
		return &Lock{file}, nil
	}
	return nil, damaged(path + " changed all the time while it was locked")
}

// Release gives the lock back.
func (l *Lock) Release() {
	_ = l.file.cut(0)
	l.file.close()
}

func holderOf(text []byte) string {
	if holder := printable(string(text)); holder != "" {
		return holder
	}
	return "another process"
}

// printable makes one line of a text.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, " ")))
}
