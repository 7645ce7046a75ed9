package paired_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/paired"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		wait := func(d time.Duration) func() {
			return func() { calls++; time.Sleep(d) }
		}
		got := paired.Compare(11, 5, wait(30*time.Millisecond), wait(20*time.Millisecond))
		if want := (paired.Result{Ratio: 1.5, Subject: 30 * time.Millisecond, Floor: 20 * time.Millisecond}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if calls != 2*12*5 {
			t.Errorf("%d calls", calls)
		}
	})
}
