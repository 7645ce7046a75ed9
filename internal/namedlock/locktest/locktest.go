// Package locktest simulates the ports of a machine, for tests of the locks of
// package namedlock.
package locktest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Ports simulates the ports of a machine. It opens no real port, so that it works
// in a bubble of package synctest. In the zero Ports all ports are free. Its
// fields are set before the first use; it is safe for concurrent use.
type Ports struct {
	// Taken has the ports that another program holds.
	Taken map[int]bool
	// Fault is the error of every attempt to listen; nil for none.
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

// Tries gives the number of attempts to listen on a port.
func (p *Ports) Tries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries
}

type closer func()

func (c closer) Close() error { c(); return nil }
