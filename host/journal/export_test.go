package journal

import "time"

// WithClock lets a test say what time it is.
func WithClock(now func() time.Time) FileOption {
	return func(f *File) error { f.now = now; return nil }
}

// WithSizes sets from which size on the file is compacted, and how large it may
// be.
func WithSizes(slack, limit int64) FileOption {
	return func(f *File) error { f.slack, f.limit = slack, limit; return nil }
}

// WithSteps lets a test come before each step that changes something; its error
// takes the place of the step.
func WithSteps(before func(step string) error) FileOption {
	return func(f *File) error { f.before = before; return nil }
}

// Size is how large the file is.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written.size
}

// Seal gives the text of a journal whose lines hold these objects.
func Seal(objects ...string) []byte {
	text, sum := headerLine()
	for _, object := range objects {
		line, next := sealed(sum, []byte(object))
		text, sum = append(text, line...), next
	}
	return text
}
