package journal_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/paired"
)

// An Add is one append and one sync of the file: beside the bare ones of the
// same bytes.
func BenchmarkAdd(b *testing.B) {
	ctx := context.Background()
	for b.Loop() {
		f := open(b, newPath(b))
		before := f.Size()
		must(b, f.Add(ctx, operation(0)))
		line := make([]byte, f.Size()-before)
		bare, err := os.Create(newPath(b))
		must(b, err)
		n := 0
		result := paired.Compare(21, 50, func() {
			n++
			must(b, f.Add(ctx, operation(n)))
		}, func() {
			_, err := bare.Write(line)
			must(b, err)
			must(b, bare.Sync())
		})
		must(b, bare.Close())
		b.ReportMetric(result.Ratio, "ratio")
		b.ReportMetric(float64(result.Subject.Nanoseconds()), "ns/add")
		b.ReportMetric(float64(result.Floor.Nanoseconds()), "ns/bare")
	}
}

// Opening a journal of 100,000 open entries, and going through all of them.
func BenchmarkOpen(b *testing.B) {
	const entries = 100_000
	path := newPath(b)
	f := open(b, path)
	add(b, f, entries)
	must(b, f.Close())
	for b.Loop() {
		start := time.Now()
		f, err := journal.OpenFile(path)
		must(b, err)
		opened := time.Since(start)
		n := 0
		for _, err := range f.Open(context.Background()) {
			must(b, err)
			n++
		}
		if n != entries {
			b.Fatalf("%d entries", n)
		}
		b.ReportMetric(opened.Seconds(), "s/open-file")
		b.ReportMetric((time.Since(start) - opened).Seconds(), "s/open-entries")
		must(b, f.Close())
	}
}
