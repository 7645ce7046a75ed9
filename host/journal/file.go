package journal

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
)

// defaultRetention is how long a closed operation is kept at least: as long as a session of
// a Hub lasts.
const defaultRetention = 30 * 24 * time.Hour

// maxFile is how large the file may be.
const maxFile = 1 << 30

// File is a journal in one file, for one process at a time. It is safe for
// concurrent use. [OpenFile] makes it; the zero value is not usable.
//
// A change adds one line at the end of the file. A change that must be durable waits for a
// sync; changes that come at the same time share one. When less than half of the file is
// still needed, that part is written to a new file, which replaces the old one; changes wait
// meanwhile. Only the places of the entries in the file are held in memory.
type File struct {
	now       func() time.Time
	retention time.Duration
	limit     int64                   // greatest size of the file
	slack     int64                   // a smaller file is not compacted
	before    func(step string) error // for tests: see disk

	disk *disk
	torn Torn

	// syncing is held by whoever syncs, compacts or closes. It is taken before
	// mu.
	syncing sync.Mutex
	durable ticket  // of the last line that is on the disk; guarded by syncing
	ends    []int64 // for each time that lines were lost, the number of the last line before them

	mu       sync.Mutex
	file     *os.File
	info     fs.FileInfo // of the open file
	unusable error
	index
	compactAt int64 // the size from which compact checks the file
}

// ticket identifies the line that a caller waits for: how often lines had been lost when it
// was written, its number, and where it ends in the file.
type ticket struct {
	losses       int
	number, size int64
}

// Torn is an incomplete line that [OpenFile] cut off at the end of the file: the process or
// the machine ended while the line was written. The call that wrote it had not returned, so
// the host has not sent anything because of it.
type Torn struct {
	// Line is the number of the line, from 1; 0 where nothing was cut off.
	Line int
	// Bytes is how much was cut off.
	Bytes int64
}

// FileOption changes how [OpenFile] keeps a journal.
type FileOption func(*File) error

// WithRetention sets how long an operation can be found after it was closed, so that a
// repeated tool call is noticed. The default is 30 days, after which no session of a Hub can
// read the operation. The operation is removed some time later, when the file is compacted. A
// negative time is an invalid request.
func WithRetention(d time.Duration) FileOption {
	return func(f *File) error {
		if d < 0 {
			return invalid("WithRetention: the time must not be negative")
		}
		f.retention = d
		return nil
	}
}

// OpenFile opens the journal in a file. It makes a missing file, for the user alone; the
// folder must exist. A second file beside it, whose name ends in ".lock", says who has the
// journal open.
//
// OpenFile cuts off an incomplete line at the end of the file, which the end of a process or
// of the machine may leave; [File.Torn] gives it. It refuses a file with any other damage, a
// file larger than 1 GiB, and anything that is not a plain file. The error then matches
// [ErrDamaged] and names the line, and the file stays as it is. Where somebody has the
// journal open, the error matches [ErrInUse].
func OpenFile(path string, opts ...FileOption) (*File, error) {
	f := &File{now: time.Now, retention: defaultRetention, limit: maxFile, slack: 1 << 20}
	for _, option := range opts {
		if option == nil {
			return nil, invalid("an option is nil")
		}
		if err := option(f); err != nil {
			return nil, err
		}
	}
	disk, err := openDisk(path, f.before)
	if err != nil {
		return nil, err
	}
	f.disk = disk
	if err := f.open(); err != nil {
		if f.file != nil {
			_ = f.file.Close()
		}
		_ = disk.close()
		return nil, err
	}
	f.compact() // does nothing where enough of the file is still needed
	return f, nil
}

// Torn gives what was cut off at the end of the file when it was opened.
func (f *File) Torn() Torn { return f.torn }

// Close makes everything durable, closes the file and releases its lock. Every later call
// returns [ErrUnusable], except a second Close, which does nothing.
func (f *File) Close() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.syncFile()
	err = errors.Join(err, f.file.Close(), f.disk.close())
	f.file = nil
	f.unusable = fail("it was closed", ErrUnusable)
	if err != nil {
		return fail("closing "+f.disk.path+": "+err.Error(), err)
	}
	return nil
}

// Add implements [Journal].
func (f *File) Add(ctx context.Context, entry Entry) error {
	if err := ready(ctx); err != nil {
		return err
	}
	entry, err := entry.Prepare(f.now())
	if err != nil {
		return err
	}
	object, err := encodeEntry(entry)
	if err != nil {
		return fail("encoding the entry: "+err.Error(), err)
	}
	return f.durably(func() error {
		switch {
		case f.byCall[entry.CallID] != nil:
			return fail("there is an operation of this call already", ErrExists)
		case f.byInvocation[invocationKey(entry.Original.InvocationID)] != nil:
			return fail("there is an operation of this invocation already", ErrExists)
		}
		line, err := f.append(object)
		if err == nil {
			f.put(line, head{CallID: entry.CallID, State: entry.State, UpdatedAt: entry.UpdatedAt}, entry.Original.InvocationID)
		}
		return err
	})
}

// Sending implements [Journal].
func (f *File) Sending(ctx context.Context, callID string) error {
	if err := ready(ctx); err != nil {
		return err
	}
	if err := checkCallID(callID); err != nil {
		return err
	}
	return f.durably(func() error {
		_, err := f.change(f.byCall[callID], func(e Entry) (Entry, error) { return e.BeginSending(f.now()) })
		return err
	})
}

