package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host/journal"
)

// lively makes a journal with entries of every state, and gives its text.
func lively(t testing.TB, path string) []byte {
	t.Helper()
	f := open(t, path)
	for n := range 6 {
		must(t, f.Add(t.Context(), operation(n)))
	}
	must(t, f.Sending(t.Context(), operation(1).CallID))
	_, err := f.Record(t.Context(), operation(2).Original.InvocationID, waiting(operation(2)))
	must(t, err)
	_, err = f.Record(t.Context(), operation(3).Original.InvocationID, executed(operation(3)))
	must(t, err)
	must(t, f.GiveUp(t.Context(), operation(4).Original.InvocationID, "the shop was closed"))
	must(t, f.Withdraw(t.Context(), operation(5).CallID))
	must(t, f.Close())
	return read(t, path)
}

// livelyCalls are those that are open in it.
var livelyCalls = []string{"call_0", "call_1", "call_2"}

// Wherever the last line ends, what stands before it is there, and what is left
// of it is cut off and told.
func TestTornLastLine(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	text := lively(t, path)
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	lines := bytes.Count(text, []byte("\n"))
	for _, length := range []int{last + 1, last + 8, last + 30, len(text) - 2, len(text) - 1} {
		must(t, os.WriteFile(path, text[:length], 0o600))
		f := open(t, path)
		if got, want := f.Torn(), (journal.Torn{Line: lines, Bytes: int64(length - last)}); got != want {
			t.Errorf("cut at %d: %+v, want %+v", length, got, want)
		}
		// The last line withdrew the sixth.
		if diff := cmp.Diff(append(slices.Clone(livelyCalls), "call_5"), callsOf(t, f)); diff != "" {
			t.Errorf("cut at %d (-want +got):\n%s", length, diff)
		}
		must(t, f.Add(t.Context(), operation(9)))
		must(t, f.Close())
		again := open(t, path)
		if got := again.Torn(); got != (journal.Torn{}) || len(callsOf(t, again)) != 5 {
			t.Errorf("cut at %d, and opened again: %+v", length, got)
		}
		must(t, again.Close())
	}
	// Zeros, as some file systems leave after a failure of the machine.
	must(t, os.WriteFile(path, append(slices.Clone(text), make([]byte, 5000)...), 0o600))
	f := open(t, path)
	if got := f.Torn(); got.Bytes != 5000 || !bytes.Equal(read(t, path), text) {
		t.Errorf("zeros at the end: %+v", got)
	}
}

// A journal whose very first line was not finished is a new one.
func TestTornFirstLine(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	header, _, _ := bytes.Cut(lively(t, path), []byte("\n"))
	for length := range len(header) + 1 {
		must(t, os.WriteFile(path, header[:length], 0o600))
		f := open(t, path)
		if torn := f.Torn(); torn.Bytes != int64(length) || len(callsOf(t, f)) != 0 {
			t.Errorf("%d bytes: %+v", length, torn)
		}
		must(t, f.Add(t.Context(), operation(1)))
		must(t, f.Close())
	}
}

