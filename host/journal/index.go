package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// index knows where in the file the entries are.
type index struct {
	byCall       map[string]*place
	byInvocation map[[32]byte]*place
	order        []*place // in the order in which they were added, removed entries included
	lines        int      // number of lines in the file
	sum          uint32   // of the last line
	written      ticket   // of the last line
}

// place has the location of the latest line of an entry, and what is needed of an entry most
// often.
type place struct {
	callID     string
	invocation [32]byte
	state      State
	updatedAt  time.Time
	location
}

// location is the place of one line in the file.
type location struct {
	offset      int64
	length      int
	line        int
	before, sum uint32 // the checksums of the line before, and of it
}

func newIndex() index {
	return index{byCall: map[string]*place{}, byInvocation: map[[32]byte]*place{}}
}

func (x *index) put(at location, h head, invocationID string) {
	p := &place{callID: h.CallID, invocation: invocationKey(invocationID), state: h.State, updatedAt: h.UpdatedAt, location: at}
	x.byCall[p.callID], x.byInvocation[p.invocation] = p, p
	x.order = append(x.order, p)
}

func (x *index) move(p *place, at location, state State, updatedAt time.Time) {
	p.location, p.state, p.updatedAt = at, state, updatedAt
}

func (x *index) drop(p *place) {
	p.state = stateWithdrawn
	delete(x.byCall, p.callID)
	delete(x.byInvocation, p.invocation)
}

// openPlaces gives the places of the open entries.
func (x *index) openPlaces() []*place {
	return slices.DeleteFunc(slices.Clone(x.order), func(p *place) bool { return p.state != StatePrepared })
}

// take adds a line that was read to the index. It reports false where the line cannot follow
// those before it.
func (x *index) take(at location, h head) bool {
	p := x.byCall[h.CallID]
	same := p != nil && p.invocation == invocationKey(h.Original.InvocationID)
	switch {
	case p == nil && h.State != stateWithdrawn:
		if x.byInvocation[invocationKey(h.Original.InvocationID)] != nil {
			return false
		}
		x.put(at, h, h.Original.InvocationID)
	case !same || p.state != StatePrepared:
		return false
	case h.State == stateWithdrawn:
		x.drop(p)
	default:
		x.move(p, at, h.State, h.UpdatedAt)
	}
	return true
}

// next gives the location for a new line of this length, and counts the line.
func (x *index) next(length int, sum uint32) location {
	at := location{offset: x.written.size, length: length, line: x.lines + 1, before: x.sum, sum: sum}
	x.lines++
	x.sum = sum
	x.written.number++
	x.written.size += int64(length)
	return at
}

// open opens the file, or makes it, and reads where its entries are.
func (f *File) open() error {
	var err error
	if f.file, f.info, err = f.disk.open(f.disk.name, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if f.info.Size() > f.limit {
		return fail(fmt.Sprintf("%s is larger than %d bytes, so it is not read", f.disk.path, f.limit), ErrDamaged)
	}
	if err := f.load(); err != nil {
		return err
	}
	if f.lines == 0 {
		line, sum := headerLine()
		if _, err := f.file.WriteAt(line, 0); err != nil {
			return errors.Join(fail("writing "+f.disk.path+": "+err.Error(), err), f.file.Truncate(0))
		}
		f.next(len(line), sum)
	}
	err = f.syncFile()
	if err == nil {
		err = f.disk.sync()
	}
	if err != nil {
		return fail("syncing "+f.disk.path+": "+err.Error(), err)
	}
	// Remove the draft of a compaction that a crash interrupted.
	_ = f.disk.folder.Remove(f.disk.name + draftSuffix)
	f.durable = f.written
	return nil
}

// load reads the whole file and cuts off an incomplete line at its end. After an error the
// index is as it was.
func (f *File) load() error {
	info, err := f.file.Stat()
	if err != nil {
		return fail("looking at "+f.disk.path+": "+err.Error(), err)
	}
	header, headerSum := headerLine()
	x := newIndex()
	lines := bufio.NewReaderSize(io.NewSectionReader(f.file, 0, info.Size()), maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return f.finish(x, line, header)
		case errors.Is(err, bufio.ErrBufferFull):
			return f.damaged(x.lines+1, "it is too long")
		case err != nil:
			return fail("reading "+f.disk.path+": "+err.Error(), err)
		case x.lines == 0 && !bytes.Equal(line, header):
			return f.damaged(1, "it is not the first line of a journal")
		case x.lines == 0:
			x.next(len(line), headerSum)
			continue
		}
		number := x.lines + 1
		_, sum, ok := unsealed(x.sum, line)
		if !ok {
			return f.damaged(number, "its checksum is wrong, or lines before it are missing")
		}
		h, ok := decodeHead(line)
		if !ok || !x.take(x.next(len(line), sum), h) {
			return f.damaged(number, "it does not follow from the lines before it")
		}
	}
}

