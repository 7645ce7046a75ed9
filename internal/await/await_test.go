package await_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/await"
)

func TestDo(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	if got, err := await.Do(t.Context(), func(context.Context) (int, error) { return 7, mine }); got != 7 || err != mine {
		t.Errorf("%d, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := await.Do(ended, func(context.Context) (int, error) { t.Error("called"); return 7, nil }); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

// The caller returns with its context; what the function does afterwards, a
// panic too, hurts nobody.
func TestDoReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		got, err := await.Do(ctx, func(context.Context) (int, error) {
			time.Sleep(time.Hour)
			panic("late")
		})
		if got != 0 || err != context.DeadlineExceeded || time.Since(start) != time.Second {
			t.Errorf("%d, %v after %v", got, err, time.Since(start))
		}
		time.Sleep(2 * time.Hour) // the panic comes and goes
	})
}

func TestDoRaisesAPanicInTheCaller(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	defer func() {
		if got := recover(); got != mine {
			t.Errorf("recovered %v", got)
		}
	}()
	_, _ = await.Do(t.Context(), func(context.Context) (int, error) { panic(mine) })
}