// Any other damage is refused with the number of its line, and the file is left
// as it is.
func TestDamaged(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	text := lively(t, path)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(lines ...[]byte) []byte { return bytes.Join(lines, nil) }
	type damage struct {
		text []byte
		line int
	}
	cases := map[string]damage{
		"another file without an end": {[]byte("hello"), 1},
		"another file":                {[]byte("hello\nworld\n"), 1},
		"another format":              {bytes.Replace(text, []byte("journal.v1"), []byte("journal.v2"), 1), 1},
		"an empty line":               {join(lines[0], []byte("\n"), join(lines[1:]...)), 2},
		"a line missing":              {join(join(lines[:3]...), join(lines[4:]...)), 4},
		"two lines changed over":      {join(lines[0], lines[2], lines[1], join(lines[3:]...)), 2},
		"a line twice":                {join(lines[0], lines[1], lines[1], join(lines[2:]...)), 3},
		"the first line missing":      {join(lines[1:]...), 1},
		"an end that is too long":     {append(slices.Clone(text), make([]byte, 2<<20)...), len(lines) + 1},
		"the last line changed":       {bytes.Replace(text, lines[len(lines)-1], bytes.Replace(lines[len(lines)-1], []byte("call_5"), []byte("call_0"), 1), 1), len(lines)},
	}
	for i, line := range lines {
		for _, at := range []int{0, len(line) / 4, len(line) / 2, len(line) - 2} {
			changed := slices.Clone(line)
			changed[at] ^= 0x01
			cases[fmt.Sprintf("byte %d of line %d", at, i+1)] = damage{join(join(lines[:i]...), changed, join(lines[i+1:]...)), i + 1}
		}
	}
	for name, c := range cases {
		must(t, os.WriteFile(path, c.text, 0o600))
		f, err := journal.OpenFile(path)
		if f != nil || !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("line %d of ", c.line)) {
			t.Errorf("%s: %v, want line %d", name, err, c.line)
		}
		if !bytes.Equal(read(t, path), c.text) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// Lines whose checksums are right, and that this package would not have written,
// are damage too.
func TestDamagedWithRightChecksums(t *testing.T) {
	t.Parallel()
	entry := func(call, id, state string) string {
		return `{"call_id":"` + call + `","original":{"invocation_id":"` + strings.Repeat(id, 64) + `"},"state":"` + state + `","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`
	}
	for name, test := range map[string]struct {
		objects []string
		line    int
	}{
		"no JSON":                    {[]string{`{]`}, 2},
		"no call id":                 {[]string{entry("", "a", "prepared")}, 2},
		"no invocation id":           {[]string{entry("c", "", "prepared")}, 2},
		"an unknown state":           {[]string{entry("c", "a", "not_sent")}, 2},
		"a member twice":             {[]string{`{"state":"prepared",` + entry("c", "a", "prepared")[1:]}, 2},
		"a member null":              {[]string{strings.Replace(entry("c", "a", "prepared"), `"prepared"`, `null`, 1)}, 2},
		"a member in another case":   {[]string{strings.Replace(entry("c", "a", "prepared"), `"state"`, `"State"`, 1)}, 2},
		"a call with two ids":        {[]string{entry("c", "a", "prepared"), entry("c", "b", "prepared")}, 3},
		"an id with two calls":       {[]string{entry("c", "a", "prepared"), entry("d", "a", "prepared")}, 3},
		"a change of what is closed": {[]string{entry("c", "a", "settled"), entry("c", "a", "prepared")}, 3},
		"a withdrawal of nothing":    {[]string{entry("c", "a", "withdrawn")}, 2},
	} {
		path := newPath(t)
		text := journal.Seal(test.objects...)
		must(t, os.WriteFile(path, text, 0o600))
		f, err := journal.OpenFile(path)
		if f != nil || !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("line %d of ", test.line)) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(read(t, path), text) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// What is no plain file is refused at once and not touched, the file of the lock
// too.
func TestNoPlainFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := filepath.Join(folder, "target")
	must(t, os.WriteFile(target, []byte("hello"), 0o600))
	must(t, os.Symlink(target, filepath.Join(folder, "link")))
	must(t, os.Mkdir(filepath.Join(folder, "folder"), 0o700))
	must(t, os.Symlink(target, filepath.Join(folder, "a.lock")))
	for _, path := range append(noPlainFiles(t, folder), filepath.Join(folder, "link"), filepath.Join(folder, "folder"), filepath.Join(folder, "a")) {
		if f, err := journal.OpenFile(path); f != nil || !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text := read(t, target); string(text) != "hello" {
		t.Errorf("behind the link stands %q", text)
	}
	for _, path := range []string{"", filepath.Join(folder, "missing", "operations")} {
		if f, err := journal.OpenFile(path); f != nil || err == nil {
			t.Errorf("%q was opened", path)
		}
	}
}

func TestFileOverItsLimit(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	f := open(t, path, journal.WithSizes(1<<20, 2000))
	var err error
	n := 0
	for ; err == nil; n++ {
		err = f.Add(t.Context(), operation(n))
	}
	if n < 3 || !strings.Contains(err.Error(), "is full") || len(callsOf(t, f)) != n-1 || f.Size() > 2000 {
		t.Errorf("after %d: %v", n, err)
	}
	must(t, f.Close())
	f = open(t, path)
	must(t, f.Add(t.Context(), operation(n)))
	must(t, f.Close())
	if f, err := journal.OpenFile(path, journal.WithSizes(1<<20, 2000)); f != nil || !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("over its limit: %v", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	sparse := newPath(t)
	must(t, os.WriteFile(sparse, nil, 0o600))
	must(t, os.Truncate(sparse, 1<<40))
	if f, err := journal.OpenFile(sparse); f != nil || !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("a terabyte: %v", err)
	}
}

// Who has the journal is said, within one process too, and it is free once it is
// closed.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	f := open(t, path)
	_, err := journal.OpenFile(path)
	wantError(t, "a second opening", err, journal.ErrInUse)
	if want := fmt.Sprintf("is in use by process %d (%q on ", os.Getpid(), filepath.Base(os.Args[0])); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say who", err)
	}
	must(t, f.Close())
	must(t, f.Close())
	again := open(t, path)
	must(t, again.Add(t.Context(), operation(1)))

	wantError(t, "Add after Close", f.Add(t.Context(), operation(1)), journal.ErrUnusable)
	_, err = f.Find(t.Context(), "call_1")
	wantError(t, "Find after Close", err, journal.ErrUnusable)
	for _, err := range f.Open(t.Context()) {
		wantError(t, "Open after Close", err, journal.ErrUnusable)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]journal.FileOption{"nil": nil, "a negative retention": journal.WithRetention(-1)} {
		if f, err := journal.OpenFile(newPath(t), option); f != nil || !errors.Is(err, feedback.CodeInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := open(t, newPath(t))
	var none context.Context
	wantError(t, "a nil context", f.Add(none, operation(1)), feedback.CodeInvalidRequest)
}

// What is open lasts; what is closed is forgotten after its time, and the file
// shrinks.
func TestCompaction(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	now := time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC)
	clock := journal.WithClock(func() time.Time { return now })
	f := open(t, path, clock, journal.WithSizes(10_000, 1<<20), journal.WithRetention(time.Hour))
	ctx := t.Context()
	for n := range 20 {
		must(t, f.Add(ctx, operation(n)))
	}
	largest := int64(0)
	for range 100 { // no evidence that is new makes the file grow without end
		for n := range 20 {
			_, err := f.Record(ctx, operation(n).Original.InvocationID, waiting(operation(n)))
			must(t, err)
		}
		largest = max(largest, f.Size())
	}
	if f.Size() > 60_000 || largest > 100_000 {
		t.Errorf("the file has %d bytes, and had %d", f.Size(), largest)
	}
	for n := range 19 {
		_, err := f.Record(ctx, operation(n).Original.InvocationID, executed(operation(n)))
		must(t, err)
	}
	must(t, f.Close())

	// Within their time they are found, however often the journal is opened.
	f = open(t, path, clock, journal.WithSizes(0, 1<<20), journal.WithRetention(time.Hour))
	for n := range 20 {
		wantError(t, "a call that is known", f.Add(ctx, operation(n)), journal.ErrExists)
	}
	must(t, f.Close())
	within := int64(len(read(t, path)))

	now = now.Add(2 * time.Hour)
	f = open(t, path, clock, journal.WithSizes(0, 1<<20), journal.WithRetention(time.Hour))
	if got := callsOf(t, f); !slices.Equal(got, []string{"call_19"}) {
		t.Errorf("%v are open", got)
	}
	if _, err := f.Find(ctx, "call_3"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("after its time: %v", err)
	}
	if size := f.Size(); size > within/10 || size != int64(len(read(t, path))) {
		t.Errorf("the file has %d bytes, and had %d", size, within)
	}
	must(t, f.Add(ctx, operation(3)))
	must(t, f.Close())
	if got := callsOf(t, open(t, path)); !slices.Equal(got, []string{"call_19", "call_3"}) {
		t.Errorf("%v are open", got)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a draft is left: %v", err)
	}
}

var errStep = fmt.Errorf("injected: %w", syscall.EIO)

// Each step fails once, at each time that it is taken. Whatever returned without
// an error is there afterwards, and everything goes on.
func TestEachStepFails(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"write", "sync", "make draft", "write draft", "sync draft", "rename", "sync folder"} {
		for at := 1; ; at++ {
			taken := 0
			if !stepFails(t, step, func(is string) error {
				if is == step {
					if taken++; taken == at {
						return errStep
					}
				}
				return nil
			}, &taken, at) {
				break
			}
		}
	}
}

