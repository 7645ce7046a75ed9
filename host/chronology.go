package host

import (
	"reflect"
	"time"

	"github.com/bailinghub/bailinghub-go/receipt"
)

// A chronology keeps the latest observation of one original, by the Hub's clock.
//
// Answers can come in the wrong order, so an observation with an earlier time than the
// latest one is ignored at first. But the Hub's clock may have been set back, or one of
// several nodes of the Hub may have a clock that is ahead and may have answered once.
// From then on every answer has an earlier time, and a watch that ignored all of them
// would never end. Two signs show that case: two ignored answers in a row of which the
// second one has the later time, and a settled answer that comes twice.
type chronology struct {
	latest *receipt.Receipt
	// earlier is the previous answer where that was ignored; else nil.
	earlier *receipt.Receipt
	// settled is the last settled answer that was ignored.
	settled *receipt.Receipt
}

// accept reports whether the observation counts. Where it does, it becomes the latest.
func (c *chronology) accept(observed *receipt.Receipt) bool {
	if c.latest != nil && observed.ObservedAt.Before(c.latest.ObservedAt) {
		advances := c.earlier != nil && observed.ObservedAt.After(c.earlier.ObservedAt)
		seenTwice := c.settled != nil && observed.Settled() && same(c.settled, observed)
		c.earlier = observed
		if observed.Settled() {
			c.settled = observed
		}
		if !advances && !seenTwice {
			return false
		}
	}
	*c = chronology{latest: observed, settled: c.settled}
	return true
}

// same reports whether two receipts are equal except for the time of observation.
func same(a, b *receipt.Receipt) bool {
	x, y := *a, *b
	x.ObservedAt, y.ObservedAt = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}
