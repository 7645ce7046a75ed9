package main

import "time"

// clock is the one clock of a run: the Hubs write its instants into receipts,
// and calls are measured with it. It goes on steadily whatever happens to the
// time of the machine.
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() time.Time { return c.start.Round(0).Add(time.Since(c.start)) }
