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

// leaveTime is how long an attempt waits after it was ended, so that net/http can
// take its request off the HTTP/2 connection. net/http does that in another
// goroutine within microseconds. Without the wait, a caller that closes the idle
// connections next would miss this one, because it still looks busy.
const leaveTime = 5 * time.Millisecond

// errSentBefore ends an attempt whose request net/http is about to send a second
// time.
var errSentBefore = errors.New("the request was sent before")

// passage observes one attempt on its way through net/http, and keeps net/http
// from sending the request twice.
//
// net/http sends a request without a body again by itself where a used connection
// fails, or where a server refuses an HTTP/2 stream or closes the connection. It
// would do so without checking the binding again and without counting a retry.
// The hooks of httptrace tell the passage that the request was written and that
// net/http gets a connection for it once more; it then ends the attempt. While
// nothing of the request was written, net/http may get another connection.
type passage struct {
	end   context.CancelCauseFunc
	hooks httptrace.ClientTrace
	// markName and markValue are a header that only this request has. A
	// transport of the caller may send requests of its own with the context of
	// this one, and the hooks are called for those too.
	markName, markValue string

	wrote atomic.Int32 // the version of HTTP that the request was written in
	// Whether the request got a connection at all, and the kind of the last one.
	got, http2, reused atomic.Bool
}

// watchPassage gives the context for one attempt and the passage that observes
// it. The caller calls end of the passage after the attempt.
func watchPassage(ctx context.Context, header http.Header) (context.Context, *passage) {
	p := &passage{markName: "User-Agent", markValue: UserAgent}
	if credential := header["Authorization"]; credential != nil {
		p.markName, p.markValue = "Authorization", credential[0]
	}
	ctx, p.end = context.WithCancelCause(ctx)
	p.hooks.WroteHeaderField, p.hooks.GetConn, p.hooks.GotConn = p.wroteHeaderField, p.getConn, p.gotConn
	return httptrace.WithClientTrace(ctx, &p.hooks), p
}

// wroteHeaderField is called before the last byte of a request's headers is sent.
// The version of HTTP shows in the name of the header, which is in lower case in
// HTTP/2.
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

// getConn is called when net/http needs a connection for the request. net/http
// leaves it out where it has just opened an HTTP/2 connection for another request
// and uses that; gotConn is called then, too.
func (p *passage) getConn(string) {
	if p.wrote.Load() != 0 {
		p.end(errSentBefore)
	}
}

// gotConn is called whenever the request gets a connection. Where the request was
// written before, it ends the attempt. HTTP/2 checks the context before it writes
// the request. HTTP/1 does not, so gotConn also closes its connection, which no
// other request uses.
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

// mayBeDead reports, for an attempt that ran out of time, whether its connection
// may be dead without net/http knowing, so that later requests would run out of
// time on it as well. net/http keeps an HTTP/2 connection in use. It closes the
// HTTP/1 connection of a request that ran out of time, but where that connection
// was a used one, the idle ones beside it are as old and may be dead too.
func (p *passage) mayBeDead() bool {
	return p.got.Load() && (p.http2.Load() || p.reused.Load())
}
