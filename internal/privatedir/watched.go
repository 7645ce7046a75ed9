package privatedir

import (
	"crypto/sha256"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Watched is a file that is read often and changes seldom. It is read again only
// when its stamp or that of its folder has changed, and parsed again only when its
// bytes have. Watched keeps what Parse made of the bytes, and their hash, but not
// the bytes.
//
// The fields are set before the first call. A Watched is safe for concurrent use
// and must not be copied.
type Watched[T any] struct {
	// Folder is the path of the folder, and Path that of the file in it.
	Folder, Path string
	// Limit is the greatest size of the file in bytes.
	Limit int64
	// Open opens the folder; Links says whether it follows a link to it.
	Open  func() (*Folder, error)
	Links Links
	// Parse gives the value of the bytes. Where they are not valid, flaw says what
	// is wrong with them, and continues a sentence that begins with the path of
	// the file; else flaw is "".
	Parse func(data []byte) (value T, flaw string)
	// Now is the clock that the age of a file is measured by.
	Now func() time.Time

	parsing sync.Mutex
	last    atomic.Pointer[Reading[T]]
}

// Reading is the state of a file when it was read.
type Reading[T any] struct {
	// Value is what Parse gave. It is shared and must not be changed.
	Value T
	// File is the stamp of the file.
	File Stamp

	folder Stamp
	// settled says that the last change of the file was so long ago that every
	// later change gives it another stamp.
	settled bool
	sum     [sha256.Size]byte
}

// Get gives the value of the file as it is now. The error matches fs.ErrNotExist
// where there is no file or no folder. It matches [ErrDamaged] where file or folder
// do not belong to the user alone, or Parse found a flaw.
func (w *Watched[T]) Get() (T, error) {
	if last := w.last.Load(); last != nil && w.unchanged(last) {
		return last.Value, nil
	}
	var none T
	f, err := w.Open()
	if err != nil {
		return none, err
	}
	defer f.Close()
	now, err := w.Read(f)
	if err != nil {
		return none, err
	}
	return now.Value, nil
}

func (w *Watched[T]) unchanged(last *Reading[T]) bool {
	if !last.settled || last.File.recentlyChanged(w.Now()) {
		return false
	}
	folder, err := lookFolder(w.Folder, w.Links)
	if err != nil || folder != last.folder {
		return false
	}
	file, err := lookFile(w.Path)
	return err == nil && file == last.File
}

// Read reads the file in its open folder f, even where it seems unchanged.
func (w *Watched[T]) Read(f *Folder) (*Reading[T], error) {
	start := w.Now()
	data, file, err := f.Read(filepath.Base(w.Path), w.Limit)
	if err != nil {
		return nil, err
	}
	now := &Reading[T]{folder: f.stamp, File: file, settled: !file.recentlyChanged(start), sum: sha256.Sum256(data)}
	w.parsing.Lock()
	defer w.parsing.Unlock()
	if last := w.last.Load(); last != nil && last.sum == now.sum {
		now.Value = last.Value
	} else {
		var flaw string
		if now.Value, flaw = w.Parse(data); flaw != "" {
			return nil, damaged(w.Path + " " + flaw)
		}
	}
	w.last.Store(now)
	return now, nil
}
