package host

import (
	"reflect"
	"time"

	"github.com/bailinghub/bailinghub-go/receipt"
)

// A chronology keeps the latest observation of one original by the Hub's clock.
// Answers can come in the wrong order, so an observation that is earlier than
// the latest does not count by itself. But the clock can also have been set
// back, or one of several nodes of the Hub can have run ahead and answered once:
// then every later answer is an earlier one, and a watch that ignored them all
// would never end. Two earlier answers in a row that advance between themselves
// show that, and so does a settled one that is seen twice.
type chronology struct {
	latest *receipt.Receipt
	// earlier is the answer just before, where that one was earlier than the
	// latest; else nil.
	earlier *receipt.Receipt
	// settled is the last settled answer that was earlier than the latest.
	settled *receipt.Receipt
}

// accept reports whether the observation counts, and keeps it as the latest
// where it does.
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

// same reports whether two receipts tell the same, the time of observation
// aside.
func same(a, b *receipt.Receipt) bool {
	x, y := *a, *b
	x.ObservedAt, y.ObservedAt = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}
