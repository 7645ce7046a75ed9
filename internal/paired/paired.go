// Package paired compares the times of two functions within one run, for
// benchmarks. Because the speed of a machine changes from minute to minute, the
// two functions take turns, and each pair of turns gives one ratio.
package paired

import (
	"slices"
	"time"
)

// Result is the median over all pairs.
type Result struct {
	// Ratio is the time of the subject divided by that of the floor.
	Ratio float64
	// Subject and Floor are the times of one call.
	Subject, Floor time.Duration
}

// Compare lets subject and floor take turns: pairs turns of each, with calls
// calls in every turn. One more turn of each comes first and is not measured.
func Compare(pairs, calls int, subject, floor func()) Result {
	repeat(calls, subject)
	repeat(calls, floor)
	var ratios []float64
	var subjects, floors []time.Duration
	for pair := range pairs {
		var s, f time.Duration
		if pair%2 == 0 {
			s, f = repeat(calls, subject), repeat(calls, floor)
		} else {
			f, s = repeat(calls, floor), repeat(calls, subject)
		}
		ratios = append(ratios, float64(s)/float64(f))
		subjects, floors = append(subjects, s), append(floors, f)
	}
	return Result{Ratio: median(ratios), Subject: median(subjects) / time.Duration(calls), Floor: median(floors) / time.Duration(calls)}
}

func repeat(calls int, f func()) time.Duration {
	start := time.Now()
	for range calls {
		f()
	}
	return time.Since(start)
}

func median[T float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