// finish cuts off an incomplete line, and makes x the index of the file.
func (f *File) finish(x index, rest, header []byte) error {
	if x.lines == 0 && !bytes.HasPrefix(header, rest) {
		return f.damaged(1, "it is not the first line of a journal")
	}
	if len(rest) > 0 {
		if err := f.disk.step("cut"); err != nil {
			return fail("cutting off the unfinished end of "+f.disk.path+": "+err.Error(), err)
		}
		if err := f.file.Truncate(x.written.size); err != nil {
			return fail("cutting off the unfinished end of "+f.disk.path+": "+err.Error(), err)
		}
		f.torn = Torn{Line: x.lines + 1, Bytes: int64(len(rest))}
	}
	f.index = x
	return nil
}

func (f *File) damaged(line int, flaw string) error {
	return fail(fmt.Sprintf("line %d of %s is damaged: %s. The file is left as it is: have a person look at it", line, f.disk.path, flaw), ErrDamaged)
}

// read gives the entry at a place. The caller holds mu.
func (f *File) read(p *place) (Entry, error) {
	switch {
	case f.unusable != nil:
		return Entry{}, f.unusable
	case p == nil:
		return Entry{}, ErrNotFound
	}
	line, err := f.readLine(p)
	if err != nil {
		return Entry{}, err
	}
	e, err := decodeEntry(line)
	if err != nil || e.CallID != p.callID || e.State != p.state || invocationKey(e.Original.InvocationID) != p.invocation {
		return Entry{}, f.damaged(p.line, "it does not hold the entry that it should")
	}
	return e, nil
}

func (f *File) readLine(p *place) ([]byte, error) {
	line := make([]byte, p.length)
	if _, err := f.file.ReadAt(line, p.offset); err != nil {
		return nil, fail("reading "+f.disk.path+": "+err.Error(), err)
	}
	if _, sum, ok := unsealed(p.before, line); !ok || sum != p.sum {
		return nil, f.damaged(p.line, "it was changed since the journal was opened")
	}
	return line, nil
}

// append writes a line at the end of the file. After an error the file ends where it did
// before. The caller holds mu.
func (f *File) append(object []byte) (location, error) {
	line, sum := sealed(f.sum, object)
	end := f.written.size
	if end+int64(len(line)) > f.limit {
		return location{}, fail(fmt.Sprintf("%s is full: it would be larger than %d bytes", f.disk.path, f.limit))
	}
	if now, err := f.disk.folder.Lstat(f.disk.name); err != nil || !os.SameFile(now, f.info) || now.Size() != end {
		f.unusable = fail(f.disk.path+" was replaced, removed or written to by somebody else, so nothing more is written to it", ErrUnusable, ErrDamaged)
		return location{}, f.unusable
	}
	err := f.disk.step("write")
	if err == nil {
		_, err = f.file.WriteAt(line, end)
	}
	if err != nil {
		if cut := f.file.Truncate(end); cut != nil {
			f.unusable = fail("a line of "+f.disk.path+" could not be written and not be taken back: "+cut.Error(), ErrUnusable, cut)
		}
		return location{}, fail("writing "+f.disk.path+": "+err.Error(), err)
	}
	return f.next(len(line), sum), nil
}

func (f *File) syncFile() error {
	if err := f.disk.step("sync"); err != nil {
		return err
	}
	return f.file.Sync()
}
