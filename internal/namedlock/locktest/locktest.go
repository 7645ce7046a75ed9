// Package locktest has ports that a test makes up, for the locks of package
// namedlock.
package locktest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Ports are those of a machine. They wait for nothing, so that they can be used
// in a bubble of package synctest. The zero Ports has all of them free. Its
// fields are set before the first use; it is safe for concurrent use.
type Ports struct {
	// Taken are ports that a foreign program has.
	Taken map[int]bool
	// Fault is what listening fails with; nil for nothing.
	Fault error

	mu    sync.Mutex
	tries int
}

// Listen takes a port.
func (p *Ports) Listen(port int) (io.Closer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries++
	fault := p.Fault
	if p.Taken[port] {
		fault = syscall.EADDRINUSE
	}
	if fault != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp4", Err: os.NewSyscallError("bind", fault)}
	}
	if p.Taken == nil {
		p.Taken = map[int]bool{}
	}
	p.Taken[port] = true
	return closer(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.Taken, port)
	}), nil
}

// Tries is how often a port was tried.
func (p *Ports) Tries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries
}

type closer func()

func (c closer) Close() error { c(); return nil }