// Withdraw implements [Journal].
func (f *File) Withdraw(ctx context.Context, callID string) error {
	if err := ready(ctx); err != nil {
		return err
	}
	if err := checkCallID(callID); err != nil {
		return err
	}
	return f.durably(func() error {
		p := f.byCall[callID]
		e, err := f.read(p)
		if err != nil {
			return err
		}
		if err := e.CheckWithdraw(); err != nil {
			return err
		}
		object, err := encodeWithdrawn(e)
		if err != nil {
			return fail("encoding the entry: "+err.Error(), err)
		}
		if _, err := f.append(object); err != nil {
			return err
		}
		f.drop(p)
		return nil
	})
}

// Find implements [Journal].
func (f *File) Find(ctx context.Context, callID string) (Entry, error) {
	if err := ready(ctx); err != nil {
		return Entry{}, err
	}
	if err := checkCallID(callID); err != nil {
		return Entry{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(f.byCall[callID])
}

// FindInvocation implements [Journal].
func (f *File) FindInvocation(ctx context.Context, invocationID string) (Entry, error) {
	if err := ready(ctx); err != nil {
		return Entry{}, err
	}
	if err := checkInvocationID(invocationID); err != nil {
		return Entry{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(f.byInvocation[invocationKey(invocationID)])
}

// Open implements [Journal].
func (f *File) Open(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := ready(ctx); err != nil {
			yield(Entry{}, err)
			return
		}
		f.mu.Lock()
		places, err := f.openPlaces(), f.unusable
		f.mu.Unlock()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for _, p := range places {
			if err := ready(ctx); err != nil {
				yield(Entry{}, err)
				return
			}
			f.mu.Lock()
			now := f.byInvocation[p.invocation] // compact may have moved the entry
			if f.unusable == nil && (now == nil || now.state != StatePrepared) {
				f.mu.Unlock()
				continue
			}
			e, err := f.read(now)
			f.mu.Unlock()
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Record implements [Journal]. It syncs the file only where it closes the entry.
func (f *File) Record(ctx context.Context, invocationID string, report host.Report) (Entry, error) {
	if err := ready(ctx); err != nil {
		return Entry{}, err
	}
	if err := checkInvocationID(invocationID); err != nil {
		return Entry{}, err
	}
	var entry Entry
	change := func() (err error) {
		entry, err = f.change(f.byInvocation[invocationKey(invocationID)], func(e Entry) (Entry, error) { return e.Learn(report, f.now()) })
		return err
	}
	do := f.durably
	if !(report.Answered && report.Settled) {
		do = f.soon
	}
	if err := do(change); err != nil {
		return Entry{}, err
	}
	return entry, nil
}

// GiveUp implements [Journal].
func (f *File) GiveUp(ctx context.Context, invocationID, note string) error {
	if err := ready(ctx); err != nil {
		return err
	}
	if err := checkInvocationID(invocationID); err != nil {
		return err
	}
	return f.durably(func() error {
		_, err := f.change(f.byInvocation[invocationKey(invocationID)], func(e Entry) (Entry, error) { return e.Abandon(note, f.now()) })
		return err
	})
}

// change changes the entry at a place to what become gives. The caller holds mu.
func (f *File) change(p *place, become func(Entry) (Entry, error)) (Entry, error) {
	was, err := f.read(p)
	if err != nil {
		return Entry{}, err
	}
	is, err := become(was)
	if err != nil || is == was {
		return is, err
	}
	object, err := encodeEntry(is)
	if err != nil {
		return Entry{}, fail("encoding the entry: "+err.Error(), err)
	}
	line, err := f.append(object)
	if err != nil {
		return Entry{}, err
	}
	f.move(p, line, is.State, is.UpdatedAt)
	return is, nil
}

// soon makes a change without a sync. The change outlasts the process at once, and a crash of
// the machine some time later.
func (f *File) soon(change func() error) error {
	f.mu.Lock()
	err := f.unusable
	if err == nil {
		err = change()
	}
	due := f.isDue()
	f.mu.Unlock()
	if due {
		f.compact()
	}
	return err
}

// durably makes a change and returns when it is on the disk.
func (f *File) durably(change func() error) error {
	f.mu.Lock()
	if f.unusable != nil {
		defer f.mu.Unlock()
		return f.unusable
	}
	err := change()
	mine, due := f.written, f.isDue()
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if err := f.commit(mine); err != nil {
		return err
	}
	if due {
		f.compact()
	}
	return nil
}

// commit returns when a line is on the disk. A caller that comes while another one syncs
// waits for that; one further sync then covers the lines of all who waited.
func (f *File) commit(mine ticket) error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if mine.losses < len(f.ends) {
		if mine.number <= f.ends[mine.losses] {
			return nil
		}
		return fail("it could not be kept: the disk failed under another change at the same time", ErrUnusable)
	}
	if mine.number <= f.durable.number {
		return nil
	}
	f.mu.Lock()
	file, upTo, unusable := f.file, f.written, f.unusable
	f.mu.Unlock()
	if file == nil {
		return unusable
	}
	err := f.disk.step("sync")
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		f.durable = upTo
		return nil
	}
	f.lose(err)
	return fail("it could not be kept: syncing "+f.disk.path+": "+err.Error(), err)
}

// lose cuts off the lines that could not be synced. Their callers get an error. If the lines
// stayed, the next opening of the file might find them or might not. The caller holds
// syncing.
func (f *File) lose(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends = append(f.ends, f.durable.number)
	err := f.file.Truncate(f.durable.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err == nil {
		err = f.load()
	}
	if err != nil {
		f.unusable = fail("syncing "+f.disk.path+" failed before, so what is on the disk is not known: "+cause.Error(), ErrUnusable, cause)
	}
	f.written.losses = len(f.ends)
	f.durable = f.written
}

func invocationKey(id string) (key [32]byte) {
	_, _ = hex.Decode(key[:], []byte(id))
	return key
}
