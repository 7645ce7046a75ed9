package page_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// pipes is a listener without a network and without buffers: who does not read
// stops who writes, at the first byte.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.close.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// follow serves the page of b and asks for its events, once for each call of
// dial. Ended gets every connection that the server has done with.
func follow(b *bench) (dial func() net.Conn, ended <-chan net.Conn) {
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	done := make(chan net.Conn, 100)
	var ends sync.Map // ours, by theirs
	server := &http.Server{Handler: b.page, ConnState: func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			ours, _ := ends.Load(c)
			done <- ours.(net.Conn)
		}
	}}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	b.t.Cleanup(func() {
		server.Close()
		<-served
	})
	return func() net.Conn {
		ours, theirs := net.Pipe()
		ends.Store(theirs, ours)
		listener.conns <- theirs
		if _, err := io.WriteString(ours, "GET /mockhub/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			b.t.Fatal(err)
		}
		return ours
	}, done
}

// An arrival is an event and when it came.
type arrival struct {
	state
	at time.Duration
}

// read gives the events of a reader who takes them as they come.
func read(t *testing.T, conn net.Conn) <-chan arrival {
	start := time.Now()
	arrivals := make(chan arrival, 1000)
	go func() {
		defer close(arrivals)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return
		}
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "data: ") {
				arrivals <- arrival{decode(t, line), time.Since(start)}
			}
		}
	}()
	return arrivals
}

func TestReaderFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		dial, _ := follow(b)
		arrivals := read(t, dial())
		if first := <-arrivals; first.at != 0 || len(first.Invocations) != 0 {
			t.Errorf("at %v: %+v", first.at, first.state)
		}
		// A burst is one event, and at most a fifth of a second late.
		for range 1000 {
			if _, err := b.hub.Submit(b.alice.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool}); err != nil {
				t.Fatal(err)
			}
		}
		events, last := 0, arrival{}
		for last.Counters.Performed < 1000 {
			last = <-arrivals
			events++
		}
		if events > 2 || last.at > 200*time.Millisecond {
			t.Errorf("%d events for a burst, the last at %v", events, last.at)
		}
		// What goes on comes at most five times in a second.
		<-time.After(time.Second)
		start := time.Now()
		for range 100 {
			b.hub.SetPaused(!b.hub.Paused())
			<-time.After(10 * time.Millisecond)
		}
		if n := len(arrivals); n < 4 || n > 6 {
			t.Errorf("%d events in %v", n, time.Since(start))
		}
		// And where nothing happens, nothing comes.
		<-time.After(time.Second)
		for len(arrivals) > 0 {
			last = <-arrivals
		}
		<-time.After(10 * time.Minute)
		if len(arrivals) != 0 || last.Chosen["pause"] != "off" {
			t.Errorf("%d events of nothing; paused: %s", len(arrivals), last.Chosen["pause"])
		}
		// But for what time alone changes: here, that access tokens expire.
		<-time.After(5 * time.Minute)
		if last = <-arrivals; len(arrivals) != 0 || last.Sessions[0].State != "access token expired" {
			t.Errorf("after the tokens' time: %d events more, %+v", len(arrivals), last.Sessions[0])
		}
	})
}

// A reader who does not read holds up neither the Hub nor the other readers,
// and is dropped.
func TestStuckReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		dial, ended := follow(b)
		stuck := dial()
		synctest.Wait() // in the middle of its first event
		arrivals := read(t, dial())
		<-arrivals
		start := time.Now()
		for range 100 {
			if _, err := b.hub.Submit(b.alice.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool}); err != nil {
				t.Fatal(err)
			}
			b.do("pause", "", "on")
			b.do("pause", "", "off")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the Hub was held up for %v", took)
		}
		for last := (arrival{}); last.Counters.Performed < 100; {
			last = <-arrivals
		}
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("the other reader was held up for %v", took)
		}
		if c := <-ended; c != stuck || time.Since(start) != 5*time.Second {
			t.Errorf("dropped after %v", time.Since(start))
		}
		if _, err := b.hub.Submit(b.alice.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool}); err != nil {
			t.Fatal(err)
		}
		if next := <-arrivals; next.Counters.Performed != 101 {
			t.Errorf("the other reader got %+v", next.Counters)
		}
	})
}

// There are only so many readers: the one that came first makes room.
func TestTooManyReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		dial, _ := follow(b)
		var readers []<-chan arrival
		for range 18 {
			readers = append(readers, read(t, dial()))
			synctest.Wait()
			<-readers[len(readers)-1]
		}
		<-time.After(time.Second)
		b.hub.SetPaused(true)
		<-time.After(time.Second)
		for i, arrivals := range readers {
			if followed := len(arrivals) == 1; followed != (i >= 2) {
				t.Errorf("reader %d follows the Hub: %t", i, followed)
			}
		}
	})
}

// A HEAD of the event stream follows nothing, and takes nobody's place.
func TestHeadEvictsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		dial, _ := follow(b)
		var readers []<-chan arrival
		for range 16 {
			readers = append(readers, read(t, dial()))
			synctest.Wait()
			<-readers[len(readers)-1]
		}
		for range 3 {
			if w := b.serve(httptest.NewRequest(http.MethodHead, "/mockhub/events", nil)); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" {
				t.Errorf("HEAD: %d %v", w.Code, w.Header())
			}
		}
		<-time.After(time.Second)
		b.hub.SetPaused(true)
		<-time.After(time.Second)
		for i, arrivals := range readers {
			if len(arrivals) != 1 {
				t.Errorf("reader %d follows the Hub no more", i)
			}
		}
	})
}

// Who goes away is forgotten, and a server that closes waits for no reader.
func TestReadersEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		dial, ended := follow(b)
		for range 40 {
			conn := dial()
			<-read(t, conn)
			conn.Close()
			if c := <-ended; c != conn {
				t.Error("another one ended")
			}
		}
		<-read(t, dial())
	})
}
