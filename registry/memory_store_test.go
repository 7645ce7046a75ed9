package registry_test

import (
	"testing"

	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

func TestMemoryIsAStore(t *testing.T) {
	t.Parallel()
	registrytest.TestStore(t, func(testing.TB) registrytest.Fixture {
		store := registry.NewMemory()
		return registrytest.Of(store, store)
	})
}
