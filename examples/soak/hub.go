package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// The paths of a Hub that this program tells apart.
const (
	refreshPath      = "/agent-auth/v1/token"
	capabilitiesPath = "/agent-api/v1/tool-invocations/inspection-capabilities"
	receiptPrefix    = "/agent-api/v1/tool-invocations/"
	receiptSuffix    = "/receipt"
)

// hub is one mock Hub with its proxy, and the connections to it.
type hub struct {
	*hubtest.Hub
	name      string
	soak      *soak
	tls       bool
	server    *httptest.Server
	proxy     *proxy
	url       string // as the SDK knows it: the proxy's
	transport *http.Transport

	requests    atomic.Int64
	connections []*connection
	performed   int             // business operations of this program's own making
	had         map[string]bool // invocation ids that may have twins
}

// hubKinds are the Hubs of a run.
var hubKinds = []struct {
	name       string
	tls, http2 bool
	// access is how long access tokens live. One that lives little longer than
	// the 30 seconds before which the SDK renews it makes sessions rotate on
	// and on.
	access time.Duration
}{
	{"tls-http2", true, true, 31 * time.Second},
	{"tls-http1", true, false, 15 * time.Minute},
	{"plain-http1", false, false, 33 * time.Second},
}

func (s *soak) newHub(kind int) (*hub, error) {
	k := hubKinds[kind]
	h := &hub{
		Hub:  hubtest.New(hubtest.WithClock(s.clock.now), hubtest.WithLifetimes(k.access, time.Hour)),
		name: k.name, soak: s, tls: k.tls, had: map[string]bool{},
	}
	h.server = httptest.NewUnstartedServer(h)
	h.server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would have much to say
	h.server.EnableHTTP2 = k.http2
	scheme := "http://"
	if k.tls {
		scheme = "https://"
		h.server.StartTLS()
	} else {
		h.server.Start()
	}
	var err error
	h.proxy, err = newProxy(h.server.Listener.Addr().String(), scripts(s.config.seed, k.name, k.tls), s.tally.fault)
	if err != nil {
		h.server.Close()
		return nil, err
	}
	h.url = scheme + h.proxy.address()
	h.transport = h.server.Client().Transport.(*http.Transport).Clone()
	h.transport.MaxIdleConnsPerHost = 64
	h.transport.DialContext = nil // the test server's would lead to it past the proxy
	return h, nil
}

func (h *hub) close() {
	h.transport.CloseIdleConnections()
	h.proxy.close()
	h.server.CloseClientConnections()
	h.server.Close()
	h.Close()
}

// ServeHTTP is the Hub, with an eye on refresh tokens and faults.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := h.requests.Add(1) - 1; n%perBlock == 0 {
		h.Inject(block(h.soak.config.seed, h.name, int(n/perBlock), h.soak.tally.fault)...)
	}
	seen := &seenAnswer{ResponseWriter: w, hub: h}
	defer seen.over()
	if r.Method == http.MethodPost && r.URL.Path == refreshPath {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var sentThatOften bool
		if seen.login, sentThatOften = h.soak.tokens.arrived(refreshTokenIn(body)); !sentThatOften {
			h.soak.breaks(refreshIsOnce, "a refresh token of session %s reached %s more often than the SDK sent it", seen.login.id, h.name)
		}
	}
	h.Hub.ServeHTTP(seen, r)
}

func refreshTokenIn(body []byte) string {
	var request struct {
		RefreshToken string `json:"refresh_token"`
	}
	_ = json.Unmarshal(body, &request)
	return request.RefreshToken
}

// seenAnswer looks at what the Hub says before anybody else can.
type seenAnswer struct {
	http.ResponseWriter
	hub   *hub
	login *login // whose refresh this is; nil for every other request

	status int
}

func (a *seenAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *seenAnswer) WriteHeader(status int) {
	a.status = status
	a.look()
	a.ResponseWriter.WriteHeader(status)
}

// look notes what a refresh did to its session.
func (a *seenAnswer) look() {
	if a.login == nil {
		return
	}
	s, _ := a.hub.Session(a.login.id)
	a.hub.soak.tokens.learn(a.login, s)
	a.login.happened(a.hub.soak.clock.now(), s.Revoked)
}

func (a *seenAnswer) over() {
	a.look()
	if a.status == 0 {
		a.hub.soak.tally.fault(faultLost)
	}
}

// invocationIn gives the invocation id of a receipt's path; "" for another path.
func invocationIn(path string) string {
	id, ok := strings.CutPrefix(path, receiptPrefix)
	if id, ofReceipt := strings.CutSuffix(id, receiptSuffix); ok && ofReceipt {
		return id
	}
	return ""
}
