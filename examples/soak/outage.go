package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
)

// errAway is what a store says that is away.
var errAway = errors.New("the store is away, says the soak")

// trouble is what is the matter with the store of all transports; "" for nothing.
type trouble string

const (
	troubleAway   trouble = "store away"             // for reads and saves
	troubleSaves  trouble = "store that cannot save" // and can be read
	troubleUnseen trouble = "saves whose answer is lost"
)

// outages are the times when the store of a run fails. It comes back each time.
type outages struct {
	soak    *soak
	history history[trouble]

	mu      sync.Mutex
	unsaved map[string]int    // by session: the transport that has a rotation of it that is not saved
	follows map[string]string // by access token: that of the rotation that follows it, and was not saved at once
}

func (s *soak) newOutages() *outages {
	o := &outages{soak: s, unsaved: map[string]int{}, follows: map[string]string{}}
	o.history.clock = s.clock
	o.history.set("")
	return o
}

// strike makes the store fail for a while.
func (o *outages) strike(ctx context.Context, r *rand.Rand) {
	kinds := []trouble{troubleAway, troubleSaves, troubleUnseen}
	kind := kinds[r.IntN(len(kinds))]
	o.history.set(kind)
	o.soak.tally.fault(string(kind))
	o.soak.pause(ctx, time.Duration(50+r.IntN(1500))*time.Millisecond)
	o.history.set("")
}

// troubled reports whether the store failed at any moment between two instants.
func (o *outages) troubled(from, until time.Time) bool {
	for _, t := range o.history.between(from, until) {
		if t != "" {
			return true
		}
	}
	return false
}

// heldBy gives the transport that holds a rotation of a session which is not
// saved.
func (o *outages) heldBy(session string) (transport int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	transport, ok = o.unsaved[session]
	return transport, ok
}

// following gives the access token that follows this one and was not saved at
// once; "" for none.
func (o *outages) following(access string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.follows[access]
}

func (o *outages) lose(transport int, current, next registry.Credentials) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.unsaved[current.SessionID]; !known {
		o.soak.tally.session("rotations that were not saved at once")
	}
	o.unsaved[current.SessionID] = transport
	o.follows[current.AccessToken.Reveal()] = next.AccessToken.Reveal()
}

func (o *outages) saved(session string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.unsaved[session]; known {
		o.soak.tally.session("rotations that were saved later")
		delete(o.unsaved, session)
	}
}

// frailStore is a store as one transport has it, which fails now and then.
type frailStore struct {
	registry.Store
	outages   *outages
	transport int
}

func (s frailStore) Connection(ctx context.Context, key string) (registry.Connection, error) {
	if s.outages.history.now() == troubleAway {
		return registry.Connection{}, errAway
	}
	return s.Store.Connection(ctx, key)
}

func (s frailStore) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	if s.outages.history.now() == troubleAway {
		return registry.Credentials{}, errAway
	}
	return s.Store.Credentials(ctx, key)
}

// UpdateCredentials does not begin what it could not save. A save that fails
// later it tries again for a while, or not: a store that gives up at once is
// what makes the transport keep a rotation.
func (s frailStore) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	switch s.outages.history.now() {
	case troubleAway, troubleSaves:
		return errAway
	}
	unseen := false
	err := s.Store.UpdateCredentials(ctx, key, func(ctx context.Context, current registry.Credentials) (registry.Credentials, error) {
		next, err := update(ctx, current)
		if err != nil || next.Equal(current) {
			return next, err
		}
		patience := time.Duration(rand.IntN(2)) * time.Second
		for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			switch now := s.outages.history.now(); {
			case now == "", now == troubleUnseen:
				unseen = now == troubleUnseen
				s.outages.saved(current.SessionID)
				return next, nil
			case time.Since(start) >= patience:
				s.outages.lose(s.transport, current, next)
				return current, errAway
			}
		}
	})
	if err == nil && unseen {
		return errAway
	}
	return err
}
