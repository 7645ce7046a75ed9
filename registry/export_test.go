package registry

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/privatedir"
)

// SetClock gives the folder another clock than the system's.
func (d *Dir) SetClock(now func() time.Time) { d.now = now }

// SetStep has step called before each step that changes something on the disk.
func (d *Dir) SetStep(step func(step string) error) { d.step = step }

// SetListen gives the folder ports that a test makes up.
func (d *Dir) SetListen(listen func(port int) (io.Closer, error)) { d.locks.Listen = listen }

// Reads counts how often a file was opened and parsed.
type Reads struct{ Opened, Parsed atomic.Int64 }

// CountBook counts the reads of the connections.
func (d *Dir) CountBook() *Reads { return count(&d.file) }

// CountLogin counts the reads of a login.
func (d *Dir) CountLogin(key string) *Reads { return count(d.vault.(*loginFiles).file(key)) }

// RememberedLogins is how many files of logins are remembered.
func (d *Dir) RememberedLogins() int { return len(d.vault.(*loginFiles).files) }

func count[T any](w *privatedir.Watched[T]) *Reads {
	var reads Reads
	open, parse := w.Open, w.Parse
	w.Open = func() (*privatedir.Folder, error) {
		reads.Opened.Add(1)
		return open()
	}
	w.Parse = func(data []byte) (T, string) {
		reads.Parsed.Add(1)
		return parse(data)
	}
	return &reads
}

// Seal makes the folder one of a system that keeps logins elsewhere.
func (d *Dir) Seal() { d.vault = closedVault{keychain} }
