package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/receipt"
)

const (
	// mostHeap is far above what a run needs, and far below what one would
	// have that keeps something of every inspection.
	mostHeap = 256 << 20
	// mostLeft is how much heap a run may leave behind.
	mostLeft = 32 << 20
)

// resources are what a run has to give back.
type resources struct {
	goroutines  int
	descriptors int // -1 where they cannot be counted
	heap        uint64
}

func measure() (resources, error) {
	// The first socket of a process makes descriptors that stay.
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return resources{}, err
	}
	listener.Close()
	debug.FreeOSMemory()
	return resources{goroutines: runtime.NumGoroutine(), descriptors: descriptors(), heap: heapInUse()}, nil
}

// descriptors counts the open ones of this process.
func descriptors() int {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if entries, err := os.ReadDir(dir); err == nil {
			return len(entries)
		}
	}
	return -1
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// meter watches memory while a run goes on.
func (s *soak) meter(ctx context.Context) {
	for s.pause(ctx, 500*time.Millisecond) {
		heap := heapInUse()
		s.tally.mu.Lock()
		s.tally.highest = max(s.tally.highest, heap)
		s.tally.mu.Unlock()
		if heap > mostHeap {
			s.breaks(memoryIsBounded, "%d MiB of heap are in use", heap>>20)
		}
		if s.config.progress != nil {
			s.config.progress(s.tally, s.clock.now().Sub(s.clock.start.Round(0)))
		}
	}
	if s.config.progress != nil {
		s.config.progress(s.tally, s.config.duration)
	}
}

// left reports what a run did not give back. What ends by itself gets the time
// to: a refresh may be on its way, and saves what it gets.
func (s *soak) left(before resources) error {
	deadline := time.Now().Add(s.config.settle)
	for {
		now := resources{runtime.NumGoroutine(), descriptors(), 0}
		if now.goroutines <= before.goroutines && now.descriptors <= before.descriptors {
			break
		}
		if time.Now().After(deadline) {
			return &breach{nothingIsLeft, fmt.Sprintf("%d goroutines and %d descriptors at first, %d and %d in the end\n\n%s",
				before.goroutines, before.descriptors, now.goroutines, now.descriptors, stacks())}
		}
		s.pause(context.Background(), 20*time.Millisecond)
	}
	runtime.GC()
	if heap := heapInUse(); heap > before.heap+mostLeft {
		return &breach{memoryIsBounded, fmt.Sprintf("%d MiB of heap at first, %d in the end", before.heap>>20, heap>>20)}
	}
	return nil
}

// stacks gives the first goroutines there are.
func stacks() string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	each := strings.Split(string(all), "\n\n")
	return strings.Join(each[:min(len(each), 8)], "\n\n")
}

// unchanged reports that two receipts tell the same.
func unchanged(a, b *receipt.Receipt) bool {
	x, y := *a, *b
	x.ObservedAt, y.ObservedAt = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}
