package boundary

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// leaveTime is for net/http to take a request that was ended off its HTTP/2
// connection, which it does in a goroutine of its own, in microseconds. A caller
// that closes the idle connections next finds that one among them.
const leaveTime = 5 * time.Millisecond

// errSentBefore ends an attempt that net/http is about to make once more.
var errSentBefore = errors.New("the request was sent before")

// passage is what is seen of one attempt on its way through net/http.
//
// A GET must not have a body, and net/http sends a request without one again by
// itself where a used connection fails, or a server refuses an HTTP/2 stream or
// goes away. That would be past the checks and the count of this package. A
// passage ends the attempt there: it knows from the hooks of httptrace that the
// request has been written, and that a connection is looked for once more. An
// attempt of which nothing was written may look for another connection.
type passage struct {
	end   context.CancelCauseFunc
	hooks httptrace.ClientTrace
	// markName and markValue are a header of this request alone: with the
	// caller's transport, other requests may go out within its context.
	markName, markValue string

	wrote atomic.Int32 // the version of HTTP that the request was written in
	// The connection that was had last.
	got, http2, reused atomic.Bool
}

// watchPassage gives the context of one attempt and what is seen of it. The
// context has to be ended after the attempt.
func watchPassage(ctx context.Context, header http.Header) (context.Context, *passage) {
	p := &passage{markName: "User-Agent", markValue: UserAgent}
	if credential := header["Authorization"]; credential != nil {
		p.markName, p.markValue = "Authorization", credential[0]
	}
	ctx, p.end = context.WithCancelCause(ctx)
	p.hooks.WroteHeaderField, p.hooks.GetConn, p.hooks.GotConn = p.wroteHeaderField, p.getConn, p.gotConn
	return httptrace.WithClientTrace(ctx, &p.hooks), p
}

// wroteHeaderField is called before the last byte of a request's headers is on
// the wire. HTTP/2 has lower-case names.
func (p *passage) wroteHeaderField(name string, values []string) {
	if !strings.EqualFold(name, p.markName) || !slices.Contains(values, p.markValue) {
		return
	}
	version := int32(1)
	if name != p.markName {
		version = 2
	}
	p.wrote.Store(version)
}

// getConn is called before most attempts: not where net/http has just brought a
// new HTTP/2 connection for somebody else.
func (p *passage) getConn(string) {
	if p.wrote.Load() != 0 {
		p.end(errSentBefore)
	}
}

// gotConn is called before every attempt. HTTP/2 looks at the context once more
// before it writes. HTTP/1 does not, and so the connection, which nobody else
// uses, is closed before the request can be written to it.
func (p *passage) gotConn(info httptrace.GotConnInfo) {
	wrote := p.wrote.Load()
	isHTTP2 := wrote == 2
	if secure, ok := info.Conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		isHTTP2 = secure.ConnectionState().NegotiatedProtocol == "h2"
	}
	p.got.Store(true)
	p.http2.Store(isHTTP2)
	p.reused.Store(info.Reused)
	if wrote == 0 {
		return
	}
	p.end(errSentBefore)
	if !isHTTP2 {
		info.Conn.Close()
	}
}

// mayBeDead reports that the connection of an attempt that ran out of time may
// have died without a sign, and that net/http may go on using it, or others
// that died with it. It closes an HTTP/1 connection whose request was given up;
// what is idle beside it is as old.
func (p *passage) mayBeDead() bool {
	return p.got.Load() && (p.http2.Load() || p.reused.Load())
}
