package registry

import (
	"crypto/sha256"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// watched is a file that is read often and changes seldom. While its stamp and
// that of its folder are what they were when it was read, it is not read again;
// while its bytes are the same, it is not parsed again. Nothing of the bytes is
// kept.
type watched[T any] struct {
	dir, path string
	limit     int64 // in bytes
	// open opens the folder of the file; links says whether it follows one.
	open  func() (*folder, error)
	links followLinks
	// parse gives what the bytes say, or what is wrong with them.
	parse func(data []byte) (value T, flaw string)
	now   func() time.Time

	parsing sync.Mutex
	last    atomic.Pointer[reading[T]]
}

// reading is what a file was when it was read.
type reading[T any] struct {
	folder, file stamp
	// settled: the file was old enough by then to show every later change.
	settled bool
	sum     [sha256.Size]byte
	value   T
}

// get gives what the file says now. The error matches fs.ErrNotExist where
// there is none.
func (w *watched[T]) get() (T, error) {
	if last := w.last.Load(); last != nil && w.unchanged(last) {
		return last.value, nil
	}
	var none T
	f, err := w.open()
	if err != nil {
		return none, err
	}
	defer f.close()
	now, err := w.read(f)
	if err != nil {
		return none, err
	}
	return now.value, nil
}

func (w *watched[T]) unchanged(last *reading[T]) bool {
	if !last.settled || last.file.young(w.now()) {
		return false
	}
	folder, err := lookFolder(w.dir, w.links)
	if err != nil || folder != last.folder {
		return false
	}
	file, err := lookFile(w.path)
	return err == nil && file == last.file
}

// read reads the file in its folder, which is open, whatever was read before.
func (w *watched[T]) read(f *folder) (*reading[T], error) {
	start := w.now()
	data, file, err := f.read(filepath.Base(w.path), w.limit)
	if err != nil {
		return nil, err
	}
	now := &reading[T]{folder: f.stamp, file: file, settled: !file.young(start), sum: sha256.Sum256(data)}
	w.parsing.Lock()
	defer w.parsing.Unlock()
	if last := w.last.Load(); last != nil && last.sum == now.sum {
		now.value = last.value
	} else {
		var flaw string
		if now.value, flaw = w.parse(data); flaw != "" {
			return nil, damaged(w.path + " " + flaw)
		}
	}
	w.last.Store(now)
	return now, nil
}