// stepFails reports whether the step was taken that often.
func stepFails(t *testing.T, step string, before func(string) error, taken *int, at int) bool {
	t.Helper()
	path := newPath(t)
	options := []journal.FileOption{journal.WithSteps(before), journal.WithSizes(4000, 1<<20)}
	f, err := journal.OpenFile(path, options...)
	if err != nil {
		wantError(t, step, err, errStep)
		f = open(t, path, options...)
	}
	ctx := context.Background()
	want := map[string]journal.State{}
	failed := 0
	try := func(call string, state journal.State, err error) {
		switch {
		case err == nil:
			want[call] = state
		case errors.Is(err, journal.ErrUnusable):
			_ = f.Close()
			f = open(t, path, options...)
		case errors.Is(err, errStep):
			failed++
		case errors.Is(err, journal.ErrNotFound): // its Add failed
		default:
			t.Errorf("%s failed the %d. time: %v", step, at, err)
		}
	}
	for n := range 6 {
		e := operation(n)
		try(e.CallID, journal.StatePrepared, f.Add(ctx, e))
		for range 3 {
			_, err = f.Record(ctx, e.Original.InvocationID, waiting(e))
			try(e.CallID, journal.StatePrepared, err)
		}
		if n%2 == 0 {
			_, err = f.Record(ctx, e.Original.InvocationID, executed(e))
			try(e.CallID, journal.StateSettled, err)
		}
	}
	try("", "", f.Add(ctx, operation(99)))
	if failed > 4 {
		t.Errorf("%s failed the %d. time, and so did %d calls", step, at, failed)
	}
	_ = f.Close()
	f = open(t, path)
	defer f.Close()
	for call, state := range want {
		if call == "" {
			continue
		}
		got, err := f.Find(ctx, call)
		if err != nil || got.State != state && got.State != journal.StateSettled {
			t.Errorf("%s failed the %d. time: %s is %s, want %s (%v)", step, at, call, got.State, state, err)
		}
	}
	return *taken >= at
}

