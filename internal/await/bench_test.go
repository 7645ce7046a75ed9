package await_test

import (
	"context"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/await"
)

func BenchmarkDo(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		_, _ = await.Do(ctx, func(context.Context) (int, error) { return 1, nil })
	}
}
