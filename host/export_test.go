package host

import (
	"context"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
)

// RotateAfterGivingUp lets a flight of the original's session end, and then lets the
// Hub's answer come: what a process meets that was suspended in the middle of a refresh.
func (t *Transport) RotateAfterGivingUp(original Original, replaced, next registry.Credentials) error {
	s, err := t.session(original)
	if err != nil {
		return err
	}
	defer t.release(s)
	s.mu.Lock()
	f := s.newFlight(replaced.AccessToken)
	s.mu.Unlock()
	f.sent.Store(true)
	s.land(f)(context.Background())
	s.exchangedAt(f, time.Now(), replaced, next, false, nil)
	return nil
}

// Sessions is how many sessions the transport remembers.
func (t *Transport) Sessions() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

const MaxSessions = maxSessions