// Nobody is told that an entry is kept whose sync failed, also where another one
// waited for the same sync.
func TestSharedSyncFails(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var mu sync.Mutex
	fail := false
	f := open(t, path, journal.WithSteps(func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if fail && step == "sync" {
			return errStep
		}
		return nil
	}))
	for round := range 20 {
		mu.Lock()
		fail = round%2 == 0
		mu.Unlock()
		results := make([]error, 8)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { results[i] = f.Add(t.Context(), operation(round*8+i)) })
		}
		all.Wait()
		for i, err := range results {
			if (err == nil) != (round%2 == 1) {
				t.Errorf("round %d: %v", round, err)
			}
			if _, found := f.Find(t.Context(), operation(round*8+i).CallID); (found == nil) != (err == nil) {
				t.Errorf("round %d: Add gave %v, and Find %v", round, err, found)
			}
		}
	}
	mu.Lock()
	fail = false
	mu.Unlock()
	must(t, f.Close())
	if n := len(callsOf(t, open(t, path))); n != 80 {
		t.Errorf("%d are open, want 80", n)
	}
}

// A file that somebody else writes to, replaces or removes is not written to any
// more.
func TestSomebodyElseWrites(t *testing.T) {
	t.Parallel()
	for name, meddle := range map[string]func(path string) error{
		"removed":    os.Remove,
		"shortened":  func(path string) error { return os.Truncate(path, 10) },
		"written to": func(path string) error { return os.WriteFile(path, []byte("hello\n"), 0o600) },
		"replaced": func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, text, 0o600))
		},
	} {
		path := newPath(t)
		f := open(t, path)
		must(t, f.Add(t.Context(), operation(1)))
		must(t, meddle(path))
		before, _ := os.ReadFile(path)
		wantError(t, name, f.Add(t.Context(), operation(2)), journal.ErrUnusable)
		wantError(t, name, f.Add(t.Context(), operation(3)), journal.ErrUnusable)
		_ = f.Close()
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s: the file was changed afterwards", name)
		}
	}
}

// 5,000 operations are reported with a line each, and not with the whole file.
func TestManyReports(t *testing.T) {
	t.Parallel()
	const n = 5000
	path := newPath(t)
	writes := 0
	f := open(t, path, journal.WithSteps(func(step string) error {
		if step == "write" || step == "write draft" {
			writes++
		}
		return nil
	}))
	add(t, f, n)
	before, size := writes, f.Size()
	for i := range n {
		_, err := f.Record(t.Context(), operation(i).Original.InvocationID, waiting(operation(i)))
		must(t, err)
	}
	if lines := writes - before; lines > 2*n || f.Size() > 4*size {
		t.Errorf("%d reports cost %d lines, and the file grew from %d to %d", n, lines, size, f.Size())
	}
}

// add adds the first n operations, many at once so that they share syncs.
func add(t testing.TB, f *journal.File, n int) {
	t.Helper()
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := worker; i < n; i += 64 {
				if err := f.Add(context.Background(), operation(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
