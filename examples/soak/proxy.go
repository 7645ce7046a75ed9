package main

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A proxy stands between the SDK and one Hub and does to each connection what
// its script says.
//
// It is made for this program, because it has to end where it began and to make
// the same faults for the same seed. Toxiproxy (v2.5) was tried first: each
// connection that it truncates leaves goroutines behind for good, and it throws
// its dice with the global random source.
type proxy struct {
	listener net.Listener
	upstream string
	script   func(connection int) script
	met      func(kind string)

	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	links   map[*link]bool
}

func newProxy(upstream string, scripts func(int) script, met func(string)) (*proxy, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, upstream: upstream, script: scripts, met: met, links: map[*link]bool{}}
	p.running.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// close ends every connection and waits until all is over.
func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.close(false)
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept() {
	for n := 0; ; n++ {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			n--
			continue
		}
		number := n
		p.running.Go(func() { p.serve(client.(*net.TCPConn), p.script(number)) })
	}
}

func (p *proxy) serve(client *net.TCPConn, s script) {
	if s.refused {
		p.met(faultRefused)
		client.SetLinger(0)
		client.Close()
		return
	}
	conn, err := net.Dial("tcp4", p.upstream)
	if err != nil {
		client.Close()
		return
	}
	l := &link{met: p.met, client: client, hub: conn.(*net.TCPConn), over: make(chan struct{})}
	p.mu.Lock()
	closed := p.closed
	p.links[l] = true
	p.mu.Unlock()
	if closed {
		l.close(false)
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(l.hub, l.client, s.up) })
	pumps.Go(func() { l.pump(l.client, l.hub, s.down) })
	pumps.Wait()
	l.close(false)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// A link is one connection of a proxy, with both its sides.
type link struct {
	met         func(string)
	client, hub *net.TCPConn

	once sync.Once
	over chan struct{} // closed with the link
}

func (l *link) close(reset bool) {
	l.once.Do(func() {
		if reset {
			l.client.SetLinger(0)
			l.hub.SetLinger(0)
		}
		close(l.over)
		l.client.Close()
		l.hub.Close()
	})
}

// wait reports whether the link outlived the time.
func (l *link) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}

// pump moves one direction of the stream and meets the faults on its way.
func (l *link) pump(to, from *net.TCPConn, faults []fault) {
	buffer := make([]byte, 16<<10)
	passed, slice := 0, 0 // bytes; of the rest, how many go out in slices
	for {
		n, err := from.Read(buffer)
		for data := buffer[:n]; len(data) > 0; {
			due := len(data)
			if len(faults) > 0 {
				due = min(due, faults[0].at-passed)
			}
			if due > 0 {
				if slice > 0 {
					due = min(due, slice, 1+passed%7)
					slice -= due
				}
				if _, err := to.Write(data[:due]); err != nil {
					l.close(false)
					return
				}
				data, passed = data[due:], passed+due
				continue
			}
			met := faults[0]
			faults = faults[1:]
			l.met(met.kind)
			switch met.kind {
			case faultDelayed:
				if !l.wait(met.time) {
					return
				}
			case faultSliced:
				slice = met.bytes
			case faultGarbled:
				data[0] = met.garble(data[0])
			case faultTruncated:
				l.close(false)
				return
			case faultReset:
				l.close(true)
				return
			case faultSwallowed: // and all that follows
				l.wait(met.time)
				l.close(false)
				return
			}
		}
		switch {
		case err == io.EOF:
			to.CloseWrite()
			return
		case err != nil:
			l.close(false)
			return
		}
	}
}
