package agentauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	// maxCode is the greatest length of a code.
	maxCode = 4096
	// callbackLimit is how long a browser may take to send its request or to
	// read the page.
	callbackLimit = 5 * time.Second
	// pageLimit is how long a browser waits for the page with the outcome of the
	// login.
	pageLimit = 20 * time.Second
	// pageDelivery is how long the end of a login waits until that page is sent.
	pageDelivery = time.Second
)

// arrival is what the callback of a login carried: a code, or the refusal.
type arrival struct {
	code   registry.Secret
	denied bool
}

// verdict says what an address is that a browser requested.
type verdict int

const (
	foreign verdict = iota // it does not belong to this login
	again                  // it belongs to this login, whose callback came before
	taken                  // it is the callback of this login
)

// receive checks the query of a callback's address. It passes that of this login's first
// callback on to Wait.
func (l *Login) receive(rawQuery string) verdict {
	query, err := url.ParseQuery(rawQuery)
	if err != nil || len(query["state"]) != 1 ||
		subtle.ConstantTimeCompare([]byte(query["state"][0]), []byte(l.state.Reveal())) != 1 {
		return foreign
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.received {
		return again
	}
	l.received = true
	var came arrival
	switch codes := query["code"]; {
	case query.Has("error"):
		came.denied = true
	case len(codes) == 1 && isCode(codes[0]):
		came.code = registry.NewSecret(codes[0])
	}
	l.arrived <- came // has room for one
	return taken
}

// isCode reports whether text can be the code of a login.
func isCode(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxCode
}

// callback serves the address that the browser comes back to.
type callback struct {
	login    *Login
	listener net.Listener
	hosts    []string // the values of Host that a browser may send
	path     string
	server   *http.Server
	served   chan struct{}  // closed when the server has ended
	pages    sync.WaitGroup // requests of this login that wait for their page
}

// listen opens the port.
func listen(ctx context.Context, s beginSettings) (net.Listener, error) {
	network, host := "tcp4", "127.0.0.1"
	if s.ipv6 {
		network, host = "tcp6", "::1"
	}
	listener, err := s.listen(ctx, network, net.JoinHostPort(host, strconv.Itoa(s.port)))
	if err == nil {
		return listener, nil
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, feedback.OperationLogin).build()
	}
	f := failure{operation: feedback.OperationLogin, event: noListener}
	message, number := listenError(err, net.JoinHostPort(host, strconv.Itoa(s.port)), s.port)
	if number != nil {
		f.causes = []error{number}
	}
	f.message = message
	return nil, f.build()
}

// serve begins to answer at the listener.
func (l *Login) serve(listener net.Listener, hosts []string, path string) {
	c := &callback{login: l, listener: listener, hosts: hosts, path: path, served: make(chan struct{})}
	c.server = &http.Server{
		Handler:           c,
		ReadHeaderTimeout: callbackLimit,
		ReadTimeout:       callbackLimit,
		WriteTimeout:      pageLimit + callbackLimit,
		IdleTimeout:       callbackLimit,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // net/http would quote requests in it
	}
	c.server.SetKeepAlivesEnabled(false)
	l.callback = c
	go func() {
		defer close(c.served)
		_ = c.server.Serve(listener) // it ends with the listener
	}()
}

// close waits until the page of the login is sent, for pageDelivery at most, and then
// closes the listener and every connection.
func (c *callback) close() {
	_ = c.listener.Close()
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		c.pages.Wait()
	}()
	timer := time.NewTimer(pageDelivery)
	defer timer.Stop()
	select {
	case <-delivered:
	case <-timer.C:
	}
	_ = c.server.Close()
	<-c.served
	<-delivered
}

// ServeHTTP answers a request to the callback. Any request but the callback of this login
// learns nothing about the login, and does not end it.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !c.isHere(r.Host) || r.URL.EscapedPath() != c.path {
		writePage(w, http.StatusNotFound, pageNotFound)
		return
	}
	if !c.enter() {
		writePage(w, http.StatusConflict, pageAgain)
		return
	}
	defer c.pages.Done()
	switch c.login.receive(r.URL.RawQuery) {
	case foreign:
		writePage(w, http.StatusBadRequest, pageForeign)
	case again:
		writePage(w, http.StatusConflict, pageAgain)
	default:
		writePage(w, http.StatusOK, c.outcome(r.Context()))
	}
}

