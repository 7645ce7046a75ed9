package main

import (
	"testing"
	"time"
)

// A refresh whose answer has not come explains what waits for it, though the
// one that waits began later, or hears of the end first.
func TestWaits(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l := &login{}
	sent := l.refreshing(at(0))
	l.happened(at(1), false)
	if longest := l.longestRefresh(at(2), at(4)); longest != 4*time.Second || !l.troubled(at(2), at(4)) {
		t.Errorf("under way: %v", longest)
	}
	l.refreshed(sent, at(5))
	if longest := l.longestRefresh(at(2), at(6)); longest != 5*time.Second || !l.troubled(at(2), at(6)) {
		t.Errorf("over: %v", longest)
	}
	if longest := l.longestRefresh(at(5), at(9)); longest != 0 || l.troubled(at(8), at(9)) {
		t.Errorf("long over: %v", longest)
	}
}
