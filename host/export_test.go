package host

// Sessions is how many sessions the transport remembers.
func (t *Transport) Sessions() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

const MaxSessions = maxSessions
