package registry

import (
	"context"
	"io"
)

// PortLocks are the locks of one process.
type PortLocks struct{ locks portLocks }

// NewPortLocks makes the locks of one process; listen is nil for real ports.
func NewPortLocks(listen func(port int) (io.Closer, error)) *PortLocks {
	return &PortLocks{portLocks{listen: listen}}
}

func (l *PortLocks) Lock(ctx context.Context, name string) (unlock func(), err error) {
	return l.locks.lock(ctx, name)
}

// PortOf gives the port of a lock.
func PortOf(name string) int { return portOf(name) }
