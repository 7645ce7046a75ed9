package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

// tally counts what a run did.
type tally struct {
	config config
	took   time.Duration

	mu       sync.Mutex
	kinds    map[string]int // of calls, by their answers
	answers  map[string]int
	faults   map[string]int
	sessions map[string]int
	highest  uint64 // bytes of heap
}

func newTally(c config) *tally {
	return &tally{config: c, kinds: map[string]int{}, answers: map[string]int{}, faults: map[string]int{}, sessions: map[string]int{}}
}

func (t *tally) answer(kind, code string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kinds[kind]++
	t.answers[code]++
}

func (t *tally) fault(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[kind]++
}

func (t *tally) session(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions[what]++
}

// totals gives the sums for the progress line.
func (t *tally) totals() (inspections, receipts, faults, rotations int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sum(t.answers), t.answers["receipt"], sum(t.faults), t.sessions["rotations"]
}

func sum(counts map[string]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

// print writes the table of a run.
func (t *tally) print(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(w, "%v with seed %d\n", t.took.Round(time.Second), t.config.seed)
	for _, part := range []struct {
		title  string
		counts map[string]int
	}{
		{"inspections", t.kinds}, {"their answers", t.answers}, {"faults", t.faults}, {"sessions and connections", t.sessions},
	} {
		fmt.Fprintf(w, "\n%s %10s\n", screen.Pad(part.title, 50), thousands(sum(part.counts)))
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			fmt.Fprintf(w, "  %s %10s\n", screen.Pad(name, 48), thousands(part.counts[name]))
		}
	}
	fmt.Fprintf(w, "\n%s %6d MiB\n", screen.Pad("most heap in use", 50), t.highest>>20)
}

func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// progressOn gives the progress line for a terminal; nil where w is none.
func progressOn(w io.Writer) func(*tally, time.Duration) {
	if !screen.IsTerminal(w) {
		return nil
	}
	columns := screen.ColumnsOf(w)
	return func(t *tally, took time.Duration) {
		line := ""
		if took < t.config.duration {
			inspections, receipts, faults, rotations := t.totals()
			line = fmt.Sprintf("%v of %v: %s inspections, %s receipts, %s faults, %s rotations",
				took.Truncate(time.Second), t.config.duration, thousands(inspections), thousands(receipts), thousands(faults), thousands(rotations))
		}
		fmt.Fprint(w, "\r\x1b[K"+screen.Cut(line, columns-1))
	}
}
