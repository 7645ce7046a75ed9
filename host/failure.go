package host

import (
	"errors"

	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/registry"
)

// failure says what an error of a check means for an inspection that has begun. A
// connection or login that existed at the beginning and was removed or replaced since
// is a changed binding.
func (s *session) failure(err error) failures.Failure {
	switch {
	case errors.Is(err, errNoLogin):
		return failures.Failure{Event: failures.NoAuthorization, Causes: []error{registry.ErrNotLoggedIn}}
	case errors.Is(err, errNotOriginal):
		return failures.Failure{Event: failures.BindingChanged}
	case errors.Is(err, registry.ErrNotFound), errors.Is(err, registry.ErrNotLoggedIn), errors.Is(err, registry.ErrChanged):
		failure := storeFailure(err)
		failure.Event, failure.Message = failures.BindingChanged, ""
		if errors.Is(err, registry.ErrNotFound) {
			failure.Message = "The store has no connection of this key. Bring back the one that the operation was sent under; no answer is given under another."
		}
		return failure
	default:
		return storeFailure(err)
	}
}

// storeFailure gives the failure of a store that failed. It shows the text of an error of
// package registry. Of any other error it shows only the sentinels that it matches,
// because its text may quote a secret.
func storeFailure(err error) failures.Failure {
	failure := failures.Failure{Event: failures.StoreFailed}
	if known, ok := errors.AsType[*registry.Error](err); ok {
		failure.Message = "The connection store failed, so any answer is withheld: " + known.Error() + "."
		failure.Causes = []error{known}
		return failure
	}
	failure.Causes = sentinelsOf(err)
	return failure
}

// sentinelsOf gives the sentinels of package registry that an error of a store matches.
func sentinelsOf(err error) (found []error) {
	for _, sentinel := range []error{registry.ErrNotFound, registry.ErrNotLoggedIn, registry.ErrDamaged, registry.ErrChanged, registry.ErrNotSynced, registry.ErrLocked} {
		if errors.Is(err, sentinel) {
			found = append(found, sentinel)
		}
	}
	return found
}