// enter adds a request to pages. It reports false where the login has ended.
func (c *callback) enter() bool {
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	if c.login.over {
		return false
	}
	c.pages.Add(1)
	return true
}

func (c *callback) isHere(host string) bool {
	for _, known := range c.hosts {
		if host == known {
			return true
		}
	}
	return false
}

// outcome waits until the outcome of the login is known, and gives the page that says it.
func (c *callback) outcome(ctx context.Context) page {
	timer := time.NewTimer(pageLimit)
	defer timer.Stop()
	select {
	case <-c.login.known:
	case <-timer.C:
		return pageUnknown
	case <-ctx.Done():
		return pageUnknown
	}
	switch err := c.login.outcome; {
	case err == nil:
		return pageDone
	case errors.Is(err, feedback.CodeAccessDenied):
		return pageDenied
	default:
		return pageFailed
	}
}

// page is what the browser shows: a heading and what to do, in English and in
// Chinese.
type page struct{ heading, text, chinese string }

var (
	pageDone = page{"You are logged in", "You can close this page and go back to the program.",
		"登录成功。可以关闭此页面，回到原来的程序。"}
	pageDenied = page{"The login was refused", "Nothing was changed. You can close this page and go back to the program.",
		"登录已被拒绝，没有任何更改。可以关闭此页面，回到原来的程序。"}
	pageFailed = page{"The login did not work", "You can close this page and go back to the program: it says why.",
		"登录没有成功。可以关闭此页面，回到原来的程序查看原因。"}
	pageUnknown = page{"Go back to the program", "It says what became of the login. You can close this page.",
		"可以关闭此页面，回到原来的程序查看登录结果。"}
	pageAgain = page{"This login has come back already", "Go back to the program: it says what became of the login. You can close this page.",
		"此次登录已经返回过。可以关闭此页面，回到原来的程序查看登录结果。"}
	pageForeign = page{"This is not the page of a login", "If you were logging in, open the address that the program shows.",
		"此地址不属于正在进行的登录。如需登录，请打开程序显示的地址。"}
	pageNotFound = page{"There is nothing here", "If you were logging in, open the address that the program shows.",
		"此地址没有内容。如需登录，请打开程序显示的地址。"}
)

// writePage writes a whole answer and flushes it. Without the flush the end of the program,
// which often follows at once, would cut the page off.
func writePage(w http.ResponseWriter, status int, p page) {
	body := "<!DOCTYPE html>\n" +
		`<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
		`<meta name="color-scheme" content="light dark"><title>` + p.heading + "</title></head>\n" +
		"<body><main><h1>" + p.heading + "</h1>\n<p>" + p.text + "</p>\n" + `<p lang="zh-CN">` + p.chinese + "</p></main></body></html>\n"
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Connection", "close")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	_ = http.NewResponseController(w).Flush()
}

// Paste accepts the address at which a browser on another machine ended, because it could
// not reach this one. The person copies it from the browser's address bar. Paste checks it
// like a callback. After nil, [Login.Wait] returns the outcome of the login; after an error
// the login goes on waiting.
func (l *Login) Paste(ctx context.Context, address string) error {
	const login = feedback.OperationLogin
	switch {
	case ctx == nil:
		return invalid(login, "The context is nil.")
	case l == nil || l.callback == nil:
		return invalid(login, "The login was not begun by Begin.")
	case ctx.Err() != nil:
		return ended(ctx, login).build()
	}
	address = strings.TrimSpace(address)
	if !strings.Contains(address, "://") {
		address = "http://" + address // some browsers do not show the scheme
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" || parsed.User != nil || parsed.Fragment != "" || !l.callback.isHere(parsed.Host) || parsed.EscapedPath() != l.callback.path {
		return invalid(login, "The pasted text is not an address that this login waits at. Paste the whole address that the browser ended at.")
	}
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if over {
		return invalid(login, "The login has ended already.")
	}
	switch l.receive(parsed.RawQuery) {
	case foreign:
		return invalid(login, "The pasted address is not whole, or is that of another login. Paste the whole address that the browser ended at.")
	case again:
		return invalid(login, "The browser's answer to this login has come already.")
	}
	return nil
}
