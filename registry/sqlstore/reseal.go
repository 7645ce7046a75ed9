package sqlstore

import (
	"context"
	"errors"

	"github.com/bailinghub/bailinghub-go/registry"
)

// Reseal seals every login of the namespace again, with the first key of this store,
// and reports how many it sealed. After it the other keys are not needed any more. It
// may run while replicas work, and may be called again after an error. It skips a login
// that another process replaces or removes meanwhile.
func (s *Store) Reseal(ctx context.Context) (int, error) {
	sealed := 0
	for after := ""; ; {
		page, err := s.Page(ctx, after, MaxPage)
		if err != nil {
			return sealed, err
		}
		for _, connection := range page {
			switch err := s.reseal(ctx, connection.Key); {
			case err == nil:
				sealed++
			case errors.Is(err, registry.ErrNotFound), errors.Is(err, registry.ErrNotLoggedIn), errors.Is(err, registry.ErrChanged):
			default:
				return sealed, err
			}
		}
		if len(page) < MaxPage {
			return sealed, nil
		}
		after = page[len(page)-1].Key
	}
}

// reseal seals one login again, under its lease. Without the lease, an update that is
// running would find other bytes than it read, and would not save the refreshed login.
func (s *Store) reseal(ctx context.Context, key string) error {
	held, err := s.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer held.release()
	r, before, err := s.login(ctx, "sealing a login anew", key)
	if err != nil {
		return err
	}
	after, err := s.seal(ctx, key, before)
	if err != nil {
		return err
	}
	return s.save(ctx, key, r.login.V, after)
}
